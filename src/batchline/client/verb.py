"""A verb of both clients, written once: as steps."""

from collections.abc import Callable, Coroutine
from functools import wraps
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

from batchline.client.exchange import Steps

__all__ = ["Awaits", "Verb", "Waits"]

P = ParamSpec("P")
T = TypeVar("T")


class Waits(Protocol):
    """A client whose verbs return when they are done."""

    def waits(self, steps: Steps[T]) -> T:
        """Take the steps."""


class Awaits(Protocol):
    """A client whose verbs are awaited."""

    async def awaits(self, steps: Steps[T]) -> T:
        """Take the steps."""


class Verb(Generic[P, T]):
    """What a client can be asked to do. Each kind of client takes its steps in its own way."""

    def __init__(self, steps: Callable[Concatenate[Any, P], Steps[T]]) -> None:
        self.steps = steps
        self.__doc__ = steps.__doc__
        self.__name__ = getattr(steps, "__name__", "")

    @overload
    def __get__(self, client: None, kind: object = None) -> "Verb[P, T]": ...
    @overload
    def __get__(self, client: Waits, kind: object = None) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: Awaits, kind: object = None) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, client: Any, kind: object = None) -> Any:
        if client is None:
            return self
        take: Callable[[Steps[T]], Any] = client.waits if hasattr(client, "waits") else client.awaits
        steps = MethodType(self.steps, client)

        @wraps(steps)
        def call(*arguments: P.args, **named: P.kwargs) -> Any:
            return take(steps(*arguments, **named))

        return call
