"""Files that are there whole or not at all, and what each epoch of a lane left in them.

An epoch reads what an earlier one left, never its own: replayed, it reads the same and writes the same. Its json is
written last: where it is, the tables it speaks of are.
"""

import json
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyarrow import fs, ipc

from batchline.errors import InvalidCheckpoint

__all__ = ["LAST_EPOCH", "Directory", "EpochFiles", "place_of"]


#: After every epoch that there will be.
LAST_EPOCH: Final = 2**31


class Directory:
    """A directory on any file system that a checkpoint can be on; a file in it is there whole or not at all."""

    def __init__(self, uri: str) -> None:
        #: Where it is, in whichever process.
        self.uri = uri if "://" in uri else str(Path(uri).absolute())
        try:
            self.files, self.path = fs.FileSystem.from_uri(self.uri)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise InvalidCheckpoint(f"state cannot be kept in {uri}: {error}") from error
        if isinstance(self.files, fs.LocalFileSystem):
            # Mapped, so that only the pages of the keys at hand are read.
            self.files = fs.LocalFileSystem(use_mmap=True)

    def names(self, below: str) -> list[str]:
        """The names of the files in a directory below this one."""
        found = self.files.get_file_info(fs.FileSelector(f"{self.path}/{below}", allow_not_found=True))
        return [info.base_name for info in found]

    def size(self) -> int:
        """How many bytes the files below it have."""
        found = self.files.get_file_info(fs.FileSelector(self.path, allow_not_found=True, recursive=True))
        return sum(info.size or 0 for info in found)

    def read_text(self, name: str) -> str | None:
        """A text, or None if there is no such file."""
        try:
            with self.files.open_input_file(f"{self.path}/{name}") as file:
                return bytes(file.read()).decode()
        except FileNotFoundError:
            return None

    def read_table(self, name: str) -> pa.Table:
        """A table; its columns are read as they are used."""
        return ipc.open_file(self.files.open_input_file(f"{self.path}/{name}")).read_all()

    def write_text(self, name: str, text: str) -> None:
        """Write a text."""
        partial = self._partial(name)
        with self.files.open_output_stream(partial) as file:
            file.write(text.encode())
        self.files.move(partial, f"{self.path}/{name}")

    def write_table(self, name: str, table: pa.Table) -> None:
        """Write a table."""
        partial = self._partial(name)
        with self.files.open_output_stream(partial) as file, ipc.new_file(file, table.schema) as writer:
            # In one piece, so that a row is found by its place.
            writer.write_table(table.combine_chunks())
        self.files.move(partial, f"{self.path}/{name}")

    def delete(self, name: str) -> None:
        """Delete a file that another process may have deleted already."""
        try:
            self.files.delete_file(f"{self.path}/{name}")
        except FileNotFoundError:
            return

    def _partial(self, name: str) -> str:
        lane, _, base = name.rpartition("/")
        self.files.create_dir(f"{self.path}/{lane}", recursive=True)
        return f"{self.path}/{lane}/.{base}.{secrets.token_hex(4)}"


def place_of(lane: int) -> str:
    """Where a lane's files are."""
    return f"lane-{lane:04}"


class EpochFiles:
    """What the epochs before one have left in a place, a lane's for instance, and what this one leaves."""

    def __init__(self, directory: Directory, place: str, epoch: int, query: str | None = None) -> None:
        self.directory, self.place, self.epoch, self.query = directory, place, epoch, query
        self.names = directory.names(place)
        #: The last epoch before, and its notes.
        self.before, self.notes = self._before()

    def _before(self) -> tuple[int, dict[str, Any]]:
        epochs = [int(name[:-5]) for name in self.names if name.endswith(".json") and name[0] != "."]
        before = max((epoch for epoch in epochs if epoch < self.epoch), default=-1)
        text = None if before < 0 else self.directory.read_text(f"{self.place}/{before:06}.json")
        notes: dict[str, Any] = {} if text is None else json.loads(text)
        if notes and notes["query"] != self.query:
            raise InvalidCheckpoint(
                f"the state in {self.directory.path} belongs to the query {notes['query']}, not to {self.query}; "
                "a new checkpoint needs a new directory for its state"
            )
        return before, notes

    def read(self, epoch: str, part: str) -> pa.Table:
        """A table that an epoch wrote."""
        return self.directory.read_table(f"{self.place}/{epoch}.{part}.arrow")

    def write(self, tables: Mapping[str, pa.Table], notes: dict[str, Any], live: Iterable[str] = ()) -> None:
        """Write the tables, then the notes; and delete what nobody needs any more, but for the `live` epochs."""
        name = f"{self.epoch:06}"
        for part, table in tables.items():
            self.directory.write_table(f"{self.place}/{name}.{part}.arrow", table)
        text = json.dumps(notes | {"query": self.query}, sort_keys=True)
        self.directory.write_text(f"{self.place}/{name}.json", text)
        self._clean({*live, f"{self.before:06}"})

    def _clean(self, live: set[str]) -> None:
        """Delete what an epoch before this one wrote, unless it lives; never what a later one has written."""
        for name in self.names:
            of = name.partition(".")[0]
            if of.isdigit() and int(of) < self.epoch and of not in live:
                self.directory.delete(f"{self.place}/{name}")
