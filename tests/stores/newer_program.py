"""A newer program, which knows further migrations, in this process."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from batchline.stores import migrations
from batchline.stores.migrations import Migration, read_migrations

__all__ = ["COMPATIBLE", "INCOMPATIBLE", "newer_program"]

ADDED = "ALTER TABLE batchline_topics ADD COLUMN {} INTEGER;"
NEWEST = read_migrations("postgres")[-1].number
WORKS_WITH_US = f"-- Works with programs from migration {NEWEST:04} on.\n"
COMPATIBLE = Migration(99, "0099_colours", WORKS_WITH_US + ADDED.format("colour"))
INCOMPATIBLE = Migration(100, "0100_shades", ADDED.format("shade"))


@contextmanager
def newer_program(*later: Migration) -> Iterator[None]:
    """Have this process know further migrations, as a newer program does, until the block ends."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(migrations, "read_migrations", lambda room: (*read_migrations(room), *later))
        yield
