"""Parcels as files in a directory: one each, whole or not at all."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from urllib.parse import quote

from batchline.core.consignment import Consignment
from batchline.errors import InvalidSink, Undelivered
from batchline.sinks.sink import Sink
from batchline.sinks.whole_file import whole_file

__all__ = ["FileSink", "file_name"]

#: File systems take 255 bytes, and a file has a longer name while it is written.
LONGEST: Final = 200
DIGEST: Final = 32


class FileSink(Sink):
    """Writes a JSON object per parcel; the same parcel writes the same file."""

    def __init__(self, directory: str | Path):
        self._directory = Path(directory)
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidSink(f"files: expected a directory, {self._directory} cannot be one: {error}") from error

    def send(self, parcels: Sequence[Consignment]) -> None:
        """Write the parcels; they are on disk when it returns."""
        for parcel in parcels:
            path = self._directory / file_name(parcel)
            try:
                with whole_file(path) as file:
                    file.write(parcel.as_json() + b"\n")
            except OSError as error:
                raise Undelivered(f"{path} cannot be written: {error}") from error


def file_name(parcel: Consignment) -> str:
    """A parcel's file: `publication,lane,number,id.json`, so that names are in order; safe, whatever is in them.

    No two parcels share one, for a comma in a name is written %2C.
    """
    parts = (parcel.publication, f"{parcel.lane:04}", f"{parcel.number:09}", parcel.id)
    name = ",".join(quote(part, safe="@") for part in parts)
    name = f"%2E{name[1:]}" if name.startswith(".") else name
    if len(name) > LONGEST:
        name = f"{name[: LONGEST - DIGEST - 1]},{hashlib.sha256(name.encode()).hexdigest()[:DIGEST]}"
    return f"{name}.json"
