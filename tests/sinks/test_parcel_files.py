import errno
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchline.errors import InvalidSink, Undelivered
from batchline.sinks.parcel_files import FileSink, file_name
from tests.sinks.parcels import parcel, parcel_of


def test_each_parcel_is_a_file_in_the_order_of_its_lane(tmp_path: Path) -> None:
    sink = FileSink(tmp_path / "new" / "folder")
    numbers = [1, 2, 9, 10, 11, 100]
    for number in numbers:
        sink.send([parcel(f"d@{number}", number=number)])
    files = sorted((tmp_path / "new" / "folder").iterdir())
    assert files[0].name == "import,0000,000000001,d@1.json"
    assert [json.loads(file.read_bytes())["number"] for file in files] == numbers
    assert files[0].read_bytes() == parcel("d@1").as_json() + b"\n"


def test_the_same_parcel_overwrites_itself(tmp_path: Path) -> None:
    sink = FileSink(tmp_path)
    for _ in range(3):
        sink.send([parcel("p"), parcel("q", lane=1)])
    assert len(list(tmp_path.iterdir())) == 2


def test_a_full_disk_is_undelivered_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fill_the_disk(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    sink = FileSink(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fill_the_disk)
        with pytest.raises(Undelivered, match="No space left"):
            sink.send([parcel()])
    assert list(tmp_path.iterdir()) == []
    sink.send([parcel()])
    assert len(list(tmp_path.iterdir())) == 1


def test_what_cannot_be_a_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(InvalidSink, match=r"expected a directory, .*taken"):
        FileSink(tmp_path / "taken")


ids = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=100)


@given(ids, ids)
def test_any_two_ids_give_two_safe_names(one: str, other: str) -> None:
    names = [file_name(parcel_of([], id)) for id in (one, other)]
    assert (names[0] == names[1]) == (one == other)
    for name in names:
        assert name.isascii()
        assert len(name) <= 205
        assert not {"/", "\\", "\0", " ", ":"} & set(name)
        assert not name.startswith(".")
