"""The rules of stages 1 and 2 on Arrow columns, with compiled kernels."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from batchline.errors import MissingExtra

if TYPE_CHECKING:
    from batchline.columnar.assign import assign_batches
    from batchline.columnar.parcels import assign_parcels, pack_keys, pack_rows

__all__ = ["assign_batches", "assign_parcels", "pack_keys", "pack_rows"]

MODULES: Final = {"assign_batches": "assign"} | dict.fromkeys(("assign_parcels", "pack_keys", "pack_rows"), "parcels")


def __getattr__(name: str) -> Any:
    """Load the compiler with the first rule that is asked for: reading a file needs none."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module(f"batchline.columnar.{MODULES[name]}")
    except ModuleNotFoundError as error:
        raise MissingExtra(f"batchline.columnar needs {error.name}: pip install 'batchline[columnar]'") from error
    return getattr(module, name)
