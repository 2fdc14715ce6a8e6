"""The rules of stages 1 and 2 on Arrow columns, with compiled kernels."""

from batchline.errors import MissingExtra

try:
    from batchline.columnar.assign import assign_batches
except ModuleNotFoundError as error:  # pragma: no cover - the tests' environment has every extra
    raise MissingExtra(f"batchline.columnar needs {error.name}: pip install 'batchline[columnar]'") from error

__all__ = ["assign_batches"]
