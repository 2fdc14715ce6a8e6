"""Parcels into a table: a row per measurement, by parcel and place, however often a parcel comes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from batchline.core.consignment import Consignment
from batchline.errors import (
    DeliveryError,
    InvalidSink,
    InvalidStore,
    RefusedParcel,
    StoreError,
    Undelivered,
    did_you_mean,
)
from batchline.sinks.measurement_rows import Row, check_fields, rows_of
from batchline.sinks.sink import Sink
from batchline.sinks.tables.table import RefusedRows, Table
from batchline.stores.address import Address, read_address
from batchline.stores.connections import Connections
from batchline.stores.opening import find_store

__all__ = ["SCHEMES", "SqlSink"]

SCHEMES = ("sqlite", "postgresql", "postgres", "mysql", "mariadb")


class SqlSink(Sink):
    """Writes to a table in SQLite, PostgreSQL, MariaDB or MySQL, which it makes if it is not there."""

    most = 64

    def __init__(self, address: str, *, table: str = "measurements", fields: Mapping[str, str] | None = None):
        """The address is as that of a store; `fields` tells of columns which field of a measurement fills them."""
        self._fields = check_fields(fields or {})
        try:
            where = _address(address)
            self._store = find_store(where)
        except InvalidStore as error:
            raise InvalidSink(str(error)) from error
        try:
            self._table = _table(self._store.room)(_connections(self._store), table, where.shown)
            self._table.prepare()
        except BaseException:
            self._store.close()
            raise

    def send(self, parcels: Sequence[Consignment]) -> dict[str, DeliveryError]:
        """Write the parcels in one transaction; those that the table cannot hold are refused, each by itself."""
        rows: dict[str, list[Row]] = {}
        refused: dict[str, DeliveryError] = {}
        for parcel in parcels:
            try:
                rows[parcel.id] = rows_of(parcel, self._fields)
            except RefusedParcel as error:
                refused[parcel.id] = error
        return refused | self._write(rows)

    def _write(self, parcels: Mapping[str, list[Row]]) -> dict[str, DeliveryError]:
        rows = [row for some in parcels.values() for row in some]
        try:
            if rows:
                self._table.write(rows)
        except RefusedRows as error:
            return self._write_each(parcels, error)
        except StoreError as error:
            raise Undelivered(str(error)) from error
        return {}

    def _write_each(self, parcels: Mapping[str, list[Row]], refusal: RefusedRows) -> dict[str, DeliveryError]:
        if len(parcels) == 1:
            return {id: RefusedParcel(f"the table does not take it: {refusal}") for id in parcels}
        refused: dict[str, DeliveryError] = {}
        for id, rows in parcels.items():
            refused |= self._write({id: rows})
        return refused

    async def close(self) -> None:
        """Close the connections."""
        self._store.close()


def _address(url: str) -> Address:
    address = read_address(url)
    if address.scheme not in SCHEMES:
        raise InvalidSink(
            f"expected the address of a database, sqlite, postgresql or mysql; got {address.scheme}://"
            f"{did_you_mean(address.scheme, SCHEMES)}"
        )
    if address.scheme == "sqlite":
        # What has arrived is forgotten elsewhere: so it is on disk before that.
        return replace(address, options={"synchronous": "full"} | dict(address.options))
    return address


def _connections(store: Any) -> Connections:
    """Every store in a database has them."""
    found: Connections = store.connections
    return found


def _table(room: str) -> type[Table]:
    """The kind of table; drivers take their time to load: only the one needed is."""
    if room == "sqlite":
        from batchline.sinks.tables.sqlite import SqliteTable

        return SqliteTable
    if room == "postgres":
        from batchline.sinks.tables.postgres import PostgresTable

        return PostgresTable
    from batchline.sinks.tables.mysql import MysqlTable

    return MysqlTable
