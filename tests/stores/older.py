"""Stores as older versions of the program left them."""

from tests.stores.racing import write

__all__ = ["undo_strays"]


def undo_strays(url: str) -> None:
    """Take back migration 7: lanes without secrets, in the table that older programs know."""
    for column in ("secret", "unsigned_to"):
        write(url, f"ALTER TABLE batchline_parcel_lanes DROP COLUMN {column}")
    write(url, "ALTER TABLE batchline_parcel_lanes RENAME TO batchline_lanes")
    write(url, "ALTER TABLE batchline_topics DROP COLUMN internal")
    write(url, "DELETE FROM batchline_migrations WHERE number > 6")
