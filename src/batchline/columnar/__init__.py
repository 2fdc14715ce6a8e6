"""The rules of stages 1 and 2 on Arrow columns, with compiled kernels."""

from typing import TYPE_CHECKING, Any

from batchline.errors import MissingExtra

if TYPE_CHECKING:
    from batchline.columnar.assign import assign_batches

__all__ = ["assign_batches"]


def __getattr__(name: str) -> Any:
    """Load the compiler with the first rule that is asked for: reading a file needs none."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from batchline.columnar import assign
    except ModuleNotFoundError as error:
        raise MissingExtra(f"batchline.columnar needs {error.name}: pip install 'batchline[columnar]'") from error
    return getattr(assign, name)
