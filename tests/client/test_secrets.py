"""A token is sent, and stands nowhere else."""

import logging
import traceback
from collections.abc import Iterator

import pytest

from batchline import open_store
from batchline.client import Client
from batchline.errors import BatchlineError, Forbidden, ServiceUnavailable, Unauthorized
from batchline.runtime.tokens import Tokens
from batchline.service.in_thread import serve_in_thread
from tests.client.conftest import QUICK
from tests.client.crooked import Crooked, How, crooked

HOWS: tuple[How, ...] = ("cut", "half", "503")


@pytest.fixture(scope="module")
def guarded() -> Iterator[tuple[Crooked, str]]:
    """A service that asks for tokens, and one of them: of the producer group `mine`."""
    with open_store("memory://") as store, serve_in_thread(store, threads=2) as url, crooked(url) as server:
        _, token = Tokens(store).create("mine", producer_group="mine", admin=True)
        yield server, token


def test_a_token_says_which_producer_group_it_is(guarded: tuple[Crooked, str]) -> None:
    server, token = guarded
    with Client(server.url, token) as client:
        client.create_topic("t")
        (outcome,) = client.create("t", [b"x"], producer_group="mine")
        assert client.read("t", outcome.id, producer_group="mine") == client.read_any("t", outcome.id)
        with pytest.raises(Forbidden, match="this token is not of producer group 'yours'"):
            client.create("t", [b"x"], producer_group="yours")
    with Client(server.url) as client, pytest.raises(Unauthorized, match="expected a token"):
        client.topics()
    with Client(server.url, token[:-1] + "x") as client, pytest.raises(Unauthorized):
        client.topics()


def test_no_secret_is_shown(guarded: tuple[Crooked, str], caplog: pytest.LogCaptureFixture) -> None:
    server, token = guarded
    secret = token.rpartition("_")[2]
    caplog.set_level(logging.DEBUG)
    said = []
    with Client(server.url, token, retry=QUICK, tries=2) as client:
        said.append(repr(client))
        for how in HOWS:
            server.next(how, times=2)
            with pytest.raises(BatchlineError) as raised:
                client.topics()
            said += traceback.format_exception(raised.value)
            said += [str(raised.value), repr(raised.value)]
        with pytest.raises(Forbidden) as refused:
            client.create("t", [b"x"], producer_group="yours")
        said += traceback.format_exception(refused.value)
        server.next("cut")
        client.topics()
    with Client("http://127.0.0.1:1", token, retry=None) as client, pytest.raises(ServiceUnavailable) as away:
        client.topics()
    said += traceback.format_exception(away.value)
    assert "httpx" in caplog.text
    assert secret not in "".join([*said, caplog.text])
