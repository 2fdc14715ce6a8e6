"""The words of a picture, the same in the terminal and in SVG."""

from collections.abc import Iterable
from itertools import takewhile

from batchline.pictures.axis import SECOND, clock_text, day_text, duration_text, moment_text
from batchline.pictures.windows import Bar, Rejected, WindowsPicture

__all__ = [
    "MARKS",
    "NO_MESSAGES",
    "BatchNames",
    "closing_text",
    "counts_text",
    "delay_text",
    "distances_text",
    "hidden_text",
    "names_of",
    "printable",
    "received_text",
    "stretch_text",
]

NO_MESSAGES = "no messages"
#: The reasons in the order of their lanes, each with its mark.
MARKS = {"late": "×", "future": "▸", "duplicate": "=", "oversize": "▣"}
#: As many characters of a batch's name stay as tell it from its neighbours.
KEPT = 6


class BatchNames:
    """Short names for a picture's batches: what all ids have in common is said once."""

    def __init__(self, key: str, ids: Iterable[str]) -> None:
        tails = [id.removeprefix(f"{key}@") for id in ids]
        common = _beginning([tail[:-KEPT] for tail in tails])
        #: What `…` stands for; empty where nothing is left out.
        self.prefix = f"{key}@{common}" if common else ""
        self._before = self.prefix or f"{key}@"

    def short(self, id: str) -> str:
        """The name on the picture."""
        return printable(("…" if self.prefix else "@") + id.removeprefix(self._before))


def names_of(picture: WindowsPicture) -> BatchNames:
    """Short names for the picture's batches."""
    return BatchNames(picture.key, [bar.id for bar in picture.bars])


def printable(text: str) -> str:
    """The text in one line, without what a terminal would obey or XML forbids."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)


def stretch_text(picture: WindowsPicture) -> str:
    """From when to when, in UTC."""
    return _from_to(picture.first_us, picture.last_us)


def received_text(picture: WindowsPicture) -> str:
    """When it was received, where there is no batch to show that; event times may be of another age altogether."""
    if picture.bars or not picture.rejected:
        return ""
    received = [message.receive_us for message in picture.rejected]
    return f"received {_from_to(min(received), max(received))}"


def counts_text(picture: WindowsPicture) -> str:
    """What the key has in all."""
    counts = picture.counts
    rejected = ", ".join(f"{count:,} {reason}" for reason, count in counts.rejected)
    batches = f"{_count(counts.batches, 'batch', 'batches')} of {_count(counts.batched, 'message', 'messages')}"
    return f"{batches if counts.batches else 'no batches'} · rejected: {rejected or 'none'}"


def hidden_text(picture: WindowsPicture) -> str:
    """What was left out; empty where all is shown."""
    hidden = picture.hidden
    parts = [
        _count(hidden.batches, "later batch", "later batches") if hidden.batches else "",
        _count(hidden.batched, "batched message", "batched messages") if hidden.batched else "",
        _count(hidden.rejected, "rejected message", "rejected messages") if hidden.rejected else "",
    ]
    named = ", ".join(part for part in parts if part)
    return f"not shown: {named}" if named else ""


def closing_text(bar: Bar) -> str:
    """How many messages it has and why it closed."""
    return f"{_count(bar.members, 'message', 'messages')} · {bar.close_reason}"


def delay_text(event_us: int, receive_us: int) -> str:
    """How far receipt and event lie apart, and which was first."""
    if receive_us == event_us:
        return "received at once"
    side = "later" if receive_us > event_us else "earlier"
    return f"received {duration_text(receive_us - event_us)} {side}"


def distances_text(messages: Iterable[Rejected]) -> str:
    """How far the event times of messages off the axis are from their receipt: 3.2 s, or 3 of 3.2 s … 59 min."""
    distances = sorted(abs(message.receive_us - message.event_us) for message in messages)
    ends = list(dict.fromkeys(duration_text(distance) for distance in (distances[0], distances[-1])))
    many = f"{len(distances):,} of " if len(distances) > 1 else ""
    return many + " … ".join(ends)


def _beginning(texts: Iterable[str]) -> str:
    """What all texts begin with."""
    columns = takewhile(lambda letters: len(set(letters)) == 1, zip(*texts, strict=False))
    return "".join(letters[0] for letters in columns)


def _from_to(first_us: int, last_us: int) -> str:
    step = _precision_us(last_us - first_us)
    if first_us == last_us:
        return f"{moment_text(first_us, step)} UTC"
    # The day is named again only where it changes.
    to = clock_text if day_text(first_us) == day_text(last_us) else moment_text
    return f"{moment_text(first_us, step)} – {to(last_us, step)} UTC"


def _precision_us(span_us: int) -> int:
    if span_us < SECOND // 100:
        return 1
    return 1_000 if span_us < 600 * SECOND else SECOND


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"
