"""What a stream was started with, kept beside its state: it cannot go on with anything else."""

import json
from typing import Any, Final

from batchline.errors import InvalidCheckpoint
from batchline.spark.epoch_files import Directory

__all__ = ["SETTINGS", "agree", "finish", "is_finished"]

SETTINGS: Final = "settings.json"
VERSION: Final = 1


def agree(directory: Directory, settings: dict[str, Any], asked_lanes: int | None, default_lanes: int) -> int:
    """The number of lanes, if the state was made with these settings; at the first start they are written down."""
    text = directory.read_text(SETTINGS)
    if text is None:
        lanes = asked_lanes or default_lanes
        directory.write_text(SETTINGS, json.dumps({"version": VERSION, "lanes": lanes} | settings, indent=2))
        return lanes
    made = _read(directory, text)
    lanes = asked_lanes or int(made["lanes"])
    other = list(_differences("", made, {"lanes": lanes} | settings))
    if other:
        raise InvalidCheckpoint(
            f"the checkpoint in {directory.path} was made with {'; '.join(other)}. "
            "Go on with what it was made with, or start anew with another checkpoint"
        )
    return lanes


def _read(directory: Directory, text: str) -> dict[str, Any]:
    try:
        made: dict[str, Any] = json.loads(text)
        version = made["version"]
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidCheckpoint(f"{directory.path}/{SETTINGS} is damaged: {error}") from error
    if version != VERSION:
        raise InvalidCheckpoint(f"expected a checkpoint of version {VERSION}, got version {version!r}")
    return made


def _differences(path: str, made: Any, now: Any) -> Any:
    """In words: what was, and what is asked for now."""
    if isinstance(made, dict) and isinstance(now, dict):
        for name in now:
            yield from _differences(f"{path} {name}".strip(), made.get(name), now[name])
    elif made != now:
        yield f"{path} {_said(made)}, not {_said(now)}"


def _said(value: Any) -> str:
    return "none" if value is None else json.dumps(value)


def finish(directory: Directory, epoch: int) -> None:
    """Write down that the input has ended, and in which epoch what was open is handed out."""
    made = _read(directory, directory.read_text(SETTINGS) or "")
    directory.write_text(SETTINGS, json.dumps(made | {"finished": epoch}, indent=2))


def is_finished(directory: Directory) -> int | None:
    """The epoch after the last one, if the input has ended."""
    epoch: int | None = _read(directory, directory.read_text(SETTINGS) or "").get("finished")
    return epoch
