"""Sinks of other people: `python:package.module:ClassName`, a class with a method `send`."""

import importlib
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from batchline.core.consignment import Consignment
from batchline.errors import BatchlineError, InvalidSink, did_you_mean, shown
from batchline.sinks.sink import Answer, Sink

__all__ = ["PluginSink", "open_plugin"]


class PluginSink(Sink):
    """Somebody's object as a sink; only `send` must be there."""

    def __init__(self, plugin: Any):
        self.most = _most(plugin)
        self._plugin, self._close = plugin, getattr(plugin, "close", None)

    def send(self, parcels: Sequence[Consignment]) -> Awaitable[Answer] | Answer:
        """Deliver parcels, as the plugin does: what it makes in a thread, if it is async, is awaited in the loop."""
        answer: Awaitable[Answer] | Answer = self._plugin.send(parcels)
        return answer

    async def close(self) -> None:
        """Let the plugin let go of what is open, if it has a word for that."""
        answer = self._close() if self._close else None
        if inspect.isawaitable(answer):
            await answer


def open_plugin(name: str, options: Mapping[str, object]) -> Sink:
    """The sink of a class, by `package.module:ClassName`; options are its keyword arguments."""
    kind = _find(name)
    _check_options(name, kind, options)
    try:
        plugin = kind(**options)
    except BatchlineError:
        raise
    except Exception as error:
        # Without what it says: that may quote an option, and so a password.
        raise InvalidSink(f"python:{name} cannot be made: {type(error).__name__}") from error
    if isinstance(plugin, Sink):
        return plugin
    if not callable(getattr(plugin, "send", None)):
        raise InvalidSink(f"python:{name} must have a method send(parcels), it has none")
    return PluginSink(plugin)


def _find(name: str) -> Callable[..., Any]:
    module_name, colon, class_name = name.partition(":")
    if not (module_name and colon and class_name):
        raise InvalidSink(f"expected python:package.module:ClassName, got python:{name}")
    try:
        module = importlib.import_module(module_name)
    except (ImportError, TypeError) as error:
        raise InvalidSink(f"python:{name}: {module_name} cannot be imported: {error}") from error
    found = getattr(module, class_name, None)
    if not callable(found):
        near = did_you_mean(class_name, vars(module))
        raise InvalidSink(f"python:{name}: {module_name} has no class {class_name}{near}")
    return found  # type: ignore[no-any-return]


def _check_options(name: str, kind: Callable[..., Any], options: Mapping[str, object]) -> None:
    try:
        signature = inspect.signature(kind)
    except (ValueError, TypeError):
        return  # written in C: it says itself
    try:
        signature.bind(**options)
    except TypeError as error:
        unknown = next((option for option in options if option not in signature.parameters), "")
        near = did_you_mean(unknown, signature.parameters)
        raise InvalidSink(
            f"python:{name} takes the options {', '.join(signature.parameters) or 'none'}; {error}{near}"
        ) from error


def _most(plugin: Any) -> int:
    most: object = getattr(plugin, "most", Sink.most)
    if type(most) is not int or most < 1:
        raise InvalidSink(f"most, how many parcels a sink takes at once, must be 1 or more, got {shown(most)}")
    return most
