"""POST /v1/measurements through a real server: answered only when what came is durable."""

import asyncio
import errno
import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn

from batchline import open_store
from batchline.runtime.clock import now_us
from batchline.service.group_commit import GroupCommit
from batchline.service.measurements import LARGEST_BODY
from batchline.service.service import Service
from batchline.sources.landing import Landing
from batchline.sources.measured import Arrival, Measured
from tests.memory import MIB, measured
from tests.service.asking import Asking

GOOD = {"key": "pump", "type": "temp", "event_time": "2026-11-15T12:00:00Z", "value": 21.5}
ROUTE = "/v1/measurements"
PATIENCE_S = 30.0


@contextmanager
def serving(landing: Landing) -> Iterator[str]:
    """A server in a thread, on a port that is free."""
    with (
        open_store("memory://") as store,
        closing(Service(store, landing=GroupCommit(landing, now_us))) as service,
        socket.create_server(("127.0.0.1", 0)) as listener,
    ):
        server = uvicorn.Server(uvicorn.Config(service.app, log_level="critical", lifespan="off"))
        thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener])))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(PATIENCE_S)


@pytest.fixture(scope="module")
def landing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Landing]:
    with Landing(tmp_path_factory.mktemp("http") / "landing", "http") as landing:
        yield landing


@pytest.fixture(scope="module")
def client(landing: Landing) -> Iterator[httpx2.Client]:
    with serving(landing) as url, httpx2.Client(base_url=url) as client:
        yield client


@pytest.fixture
def landed(landing: Landing) -> "Landed":
    for file in landing.directory.rglob("*.jsonl"):
        file.unlink()
    return Landed(landing.directory)


class Landed:
    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def rows(self, below: str = ".") -> list[dict[str, Any]]:
        files = sorted((self.directory / below).glob("*.jsonl"))
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]

    def files(self) -> int:
        return len(list(self.directory.glob("*.jsonl")))


def post(client: httpx2.Client, body: bytes | str, kind: str = "application/json") -> httpx2.Response:
    return client.post(ROUTE, content=body, headers={"content-type": kind})


def check_problem(answer: httpx2.Response, status: int, type_: str, detail: str) -> None:
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert (problem["type"], problem["status"]) == (f"/problems/{type_}", status)
    assert problem["title"]
    assert detail in problem["detail"]


def test_an_array_lands_and_is_answered_with_how_many(client: httpx2.Client, landed: Landed) -> None:
    answer = post(client, json.dumps([GOOD, GOOD | {"type": "flow", "value": 3, "unit": "l/s"}]))
    assert (answer.status_code, answer.json()) == (202, {"accepted": 2, "rejected": []})
    first, second = landed.rows()
    assert (first["key"], first["type"], first["event_time"], first["value"], first["more"]) == (
        "pump", "temp", "2026-11-15T12:00:00.000000Z", 21.5, "{}",
    )  # fmt: skip
    assert (second["value"], second["more"]) == (3.0, '{"unit":"l/s"}')
    assert second["sequence"] == first["sequence"] + 1


def test_one_object_is_an_array_of_one(client: httpx2.Client, landed: Landed) -> None:
    assert post(client, json.dumps(GOOD)).json() == {"accepted": 1, "rejected": []}
    assert len(landed.rows()) == 1


def test_lines_that_are_no_measurements_are_told_by_number_and_kept(client: httpx2.Client, landed: Landed) -> None:
    lines = [json.dumps(GOOD), "", "{", json.dumps(GOOD | {"value": "warm"}), json.dumps({"key": "pump"}), "7"]
    answer = post(client, "\n".join(lines), "application/x-ndjson; charset=utf-8")
    assert answer.status_code == 202
    assert answer.json()["accepted"] == 1
    assert [(one["line"], one["reason"].partition(",")[0]) for one in answer.json()["rejected"]] == [
        (3, "not JSON: Expecting property name enclosed in double quotes at column 2"),
        (4, "value must be a number"),
        (5, "type must be text that is not empty"),
        (6, "expected a JSON object"),
    ]
    assert [row["text"] for row in landed.rows("malformed")] == [lines[place] for place in (2, 3, 4, 5)]
    assert len(landed.rows()) == 1


