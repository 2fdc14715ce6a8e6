"""SQL in files: named, parameters as each driver takes them, the same in every database, and none that nobody uses."""

import re
from importlib.resources import files
from pathlib import Path

import pytest

import batchline
from batchline.core.spot import Spot
from batchline.stores.lane_rows import LaneRow
from batchline.stores.queries import COMMON, FILES, named_style, pyformat_style, read_queries
from batchline.stores.timeline_rows import IdPlace

ROOMS = ("sqlite", "postgres", "mysql")
#: What one database does in several statements and the others in one.
OWN = {"sqlite": {"ack_shard"}, "postgres": set[str](), "mysql": set[str]()}
#: Rows of spots and ids, as JSON; where a database has arrays, or a driver takes row by row, they are columns.
TABLES = {"keys", "rows"}
COLUMNS = {*Spot._fields, *LaneRow._fields, *IdPlace._fields, "size", "version_before", "bits_before"}


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("WHERE id = :id", "WHERE id = %(id)s"),
        ("(:a,:b, :c_d)", "(%(a)s,%(b)s, %(c_d)s)"),
        (":slot::bigint + 1", "%(slot)s::bigint + 1"),
        ("(w ->> 0)::bigint", "(w ->> 0)::bigint"),
        ("~:mask & -:count", "~%(mask)s & -%(count)s"),
        ("x LIKE '%' AND y = :y", "x LIKE '%%' AND y = %(y)s"),
        ("count % 5", "count %% 5"),
        ("@pending := pending", "@pending := pending"),
        ("'12:30:00'", "'12:30:00'"),
        ("a:b", "a:b"),
        ("::text", "::text"),
        ("", ""),
    ],
)
def test_parameters_become_what_the_driver_takes(sql: str, expected: str) -> None:
    assert pyformat_style(sql) == expected
    assert named_style(sql) == sql
    names = re.findall(r"%\((\w+)\)s", expected)
    assert (expected % dict.fromkeys(names, "?")).count("?") == len(names)


@pytest.mark.parametrize("room", ROOMS)
def test_every_query_has_a_name_of_its_own_a_sentence_and_no_comment_left(room: str) -> None:
    texts = [
        (files("batchline.stores") / place / file).read_text(encoding="utf-8")
        for place in (COMMON, room)
        for file in FILES
    ]
    heads = re.findall(r"^-- (\w+): (.*)$", "\n".join(texts), re.MULTILINE)
    assert len(heads) == len(dict(heads))
    assert all(sentence[0].isupper() and sentence.endswith(".") for _, sentence in heads)
    for sql in read_queries(room, pyformat_style).values():
        assert sql
        assert "--" not in sql
        assert not sql.endswith(";")
        assert not re.search(r"(?<![:\w]):[a-z]", sql), "a parameter was left as it was"


def test_every_database_has_the_same_queries_with_the_same_parameters() -> None:
    queries = {room: read_queries(room, named_style) for room in ROOMS}
    names = {room: set(queries[room]) - OWN[room] for room in ROOMS}
    assert names["sqlite"] == names["postgres"] == names["mysql"]
    for name in names["sqlite"] - {"ack_group"}:
        parameters = [set(re.findall(r"(?<![:\w]):([a-z_]+)", queries[room][name])) for room in ROOMS]
        if TABLES & set().union(*parameters):
            parameters = [some - TABLES - COLUMNS for some in parameters]
        assert parameters[0] == parameters[1] == parameters[2], name


def test_what_is_the_same_in_every_database_stands_once() -> None:
    queries = [read_queries(room, named_style) for room in ROOMS]
    common = "\n".join((files("batchline.stores") / COMMON / file).read_text(encoding="utf-8") for file in FILES)
    same = {name for name in queries[0] if len({" ".join(one.get(name, "").split()) for one in queries}) == 1}
    assert same == set(re.findall(r"^-- (\w+):", common, re.MULTILINE))


@pytest.mark.parametrize("room", ROOMS)
def test_no_query_is_there_that_nobody_uses(room: str) -> None:
    stores = Path(batchline.__file__).parent / "stores"
    code = "\n".join(
        (stores / path).read_text()
        for path in (
            "sql_tracker.py",
            "sql_timeline.py",
            "sql_capacity.py",
            "sql_lanes.py",
            "sql_tokens.py",
            "sql_reports.py",
            "server_store.py",
            f"{room}/store.py",
        )
    )
    used = set(re.findall(r'"([a-z_]+)"', code)) | {"where_state", "where_opened_before_us", "where_parent"}
    used |= {"due_in_segment", "due_after", "due_order"}
    used |= {"where_before", "newest_list_page", "newest_labelled_page"}
    assert set(read_queries(room, named_style)) - used == set()
