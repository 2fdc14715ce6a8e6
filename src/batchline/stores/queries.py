"""SQL lives in `.sql` files, each query under a name and a sentence:

    -- hold_fanout: The fanout, locked until the transaction ends.
    SELECT * FROM batchline_fanouts WHERE number = :number FOR UPDATE;

Parameters are written `:name` in every file and turned into what the driver takes when the file is read.
"""

import re
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Final

__all__ = ["named_style", "pyformat_style", "read_queries"]

#: Where queries are that every database understands.
COMMON: Final = "sql"
#: A file per stage.
FILES: Final = ("tracker.sql", "timeline.sql", "capacity.sql", "lanes.sql", "service.sql")
HEAD: Final = re.compile(r"^-- (\w+): .*$", re.MULTILINE)
COMMENT: Final = re.compile(r"^\s*--.*$", re.MULTILINE)
#: `:name`, but neither a cast (`::bigint`) nor a part of a JSON path or a time.
PARAMETER: Final = re.compile(r"(?<![:\w]):([a-z_]+)\b")


def named_style(sql: str) -> str:
    """As sqlite3 takes it."""
    return sql


def pyformat_style(sql: str) -> str:
    """As psycopg and PyMySQL take it."""
    return PARAMETER.sub(r"%(\1)s", sql.replace("%", "%%"))


@cache
def read_queries(room: str, style: Callable[[str], str]) -> dict[str, str]:
    """The queries of a database, by name: those that are the same in each, and those in `stores/<room>/`."""
    return {name: style(sql) for place in (COMMON, room) for file in FILES for name, sql in _read(place, file)}


def _read(place: str, file: str) -> list[tuple[str, str]]:
    text = (files("batchline.stores") / place / file).read_text(encoding="utf-8")
    parts = HEAD.split(text)
    queries = zip(parts[1::2], parts[2::2], strict=True)
    return [(name, COMMENT.sub("", sql).strip().rstrip(";")) for name, sql in queries]
