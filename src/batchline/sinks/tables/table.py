"""What a table is: made or checked once, then written to, each row by its parcel and place."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import Any, Final

from batchline.core.name import check_name
from batchline.errors import InvalidName, InvalidSink, StoreError, StoreUnavailable
from batchline.sinks.measurement_rows import Row
from batchline.stores.connections import Connections

__all__ = ["COLUMNS", "KEY", "RefusedRows", "Table"]

COLUMNS: Final = Row._fields
KEY: Final = ("parcel", "place")
LONGEST: Final = 300


class RefusedRows(Exception):
    """A row, or several, that the table cannot hold; none of them was written."""


class Table(ABC):
    """A table in a database, by its name, before which a schema's may stand."""

    #: What names are put between.
    quote: str

    def __init__(self, connections: Connections, name: str, where: str):
        self._connections = connections
        self.schema, self.name = split_name(name)
        self._where = where
        parts = [part for part in (self.schema, self.name) if part is not None]
        self.quoted = ".".join(map(self.quoted_name, parts))

    def quoted_name(self, name: str) -> str:
        """A name as it stands in a query, whatever is in it."""
        return f"{self.quote}{name.replace(self.quote, 2 * self.quote)}{self.quote}"

    def prepare(self) -> None:
        """Make the table if it is not there; one that is must have our columns, and a row for each measurement."""
        try:
            if not self.columns():
                self.create()
            self._check_columns(self.columns())
            self.check()
        except StoreUnavailable:
            raise
        except StoreError as error:
            raise InvalidSink(f"the table {self.quoted} cannot be written to: {error}") from error

    def _check_columns(self, there: Collection[str]) -> None:
        missing = [column for column in COLUMNS if column not in there]
        if missing:
            raise InvalidSink(
                f"the table {self.quoted} of {self._where} lacks the columns {', '.join(missing)}: "
                f"it must have {', '.join(COLUMNS)}"
            )

    def write(self, rows: Sequence[Row]) -> None:
        """Write rows, all or none; those that are there are overwritten."""
        try:
            self.upsert(rows)
        except (UnicodeEncodeError, OverflowError) as error:
            raise RefusedRows(str(error)[:LONGEST]) from error
        except StoreError as error:
            if isinstance(error, StoreUnavailable) or not self.is_refusal(error.__cause__):
                raise
            raise RefusedRows(str(error)[:LONGEST]) from error

    @abstractmethod
    def columns(self) -> list[str]:
        """The names of its columns; none if there is no such table."""

    @abstractmethod
    def create(self) -> None:
        """Make the table, unless somebody has just done so."""

    @abstractmethod
    def check(self) -> None:
        """Raise InvalidSink or StoreError unless each parcel and place can have one row."""

    @abstractmethod
    def upsert(self, rows: Sequence[Row]) -> None:
        """Write the rows in one transaction."""

    @abstractmethod
    def is_refusal(self, error: Any) -> bool:
        """Whether the driver's error is about the values in the rows."""


def split_name(name: str) -> tuple[str | None, str]:
    """The schema, if there is one, and the name."""
    try:
        parts = [check_name("the name of a table", part) for part in name.split(".")]
    except (InvalidName, AttributeError) as error:
        raise InvalidSink(f"table: expected a name, or schema.name: {error}") from error
    if len(parts) > 2:
        raise InvalidSink(f"table: expected a name, or schema.name, got {name!r}")
    return (parts[0], parts[1]) if len(parts) == 2 else (None, parts[0])
