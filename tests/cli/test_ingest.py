"""`batchline ingest`: what it refuses, and how it says so."""

import socket
from pathlib import Path

import pytest

from batchline.sources.landing import Landing
from tests.cli.conftest import Call

MQTT = ("ingest", "mqtt", "mqtt://localhost")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((*MQTT, "--format", "thinedge"), 1, "did you mean 'thin-edge'?"),
        ((*MQTT, "--format", "json"), 2, "it goes with --format json, which needs it"),
        ((*MQTT, "--map", "key=a,type=b"), 2, "it goes with --format json, which needs it"),
        ((*MQTT, "--format", "json", "--map", "key=a,type=b"), 2, "topics of your own"),
        ((*MQTT, "--format", "json", "--topic", "x", "--map", "key=a"), 1, "a mapping says where type is"),
        ((*MQTT, "--most", "0"), 1, "most must be from 1 to 65535 messages, got 0"),
        ((*MQTT, "--linger", "1 week"), 2, "expected a span such as 500ms"),
        ((*MQTT, "--series", "a/b"), 1, "a series is named by"),
        (("ingest", "mqtt", "http://localhost"), 1, "got the scheme 'http'"),
        (("ingest", "http", "--listen", "0.0.0.0:8080"), 1, "or say --insecure"),
        (("ingest", "http", "--listen", "example.org:8080"), 1, "or say --insecure"),
        (("ingest", "http", "--listen", "8080"), 1, "--listen expects HOST:PORT"),
        (("ingest", "http", "--listen", "127.0.0.1:x"), 1, "--listen expects HOST:PORT"),
    ],
)
def test_what_cannot_be_is_refused_in_words(
    batchline: Call, tmp_path: Path, words: tuple[str, ...], code: int, said: str
) -> None:
    refused = batchline(*words, "--into", tmp_path)
    assert refused.code == code
    assert said in " ".join(refused.err.replace("│", "").split())


def test_two_of_one_series_are_refused(batchline: Call, tmp_path: Path) -> None:
    with Landing(tmp_path, "mqtt"):
        refused = batchline(*MQTT, "--into", tmp_path)
    assert refused.code == 1
    assert "another process lands the series mqtt" in refused.err


def test_a_port_that_is_taken_is_refused(batchline: Call, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        refused = batchline("ingest", "http", "--into", tmp_path, "--listen", f"127.0.0.1:{taken.getsockname()[1]}")
    assert refused.code == 1
    assert "Address already in use" in refused.err
