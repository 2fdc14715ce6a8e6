import io
import json
import os
import subprocess
import sys

import pytest

from batchline.errors import InvalidSink, SinkClosed
from batchline.sinks.stdout import StdoutSink
from tests.sinks.parcels import measurement, parcel


def test_a_parcel_is_a_line() -> None:
    stream = io.BytesIO()
    StdoutSink(stream=stream).send([parcel("p"), parcel("q", lane=1)])
    assert [json.loads(line)["parcel"] for line in stream.getvalue().splitlines()] == ["p", "q"]


def test_or_a_measurement_is() -> None:
    stream = io.BytesIO()
    StdoutSink(each="measurement", stream=stream).send([parcel(count=2)])
    assert [json.loads(line) for line in stream.getvalue().splitlines()] == [measurement(0), measurement(1)]


def test_it_is_standard_output_after_what_was_printed_before(capfd: pytest.CaptureFixture[str]) -> None:
    print("before", end=" ")  # noqa: T201 - that is what is tested
    StdoutSink().send([parcel()])
    assert capfd.readouterr().out == f"before {parcel().as_json().decode()}\n"


def test_a_closed_pipe_closes_the_sink_and_says_nothing_more_when_the_program_ends() -> None:
    program = (
        "import sys\nfrom batchline.errors import SinkClosed\nfrom batchline.sinks.stdout import StdoutSink\n"
        "from tests.sinks.parcels import parcel\n"
        "try:\n    StdoutSink().send([parcel()])\nexcept SinkClosed:\n    sys.exit(7)\n"
    )
    reading, writing = os.pipe()
    os.close(reading)
    try:
        run = subprocess.run([sys.executable, "-c", program], stdout=writing, stderr=subprocess.PIPE)
    finally:
        os.close(writing)
    assert (run.returncode, run.stderr) == (7, b"")


def test_a_stream_that_is_closed_closes_the_sink() -> None:
    stream = io.BytesIO()
    stream.close()
    with pytest.raises(SinkClosed):
        StdoutSink(stream=stream).send([parcel()])


def test_what_each_line_is_must_be_known() -> None:
    with pytest.raises(InvalidSink, match="did you mean 'measurement'"):
        StdoutSink(each="measurements")  # type: ignore[arg-type]
