"""From a method and an address to an operation. Each segment is decoded by itself, so that a name may have slashes."""

from collections.abc import Iterable
from typing import Generic, NamedTuple, Protocol, TypeVar
from urllib.parse import unquote_to_bytes

from batchline.core.name import check_name
from batchline.errors import UnknownRoute, WrongContent, WrongMethod

__all__ = ["Found", "Router"]


class Routed(Protocol):
    """What has an address."""

    @property
    def method(self) -> str:
        """How one asks."""

    @property
    def path(self) -> str:
        """Where."""

    @property
    def aliases(self) -> tuple[str, ...]:
        """Where else."""


R = TypeVar("R", bound=Routed)


class Found(NamedTuple, Generic[R]):
    """An operation, and the names in the address."""

    operation: R
    path: dict[str, str]


class _Place(Generic[R]):
    """What follows a part of an address: by its next segment, or by any."""

    def __init__(self) -> None:
        self.named: dict[str, _Place[R]] = {}
        self.any: _Place[R] | None = None
        self.operations: dict[str, R] = {}


class Router(Generic[R]):
    """A tree of segments; what is spelled out goes before what is in braces."""

    def __init__(self, operations: Iterable[R]) -> None:
        self._root: _Place[R] = _Place()
        for operation in operations:
            for path in (operation.path, *operation.aliases):
                self._add(path, operation)

    def _add(self, path: str, operation: R) -> None:
        place = self._root
        for segment in path.split("/")[1:]:
            if segment.startswith("{"):
                place.any = place.any or _Place()
                place = place.any
            else:
                place = place.named.setdefault(segment, _Place())
        place.operations[operation.method] = operation

    def find(self, method: str, raw_path: bytes) -> Found[R]:
        """The operation under an address; UnknownRoute or WrongMethod if there is none."""
        segments = raw_path.split(b"/")[1:]
        place = self._place(self._root, segments, method)
        if place is None:
            raise UnknownRoute(f"there is nothing under {raw_path.decode(errors='replace')[:300]}")
        operation = place.operations.get(method)
        if operation is None:
            raise WrongMethod(f"expected {', '.join(sorted(place.operations))}, got {method[:20]}")
        return Found(operation, _names(operation, segments))

    def methods(self, raw_path: bytes) -> list[str]:
        """How one may ask under an address."""
        place = self._place(self._root, raw_path.split(b"/")[1:], "")
        return sorted(place.operations) if place else []

    def _place(self, place: _Place[R], segments: list[bytes], method: str) -> _Place[R] | None:
        """The place at the end of segments: one that knows the method, if any does."""
        if not segments:
            return place if place.operations else None
        first, rest = segments[0], segments[1:]
        named = place.named.get(first.decode("latin-1"))
        found = self._place(named, rest, method) if named else None
        if (found is None or method not in found.operations) and place.any is not None and first:
            other = self._place(place.any, rest, method)
            return other if found is None or (other and method in other.operations) else found
        return found


def _names(operation: Routed, segments: list[bytes]) -> dict[str, str]:
    # Not strict: an alias has no names, and may be longer.
    pairs = zip(operation.path.split("/")[1:], segments, strict=False)
    return {name[1:-1]: _decoded(segment) for name, segment in pairs if name.startswith("{")}


def _decoded(segment: bytes) -> str:
    try:
        return check_name("a name in the address", unquote_to_bytes(segment).decode())
    except UnicodeDecodeError as error:
        raise WrongContent(f"expected UTF-8 in the address, got {segment.decode('latin-1')[:300]!r}") from error
