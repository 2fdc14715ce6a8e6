import asyncio
import json
import sys
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from batchline.errors import InvalidSink, MissingExtra
from batchline.sinks.http import HttpSink
from batchline.sinks.kafka import KafkaSink
from batchline.sinks.opening import open_sink
from batchline.sinks.parcel_files import FileSink
from batchline.sinks.plugin import PluginSink
from batchline.sinks.sql import SqlSink
from batchline.sinks.stdout import StdoutSink
from tests.sinks.parcels import parcel
from tests.sinks.plugins import AsyncPlugin, OwnSink

HERE = "python:tests.sinks.plugins"


@pytest.mark.parametrize(
    ("address", "options", "kind"),
    [
        ("https://api.example/measurements", {}, HttpSink),
        ("http://me:s3cret@api.example:8080/x?key=s3cret", {"timeout": "500ms", "gzip": "true"}, HttpSink),
        ("http://api.example", {"headers": {"A": "b"}, "gzip": False, "timeout": timedelta(seconds=1)}, HttpSink),
        ("sqlite:///{tmp}/sink.db", {"table": "main.rows", "fields": {"key": "device"}}, SqlSink),
        ("files:{tmp}/parcels", {}, FileSink),
        ("stdout:", {"each": "measurement"}, StdoutSink),
        (
            "kafka://host:9092,other/topic",
            {"each": "measurement", "timeout": "5s", "settings": {"acks": "all"}},
            KafkaSink,
        ),
        (f"{HERE}:OwnSink", {}, OwnSink),
        (f"{HERE}:Plugin", {"site": "north"}, PluginSink),
    ],
)
def test_an_address_gives_a_sink(address: str, options: Mapping[str, object], kind: type, tmp_path: Path) -> None:
    sink = open_sink(address.replace("{tmp}", str(tmp_path)), options)
    assert type(sink) is kind
    assert sink.most >= 1
    asyncio.run(sink.close())


@pytest.mark.parametrize(
    ("address", "options", "said"),
    [
        ("nowhere", {}, "expected the address of a sink, such as https"),
        (7, {}, "expected the address of a sink"),
        ("postgrsql://me:s3cret@host/db", {}, "got 'postgrsql':; did you mean 'postgresql'"),
        ("redis://host", {}, "expected a sink such as"),
        ("s3cret", {}, "a text of 6 characters"),
        ("http://me:s3cret@host:x/", {}, "cannot be read"),
        ("https://host", {"header": {"A": "s3cret"}}, "got 'header'; did you mean 'headers'"),
        ("https://host", {"headers": "A: s3cret"}, "headers of https: must be names and values, got str"),
        ("https://host", {"timeout": "soon"}, "timeout of https: expected a span"),
        ("https://host", {"timeout": 30}, "timeout of https: must be a text"),
        ("https://host", {"gzip": "yes"}, "gzip of https: must be true or false"),
        ("mysql://me:s3cret@host", {}, "without a name"),
        (
            "mysql://me:s3cret@host/db?pool=3",
            {},
            "sslcert, sslkey, got 'pool'",
        ),
        ("postgresql://me:s3/cret@host/db", {}, "cannot be read"),
        ("sqlite://host/x.db", {}, "expected sqlite:///file.db"),
        ("files:", {}, "expected files:directory"),
        ("files://tmp", {}, "expected files:directory"),
        ("files:x", {"table": "y"}, "takes the options none"),
        ("stdout:x", {}, "nothing after it"),
        ("stdout:", {"each": "measurements"}, "did you mean 'measurement'"),
        ("kafka://host:9092", {}, "expected kafka://host:9092/topic"),
        ("kafka://me:s3cret@host:9092/topic", {}, "expected kafka://host:9092/topic"),
        ("python:tests.sinks.plugins", {}, "expected python:package.module:ClassName"),
        ("python:no.such.module:Plugin", {}, "no.such.module cannot be imported: No module named 'no'"),
        (f"{HERE}:Plugn", {}, "has no class Plugn; did you mean 'Plugin'"),
        (f"{HERE}:NoSend", {}, "must have a method send"),
        (f"{HERE}:Odd", {}, "must be 1 or more, got 0"),
        (f"{HERE}:Plugin", {}, "takes the options site, password; missing a required argument: 'site'"),
        (f"{HERE}:Plugin", {"site": "a", "passwort": "s3cret"}, "did you mean 'password'"),
        (f"{HERE}:Plugin", {"site": "", "password": "s3cret"}, "cannot be made: ValueError"),
    ],
)
def test_what_is_no_sink_is_refused_with_a_hint_and_without_its_secrets(
    address: Any, options: Mapping[str, object], said: str
) -> None:
    with pytest.raises(InvalidSink) as caught:
        open_sink(address, options)
    assert said in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx2", None)
    monkeypatch.delitem(sys.modules, "batchline.sinks.http")
    with pytest.raises(MissingExtra, match=r"pip install 'batchline\[http\]'"):
        open_sink("https://api.example")


def test_a_plugin_needs_nothing_but_send() -> None:
    sink = open_sink(f"{HERE}:Plugin", {"site": "north"})
    assert sink.most == 1
    assert sink.send([parcel("p")]) is None
    asyncio.run(sink.close())


def test_a_plugin_may_be_async_take_several_and_close() -> None:
    plugin = AsyncPlugin()
    sink: Any = PluginSink(plugin)
    assert sink.most == 7

    async def using() -> None:
        assert await sink.send([parcel()]) is None
        await sink.close()

    asyncio.run(using())
    assert plugin.closed


def test_what_is_opened_delivers(tmp_path: Path) -> None:
    open_sink(f"files:{tmp_path}").send([parcel("p")])
    (file,) = tmp_path.iterdir()
    assert json.loads(file.read_text())["parcel"] == "p"
