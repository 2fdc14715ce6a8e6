"""`batchline token`: made, shown once, listed and revoked."""

import json
import re
from pathlib import Path

import pytest

from batchline import open_store
from batchline.errors import Unauthorized
from batchline.runtime.tokens import Tokens
from tests.cli.conftest import Call, on_terminal


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/new.db"


def test_a_token_is_printed_once_and_proves_what_was_asked_for(store: str, batchline: Call) -> None:
    said = batchline(
        *("token", "create", "--name", "desk", "--producer-group", "g", "--consumer", "c*", "--consumer", "d"),
        *("--topic", "t*", "--expires", "1h", "--store", store),
    )
    assert said.code == 0
    assert re.fullmatch(r"bl_[0-9a-f]{12}_[0-9a-f]{64}\n", said.out)
    text = said.out.strip()
    assert text not in said.err
    assert "may produce as g; lease as c*, d; it is shown this once" in said.err
    with open_store(store) as opened:
        token = Tokens(opened).check(text)
    assert (token.name, token.producer_group, token.consumers, token.topics) == ("desk", "g", ("c*", "d"), ("t*",))
    assert token.expires_at is not None
    for again in (batchline("token", "list", "--store", store), batchline("token", "list", "--store", store, "--json")):
        assert text.rpartition("_")[2] not in again.out + again.err
    assert text.rpartition("_")[2].encode() not in Path(store.removeprefix("sqlite:///")).read_bytes()


def test_a_token_that_says_nothing_only_reads_every_topic(store: str, batchline: Call) -> None:
    said = batchline("token", "create", "--store", store)
    assert "may only read" in said.err
    (row,) = batchline("token", "list", "--store", store).out.splitlines()
    assert row.split("\t")[1:] == ["valid", "-", "-", "*", "-", "-"]


def test_json_has_the_token_when_it_is_made_and_never_again(store: str, batchline: Call) -> None:
    made = json.loads(batchline("token", "create", "--admin", "--store", store, "--json").out)
    assert made.pop("token").startswith(f"bl_{made['id']}_")
    assert made["admin"] is True
    assert made["state"] == "valid"
    assert json.loads(batchline("token", "list", "--store", store, "--json").out) == made
    ended = json.loads(batchline("token", "revoke", made["id"], "--store", store, "--json").out)
    assert ended["state"] == "revoked"
    assert ended["revoked_at"]


def test_a_revoked_token_proves_nothing(store: str, batchline: Call) -> None:
    text = batchline("token", "create", "--store", store).out.strip()
    id = text.split("_")[1]
    for _ in range(2):
        assert batchline("token", "revoke", id, "--store", store).out == f"token {id} is revoked\n"
    with open_store(store) as opened, pytest.raises(Unauthorized):
        Tokens(opened).check(text)
    assert batchline("token", "list", "--store", store).out.split("\t")[:2] == [id, "revoked"]


def test_what_is_refused_says_why(store: str, batchline: Call) -> None:
    said = batchline("token", "list", "--store", store)
    assert (said.code, said.out) == (1, "")
    assert "batchline token create" in said.err
    id = batchline("token", "create", "--store", store).out.split("_")[1]
    said = batchline("token", "revoke", id[:-1], "--store", store)
    assert (said.code, said.out) == (1, "")
    assert f"did you mean '{id}'?" in said.err
    said = batchline("token", "create", "--producer-group", "g", "--store", store)
    assert (said.code, said.out) == (1, "")
    assert "names its topics, got none: give --topic 'orders*'" in " ".join(said.err.split())
    said = batchline("token", "create", "--consumer", "", "--topic", "*", "--store", store)
    assert (said.code, said.out) == (1, "")
    assert "a pattern of consumers must have 1 to 255 characters" in said.err
    assert batchline("token", "create", "--expires", "soon", "--store", store).code == 2


def test_on_a_terminal_there_is_a_table(store: str, batchline: Call) -> None:
    assert (
        "there is no token"
        in batchline("migrate", "--store", store).out + batchline("token", "list", "--store", store).err
    )
    batchline(
        *("token", "create", "--name", "desk [x]", "--producer-group", "orders", "--topic", "*", "--expires", "2d"),
        *("--store", store),
    )
    batchline("token", "create", "--admin", "--store", store)
    seen = on_terminal("token", "list", "--store", store)
    assert re.search(r"desk \[x\] +produce as orders +\* +in [12] d", seen)
    assert re.search(r"everything +every +no end", seen)
    (wide, _) = (line.split("\t")[0] for line in batchline("token", "list", "--store", store).out.splitlines())
    assert (
        f"every topic but internal ones is open to {wide}: replace" in batchline("token", "list", "--store", store).err
    )
