"""Migrations: numbered `.sql` files, each run once, in order, by whoever comes first."""

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

from batchline.errors import SchemaMismatch

__all__ = ["Migration", "missing_migrations", "read_migrations", "statements_of"]

#: Up to its semicolon; of a procedure, up to its END at the beginning of a line.
STATEMENT: Final = re.compile(r"\s*CREATE PROCEDURE.*?^END;|[^;]+;", re.DOTALL | re.MULTILINE)
NAME: Final = re.compile(r"(\d{4})_(\w+)\.sql")


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema."""

    number: int
    name: str
    sql: str


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


def missing_migrations(room: str, version: int) -> tuple[Migration, ...]:
    """What a schema of this version lacks; raises SchemaMismatch if it is newer than this program."""
    known = read_migrations(room)
    newest = known[-1].number if known else 0
    if version > newest:
        raise SchemaMismatch(
            f"the store's schema has version {version}, this program knows versions up to {newest}: "
            "use the Batchline that made it, or a newer one"
        )
    return tuple(migration for migration in known if migration.number > version)


def statements_of(migration: Migration) -> list[str]:
    """Its statements one by one; no statement of ours has a semicolon in a text."""
    without_comments = re.sub(r"--.*$", "", migration.sql, flags=re.MULTILINE)
    return [found.strip().removesuffix(";") for found in STATEMENT.findall(without_comments)]