@pytest.mark.parametrize("body", [b"[]", b" [ ] "])
def test_nothing_is_accepted_as_nothing(client: httpx2.Client, landed: Landed, body: bytes) -> None:
    assert post(client, body).json() == {"accepted": 0, "rejected": []}
    assert landed.files() == 0


@pytest.mark.parametrize(
    ("body", "kind", "status", "type_", "detail"),
    [
        (b"{", "application/json", 400, "InvalidMeasurement", "not JSON: Expecting property name"),
        (b"", "application/json", 400, "InvalidMeasurement", "not JSON: Expecting value"),
        (b"\xff", "application/json", 400, "InvalidMeasurement", "not UTF-8"),
        (b"a\nb", "application/x-ndjson", 400, "InvalidMeasurement", "none of the 2 lines is JSON"),
        (b"key,type", "text/csv", 415, "WrongMedia", "application/json or application/x-ndjson, got text/csv"),
        (b"[]", "", 415, "WrongMedia", "got no content type"),
        (b" " * (LARGEST_BODY + 1), "application/json", 413, "TooLarge", "expected at most 8,388,608 bytes"),
    ],
)
def test_what_cannot_be_measurements_is_a_problem_and_leaves_nothing(
    client: httpx2.Client, landed: Landed, body: bytes, kind: str, status: int, type_: str, detail: str
) -> None:
    check_problem(post(client, body, kind), status, type_, detail)
    assert landed.files() == 0


def test_a_body_whose_length_nobody_has_told_is_cut_off_all_the_same(client: httpx2.Client) -> None:
    pieces = (b" " * 2**20 for _ in range(9))
    answer = client.post(ROUTE, content=pieces, headers={"content-type": "application/json"})
    check_problem(answer, 413, "TooLarge", "at most")


def test_another_method_and_another_route_are_problems_too(client: httpx2.Client) -> None:
    check_problem(client.get(ROUTE), 405, "WrongMethod", "expected POST, got GET")
    check_problem(client.get("/v1/measurments"), 404, "UnknownRoute", "there is nothing under /v1/measurments")


def test_while_the_landing_is_unavailable_clients_are_told_to_try_again(
    client: httpx2.Client, landing: Landing, landed: Landed
) -> None:
    elsewhere = landing.directory.with_name("elsewhere")
    landing.directory.rename(elsewhere)
    try:
        answer = post(client, json.dumps(GOOD))
    finally:
        elsewhere.rename(landing.directory)
    check_problem(answer, 503, "LandingUnavailable", os.strerror(errno.ENOENT))
    assert int(answer.headers["retry-after"]) > 0
    assert post(client, json.dumps(GOOD)).status_code == 202
    assert len(landed.rows()) == 1


def test_a_request_that_is_repeated_brings_a_measurement_of_the_same_event_time(
    client: httpx2.Client, landed: Landed
) -> None:
    for _ in range(2):
        post(client, json.dumps(GOOD))
    first, second = landed.rows()
    assert [first[name] for name in ("key", "type", "event_time")] == [
        second[name] for name in ("key", "type", "event_time")
    ]
    assert first["sequence"] < second["sequence"]


