"""Names that people choose: ids of fanouts, of calls, labels. Kept to the character, in every database."""

import unicodedata
from collections.abc import Mapping
from typing import Final

from batchline.errors import InvalidName, shown

__all__ = ["LONGEST_NAME", "LONGEST_REASON", "check_labels", "check_name", "reason_text"]

LONGEST_NAME: Final = 255
LONGEST_REASON: Final = 1000


def check_name(what: str, name: object) -> str:
    """The name, if every store can keep it: 1 to 255 characters, none of them a control character."""
    if not isinstance(name, str):
        raise InvalidName(f"{what} must be a text, got {shown(name)} ({type(name).__name__})")
    if not 1 <= len(name) <= LONGEST_NAME:
        raise InvalidName(f"{what} must have 1 to {LONGEST_NAME} characters, got {len(name):,}: {name[:40]!r}")
    if name.isprintable():
        return name  # so it has none, and need not be looked through
    for place, character in enumerate(name):
        # Cc: control characters; Cs: halves of a surrogate pair, which no UTF-8 has.
        if unicodedata.category(character) in ("Cc", "Cs"):
            raise InvalidName(f"{what} must have no control characters, got {character!r} at {place} of {name[:40]!r}")
    return name


def check_labels(labels: object) -> dict[str, str]:
    """Labels, by their names, if every store can keep them."""
    if not isinstance(labels, Mapping):
        raise InvalidName(f"labels must map names to values, got {shown(labels)}")
    for name, value in labels.items():
        check_name("the name of a label", name)
        check_name(f"the value of the label {name!r}", value)
    return dict(sorted(labels.items()))


def reason_text(reason: object) -> str:
    """A reason as it is kept: what no database can hold is replaced, what is too long is cut."""
    text = str(reason).replace("\0", "\N{REPLACEMENT CHARACTER}")
    return text.encode(errors="replace").decode()[:LONGEST_REASON]
