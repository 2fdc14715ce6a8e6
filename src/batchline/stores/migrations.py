"""Migrations: numbered `.sql` files, each run once, in order, by the process that comes first.

The first line of a file may say which older programs go on working with the schema that it makes:

    -- Works with programs from migration 0006 on.

That number is stored with the migration, since those programs do not have the file. They accept the newer schema. A
file without the line shuts out every program that does not have it. Migrations 1 to 6 have none: the programs before
them refuse any newer schema, and 0006 changed what the rows of ended messages mean.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final, NamedTuple

from batchline.errors import SchemaMismatch

__all__ = ["Migration", "SchemaVersion", "missing_migrations", "read_migrations", "schema_version", "statements_of"]

#: Up to its semicolon; of a procedure, up to its END at the beginning of a line.
STATEMENT: Final = re.compile(r"\s*CREATE PROCEDURE.*?^END;|[^;]+;", re.DOTALL | re.MULTILINE)
NAME: Final = re.compile(r"(\d{4})_(\w+)\.sql")
WORKS_FROM: Final = re.compile(r"-- Works with programs from migration (\d{4}) on\.\n")


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema."""

    number: int
    name: str
    sql: str

    @property
    def works_from(self) -> int:
        """The newest migration of the oldest programs that work with its schema: its own, unless its file says less."""
        said = WORKS_FROM.match(self.sql)
        return int(said[1]) if said else self.number


class SchemaVersion(NamedTuple):
    """The newest migration that a schema has seen, and which migration a program must have to work with it."""

    newest: int
    works_from: int


@cache
def read_migrations(room: str) -> tuple[Migration, ...]:
    """The migrations in `stores/<room>/migrations/`, in order; memory has none."""
    place = files("batchline.stores") / room / "migrations"
    found = (
        Migration(int(match[1]), file.name.removesuffix(".sql"), file.read_text(encoding="utf-8"))
        for file in (place.iterdir() if place.is_dir() else ())
        if (match := NAME.fullmatch(file.name))
    )
    return tuple(sorted(found, key=lambda migration: migration.number))


def schema_version(rows: Iterable[tuple[Any, ...]]) -> SchemaVersion:
    """Return the version by the rows of `batchline_migrations`: number, name and, in newer ones, `works_from`."""
    newest = works_from = 0
    for number, _, *said in rows:
        newest = max(newest, number)
        # Older programs did not say: what they made works with nothing older.
        works_from = max(works_from, number if said in ([], [None]) else said[0])
    return SchemaVersion(newest, works_from)


def missing_migrations(room: str, schema: SchemaVersion) -> tuple[Migration, ...]:
    """Return the migrations that a schema lacks. Raise SchemaMismatch if it is too new for this program."""
    known = read_migrations(room)
    newest = known[-1].number if known else 0
    if schema.works_from > newest:
        raise SchemaMismatch(
            f"the store's schema has version {schema.newest}, this program knows versions up to {newest}: "
            f"use a Batchline that knows version {schema.works_from}"
        )
    return tuple(migration for migration in known if migration.number > schema.newest)


def statements_of(migration: Migration) -> list[str]:
    """Its statements one by one; no statement of ours has a semicolon in a text."""
    without_comments = re.sub(r"--.*$", "", migration.sql, flags=re.MULTILINE)
    return [found.strip().removesuffix(";") for found in STATEMENT.findall(without_comments)]