class HeldLanding(Landing):
    """One whose disk is slow: it lands when it is let."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, "http")
        self.begun, self.let = threading.Event(), threading.Event()

    def land(self, arrivals: "list[Arrival]") -> None:  # type: ignore[override]
        self.begun.set()
        assert self.let.wait(PATIENCE_S)
        super().land(arrivals)


def test_requests_that_come_while_one_lands_share_the_next_file_and_none_is_answered_before(tmp_path: Path) -> None:
    async def scenario() -> None:
        with HeldLanding(tmp_path) as landing:
            group = GroupCommit(landing, now_us)
            requests = [asyncio.create_task(group.land(lambda _: [Measured("a", "b", 0, 1.0)])) for _ in range(1)]
            await asyncio.to_thread(landing.begun.wait, PATIENCE_S)
            requests += [asyncio.create_task(group.land(lambda _: [Measured("a", "b", 0, 1.0)])) for _ in range(50)]
            gone = requests.pop()
            await asyncio.sleep(0)
            gone.cancel()
            assert not any(request.done() for request in requests)
            landing.let.set()
            arrivals = await asyncio.gather(*requests)
            assert [arrival.sequence for arrival in arrivals] == sorted(arrival.sequence for arrival in arrivals)
            assert (group.files, group.landed) == (2, 51)

    asyncio.run(scenario())
    assert [len(file.read_text().splitlines()) for file in sorted(tmp_path.glob("*.jsonl"))] == [1, 50]


def test_nothing_is_landed_by_a_clock_that_is_off(tmp_path: Path) -> None:
    with (
        open_store(f"sqlite:///{tmp_path / 'b.db'}") as store,
        Landing(tmp_path / "landing", "http") as landing,
        closing(Service(store, landing=GroupCommit(landing, now_us), clock=lambda: now_us() + 5_000_000)) as service,
    ):
        service.background.compare_clocks()
        assert Asking(service).post(ROUTE, [GOOD]).problem == "Degraded"
        assert Landed(landing.directory).files() == 0


SMALLEST = b'{"key":"k","type":"t","event_time":1,"value":1}'
MUCH = {
    "lines of one digit": (b"1\n" * 2**20, "application/x-ndjson"),
    "an array of digits": (b"[" + b"1," * 2**20 + b"1]", "application/json"),
    "lines of control characters": (b'"\x7f\x7f"\n\x01\x02\n' * 2**17, "application/x-ndjson"),
    "an array of empty arrays": (b"[" + b"[]," * 2**19 + b"[]]", "application/json"),
}


@pytest.mark.parametrize(("body", "kind"), MUCH.values(), ids=MUCH)
def test_what_would_take_far_more_room_than_it_has_is_refused_and_nothing_of_it_lands(
    client: httpx2.Client, landed: Landed, body: bytes, kind: str
) -> None:
    check_problem(post(client, body, kind), 413, "TooLarge", "correct them, or send fewer in a request")
    assert not landed.rows()
    assert not landed.rows("malformed")


KEPT = {
    "the smallest measurements": (SMALLEST + b"\n") * 1_000,
    "one digit": b"{}\n1",
    "as many digits as may be": b"1\n" * 100,
    "one long line": b"{}\n" + b"\x01" * 2**20,
    "other fields that are escaped twice": SMALLEST[:-1] + b',"more":"' + "€".encode() * 10_000 + b'"}',
}


@pytest.mark.parametrize("body", KEPT.values(), ids=KEPT)
def test_what_lands_is_at_most_eight_times_as_large_as_the_request_and_some(
    client: httpx2.Client, landed: Landed, body: bytes
) -> None:
    assert post(client, body, "application/x-ndjson").status_code == 202
    size = sum(file.stat().st_size for file in landed.directory.rglob("*.jsonl"))
    assert 0 < size <= 8 * len(body) + 16 * 2**10


def test_of_a_very_long_malformed_line_the_beginning_is_kept(client: httpx2.Client, landed: Landed) -> None:
    answer = post(client, b"{}\n" + b"x" * 100_000, "application/x-ndjson")
    assert [one["line"] for one in answer.json()["rejected"]] == [1, 2]
    assert landed.rows("malformed")[1]["text"] == "x" * 65_536 + "… and 34,464 bytes more"


#: Lands a body; tells the status.
LANDS = """
from contextlib import closing
import httpx2
from batchline import open_store
from batchline.runtime.clock import now_us
from batchline.service.group_commit import GroupCommit
from batchline.service.in_thread import serve_app_in_thread
from batchline.service.service import Service
from batchline.sources.landing import Landing

line, count = sys.argv[2].encode() + b"\\n", int(sys.argv[3])
with Landing(Path(sys.argv[1]), "http") as landing, open_store("memory://") as store:
    with closing(Service(store, landing=GroupCommit(landing, now_us))) as service:
        with serve_app_in_thread(service.app) as url, httpx2.Client(base_url=url, timeout=60) as client:
            client.get("/health/live")
            body, headers = line * count, {"content-type": "application/x-ndjson"}
            begin()
            end(client.post("/v1/measurements", content=body, headers=headers).status_code)
"""


@pytest.mark.parametrize(("line", "count", "status"), [("1", 2**20, 413), (SMALLEST.decode(), 40_000, 202)])
def test_a_body_takes_a_bounded_amount_of_memory(tmp_path: Path, line: str, count: int, status: int) -> None:
    """2 MiB each: malformed lines took 840 MiB, and 72 times their size on disk."""
    landing = measured(LANDS, [tmp_path, line, count])
    assert landing.told == status
    assert landing.grown < 100 * MIB
