"""One key's windows as SVG: a picture in itself, without scripts, fonts or anything from elsewhere.

Time runs to the right. A message stands at its event time, in the window of its batch; its wire leads to the moment of
its receipt. The pale part behind a window is the wait for late messages until the batch closes. Below, in a lane for
each reason, the rejected messages.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from batchline.pictures.axis import day_text, duration_text
from batchline.pictures.captions import NO_MESSAGES, counts_text, hidden_text, names_of, received_text, stretch_text
from batchline.pictures.elements import drawing, element, fitted, text_width, words
from batchline.pictures.palette import STYLE, type_class
from batchline.pictures.strips import Strip, strips_of
from batchline.pictures.svg_strip import LEFT, PLOT, WIDTH, Block, Look, strip_block
from batchline.pictures.windows import WindowsPicture, typical_us

__all__ = ["svg"]

#: A typical window is at least so wide, so seven windows of the default rules make a strip.
READABLE = 129
MARGIN = 16
#: The legend names so many types; the tooltips name all.
NAMED_TYPES = 20
LEGEND_LINE = 18


def svg(picture: WindowsPicture) -> str:
    """Draw the picture as one SVG element, light or dark as the viewer prefers."""
    blocks = [_heading(picture)]
    if picture.bars or picture.rejected:
        strips = strips_of(picture, PLOT / READABLE)
        types = _types_of(picture)
        look = Look(names_of(picture), types, _has_room(picture, types, strips[0]))
        blocks += _strips(strips, look)
        blocks += _legend(picture, look)
    height = sum(block[1] for block in blocks) + 2 * MARGIN
    label = f"{picture.key}: {counts_text(picture)}"
    return drawing(
        "windows",
        STYLE,
        WIDTH,
        height,
        label,
        *_stacked(blocks),
    )


def _stacked(blocks: Sequence[Block]) -> Iterator[str]:
    y = float(MARGIN)
    for content, height in blocks:
        yield element("g", content, transform=f"translate(0 {y:.1f})")
        y += height


def _types_of(picture: WindowsPicture) -> dict[str, int]:
    types = {dot.type for bar in picture.bars for dot in bar.dots}
    return {type: index for index, type in enumerate(sorted(types))}


def _has_room(picture: WindowsPicture, types: Iterable[str], strip: Strip) -> bool:
    """Whether messages can be labelled with their type: where all names are short against a window."""
    names = {*types, *(message.type for message in picture.rejected)}
    longest = max(text_width(name, 10) for name in names)
    typical = typical_us(picture.bars) if picture.bars else strip.last_us - strip.first_us
    return longest * 4 * (strip.last_us - strip.first_us) <= typical * PLOT


def _heading(picture: WindowsPicture) -> Block:
    key = fitted(picture.key, 17, WIDTH - 2 * MARGIN)
    empty = not picture.bars and not picture.rejected
    told = (stretch_text, received_text, counts_text, hidden_text)
    shown = [NO_MESSAGES] if empty else [text for text in (tell(picture) for tell in told) if text]
    written = [element("text", words(text), class_="quiet", x=MARGIN, y=34 + 16 * n) for n, text in enumerate(shown)]
    return element("text", words(key), class_="key", x=MARGIN, y=15) + "".join(written), 34 + 16 * len(shown)


def _strips(strips: Sequence[Strip], look: Look) -> Iterator[Block]:
    yield strip_block(strips[0], look, day_text(strips[0].first_us))
    for previous, strip in pairwise(strips):
        yield from _pause(previous, strip)
        day = day_text(strip.first_us)
        yield strip_block(strip, look, "" if day == day_text(previous.first_us) else day)


def _pause(previous: Strip, strip: Strip) -> Iterator[Block]:
    """Time left out between two strips is said where it is as long as a strip: shorter, the axes tell."""
    pause = strip.first_us - previous.last_us
    if pause > strip.last_us - strip.first_us:
        yield element("text", f"⋮ {duration_text(pause)} without a batch", class_="quiet", x=LEFT, y=4), 16


def _legend(picture: WindowsPicture, look: Look) -> Iterator[Block]:
    yield _signs(picture)
    if picture.bars:
        yield from _type_lines(look)
    if look.names.prefix:
        first = picture.bars[0].id
        text = fitted(f"{look.names.short(first)} is {first}", 11, WIDTH - 2 * MARGIN)
        yield element("text", words(text), class_="quiet", x=MARGIN, y=12), LEGEND_LINE


def _signs(picture: WindowsPicture) -> Block:
    """Only the signs that the picture uses are explained."""
    x, parts = float(MARGIN), []
    for sign, text in _used_signs(picture):
        label = element("text", text, class_="quiet", x=32, y=12)
        parts.append(element("g", sign, label, transform=f"translate({x:.1f} 0)"))
        x += text_width(text, 11) + 50
    return "".join(parts), LEGEND_LINE


def _used_signs(picture: WindowsPicture) -> Iterator[tuple[str, str]]:
    if picture.bars:
        yield _swatch("window"), "window"
        yield _swatch("waiting"), "open for late messages until it closes"
    if any(bar.closed_at_us < bar.end_us for bar in picture.bars):
        yield _swatch("window unused"), "closed before its end"
    dot = element("circle", class_="t0" if picture.bars else "quiet", cx=4, cy=8.5, r=4)
    yield (
        element("path", class_="wire", d="M4 8.5H27M27 5.5v6") + dot,
        "message at its event time, and when it was received",
    )


def _swatch(kind: str) -> str:
    return element("rect", class_=kind, y=3, width=26, height=11, rx=4)


def _type_lines(look: Look) -> Iterator[Block]:
    x = float(MARGIN)
    parts: list[str] = []
    for type, index in list(look.types.items())[:NAMED_TYPES]:
        name = fitted(type, 11, 200)
        wide = text_width(name, 11) + 28
        if x + wide > WIDTH - MARGIN:
            yield "".join(parts), LEGEND_LINE
            x, parts = float(MARGIN), []
        parts.append(element("circle", class_=type_class(index), cx=x + 5, cy=8.5, r=4))
        parts.append(element("text", words(name), class_="quiet", x=x + 13, y=12))
        x += wide
    if len(look.types) > NAMED_TYPES:
        parts.append(element("text", f"+ {len(look.types) - NAMED_TYPES:,} types", class_="quiet", x=x, y=12))
    yield "".join(parts), LEGEND_LINE
