"""One strip of the SVG: its axis, its windows in rows, its rejected messages in lanes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from batchline.pictures.axis import clock_text, duration_text, moment_text, tick_step, ticks
from batchline.pictures.captions import BatchNames, closing_text, delay_text, distances_text
from batchline.pictures.elements import element, lines, text_width, words
from batchline.pictures.palette import type_class
from batchline.pictures.strips import Lane, Strip, lanes_of, levels_of
from batchline.pictures.windows import Bar, Dot, Rejected

__all__ = ["LEFT", "PLOT", "WIDTH", "Block", "Look", "strip_block"]

#: A piece of the picture and its height.
Block = tuple[str, float]

WIDTH, LEFT, RIGHT = 1120, 92, 20
PLOT = WIDTH - LEFT - RIGHT
AXIS_HEIGHT, LABEL_HEIGHT, GAP = 24, 14, 8
LABELLED_LEVEL, PLAIN_LEVEL, SMALLEST_LEVEL = 14, 10, 5
#: A row of windows grows to about this height before its dots shrink.
ROW_HEIGHT = 120
MOST_LEVELS, MOST_LANE_LEVELS = 24, 10
LANE_LEVEL = 13
#: The length of a wire that leads beyond the strip.
STUB = 22

SHAPES = {
    "late": "M-3.5-3.5l7 7M3.5-3.5l-7 7",
    "future": "M-3-4l6 4l-6 4z",
    "duplicate": "M-4-2h8M-4 2h8",
    "oversize": "M-4-4h8v8h-8zM-1-1h2v2h-2z",
}


@dataclass(frozen=True, slots=True)
class Look:
    """What all strips of a picture share."""

    names: BatchNames
    #: Each type with its number in the legend.
    types: dict[str, int]
    #: Whether messages are labelled with their type.
    labelled: bool


@dataclass(frozen=True, slots=True)
class _Scale:
    first_us: int
    last_us: int

    @property
    def per_us(self) -> float:
        return PLOT / max(1, self.last_us - self.first_us)

    def x(self, us: int) -> float:
        """Where a moment lies; at the edge, if it lies outside."""
        return LEFT + (min(max(us, self.first_us), self.last_us) - self.first_us) * self.per_us


def strip_block(strip: Strip, look: Look, day: str) -> Block:
    """Draw a strip; also says how high it is."""
    scale = _Scale(strip.first_us, strip.last_us)
    parts, y = [], float(AXIS_HEIGHT)
    lanes = [_lane(lane, scale, look) for lane in lanes_of(strip)]
    for content, height in (*_rows(strip, scale, look), *lanes):
        parts.append(element("g", content, transform=f"translate(0 {y:.1f})"))
        y += height
    return "".join([_axis(scale, day, y), *parts]), y + 2 * GAP


def _axis(scale: _Scale, day: str, height: float) -> str:
    step = tick_step(scale.per_us, lambda step: text_width(clock_text(scale.first_us, step), 11) + 44)
    parts = [element("text", words(day), class_="quiet", x=16, y=11)] if day else []
    for tick in ticks(scale.first_us, scale.last_us, step):
        x = scale.x(tick)
        parts.append(element("path", class_="grid", d=f"M{x:.1f} 18V{height:.1f}"))
        anchor = _anchor(x)
        parts.append(element("text", clock_text(tick, step), class_="quiet tick", x=x, y=11, text_anchor=anchor))
    parts.append(element("path", class_="rule", d=f"M{LEFT} 18H{WIDTH - RIGHT}"))
    return "".join(parts)


def _anchor(x: float) -> str:
    """A label is centred under its tick, but at the edges."""
    if x < LEFT + 40:
        return "start"
    return "end" if x > WIDTH - RIGHT - 40 else "middle"


def _rows(strip: Strip, scale: _Scale, look: Look) -> Iterator[Block]:
    """The windows, as many in a row as do not touch."""
    spans = [_bar_span(bar, scale, look) for bar in strip.bars]
    rows = levels_of(spans, len(spans))
    for row in range(max(rows, default=-1) + 1):
        yield _row([bar for bar, level in zip(strip.bars, rows, strict=True) if level == row], scale, look)


def _bar_span(bar: Bar, scale: _Scale, look: Look) -> tuple[float, float]:
    right = max(bar.end_us, bar.closed_at_us)
    left = _label_x(bar, scale, look)
    label = left + text_width(_label(bar, look), 10)
    dots = [_span(dot, scale, look) for dot in bar.dots]
    return min(left, scale.x(bar.start_us)), max(scale.x(right), label, *(dot[1] for dot in dots)) + GAP


def _label(bar: Bar, look: Look) -> str:
    return f"{look.names.short(bar.id)} · {closing_text(bar)}"


def _label_x(bar: Bar, scale: _Scale, look: Look) -> float:
    """Above the beginning of its window; further left where the strip ends."""
    return min(scale.x(bar.start_us), WIDTH - RIGHT - text_width(_label(bar, look), 10))


def _row(bars: Sequence[Bar], scale: _Scale, look: Look) -> Block:
    levels = [levels_of([_span(dot, scale, look) for dot in bar.dots], MOST_LEVELS) for bar in bars]
    highest = max(max(of_bar, default=0) for of_bar in levels) + 1
    level_height = min(LABELLED_LEVEL if look.labelled else PLAIN_LEVEL, max(SMALLEST_LEVEL, ROW_HEIGHT / highest))
    height = highest * level_height + 6
    drawn = [_bar(bar, of_bar, scale, look, level_height, height) for bar, of_bar in zip(bars, levels, strict=True)]
    return "".join(drawn), LABEL_HEIGHT + height + GAP


def _bar(bar: Bar, levels: Sequence[int], scale: _Scale, look: Look, level_height: float, height: float) -> str:
    label = words(_label(bar, look))
    parts = [
        _tooltip_of_bar(bar),
        *_window(bar, scale, height),
        element("text", label, class_="label quiet", x=_label_x(bar, scale, look), y=LABEL_HEIGHT - 4),
    ]
    for dot, level in zip(bar.dots, levels, strict=True):
        y = LABEL_HEIGHT + 3 + (level + 0.5) * level_height
        parts.append(_dot(dot, bar, y, scale, look, min(4.0, level_height * 0.42)))
    return element("g", *parts, class_="bar", data_id=bar.id)


def _window(bar: Bar, scale: _Scale, height: float) -> Iterator[str]:
    """The window with the wait behind it, or with the rest that it never came to; a strong line where it closed."""
    start, end, closed = scale.x(bar.start_us), scale.x(bar.end_us), scale.x(bar.closed_at_us)
    if bar.closed_at_us >= bar.end_us:
        yield _box("waiting", max(start, end - 6), closed, height)
        yield _box("window", start, end, height)
    else:
        yield _box("window unused", start, end, height)
        yield _box("window", start, closed, height) if closed > start else ""
    if scale.first_us <= bar.closed_at_us <= scale.last_us:
        yield element("path", class_="closed", d=f"M{closed:.1f} {LABEL_HEIGHT + 3}v{height - 6:.1f}")


def _box(kind: str, left: float, right: float, height: float) -> str:
    return element("rect", class_=kind, x=left, y=LABEL_HEIGHT, width=max(1.5, right - left), height=height, rx=5)


def _span(message: Dot | Rejected, scale: _Scale, look: Look) -> tuple[float, float]:
    """What a message takes of its level: itself, its wire and its label."""
    event, receive = scale.x(message.event_us), _wire_end(message, scale)
    left = _name_x(message, scale) if look.labelled else event
    right = left + text_width(message.type, 10) if look.labelled else event
    return min(event, receive, left) - 5, max(event, receive, right) + 5


def _dot(dot: Dot, bar: Bar, y: float, scale: _Scale, look: Look, radius: float) -> str:
    x, kind = scale.x(dot.event_us), type_class(look.types[dot.type])
    parts = [
        lines(dot.type, *_times(dot), f"in {bar.id}"),
        _wire(dot, y, scale),
        element("circle", class_=kind, cx=x, cy=y, r=radius),
    ]
    if look.labelled:
        parts.append(_name(dot, y, scale))
    return element("g", *parts, class_="dot")


def _wire(message: Dot | Rejected, y: float, scale: _Scale) -> str:
    """From the event to its receipt, with a stop there; with an arrow where that lies beyond the strip."""
    event, receive = scale.x(message.event_us), _wire_end(message, scale)
    way = 3 if receive >= event else -3
    head = f"m{-way} -3l{way} 3l{-way} 3" if _is_received_elsewhere(message, scale) else "m0 -3v6"
    return element("path", class_="wire", d=f"M{event:.1f} {y:.1f}H{receive:.1f}{head}")


def _wire_end(message: Dot | Rejected, scale: _Scale) -> float:
    """Where a wire ends: one that would leave the strip is short, for its length would tell nothing."""
    event, receive = scale.x(message.event_us), scale.x(message.receive_us)
    if not _is_received_elsewhere(message, scale):
        return receive
    return min(receive, event + STUB) if message.receive_us > message.event_us else max(receive, event - STUB)


def _is_received_elsewhere(message: Dot | Rejected, scale: _Scale) -> bool:
    return not scale.first_us <= message.receive_us <= scale.last_us


def _lane(lane: Lane, scale: _Scale, look: Look) -> Block:
    here = sorted(lane.here, key=lambda message: message.event_us)
    levels = levels_of([_span(message, scale, look) for message in here], MOST_LANE_LEVELS)
    rows = 1 + max(levels, default=-1)
    parts = [element("text", words(lane.reason), class_=lane.reason, x=16, y=LANE_LEVEL - 3)]
    for message, level in zip(here, levels, strict=True):
        parts.append(_mark(message, (level + 0.5) * LANE_LEVEL, scale, look))
    if lane.before or lane.after:
        parts += _off_axis(lane, (rows + 0.5) * LANE_LEVEL)
        rows += 1
    return "".join(parts), rows * LANE_LEVEL + GAP / 2


def _mark(message: Rejected, y: float, scale: _Scale, look: Look) -> str:
    x = scale.x(message.event_us)
    place = f"translate({x:.1f} {y:.1f})"
    parts = [
        _tooltip_of_rejected(message),
        _wire(message, y, scale),
        element("path", class_=f"mark {message.reason}", d=SHAPES[message.reason], transform=place),
    ]
    if look.labelled:
        parts.append(_name(message, y, scale))
    return element("g", *parts, class_="rejected")


def _name(message: Dot | Rejected, y: float, scale: _Scale) -> str:
    return element("text", words(message.type), class_="label halo", x=_name_x(message, scale), y=y + 3.5)


def _name_x(message: Dot | Rejected, scale: _Scale) -> float:
    """Beside the message, on its wire; behind a wire too short to show below it; before, where the strip ends."""
    event, receive, width = scale.x(message.event_us), _wire_end(message, scale), text_width(message.type, 10)
    x = receive + 5 if 0 <= receive - event < width + 20 else event + 7
    return x if x + width < WIDTH else min(event, receive) - 7 - width


def _off_axis(lane: Lane, y: float) -> Iterator[str]:
    """Arrows at the edges, and how far away the event times are."""
    yield from _arrows(lane.before, LEFT + 6, 1, y)
    yield from _arrows(lane.after, WIDTH - RIGHT - 6, -1, y)


def _arrows(messages: Sequence[Rejected], x: float, way: int, y: float) -> Iterator[str]:
    # Many arrows move together rather than run into the plot.
    apart = min(9.0, 110 / max(1, len(messages)))
    for n, message in enumerate(messages):
        arrow = element("path", class_=f"mark {message.reason}", d=f"M{way * 4}-4l{way * -6} 4l{way * 6} 4z")
        placed = element("g", arrow, transform=f"translate({x + way * n * apart:.1f} {y:.1f})")
        yield element("g", _tooltip_of_rejected(message), placed, class_="rejected")
    if messages:
        x += way * (len(messages) * apart + 3)
        anchor = "start" if way > 0 else "end"
        text = distances_text(messages)
        yield element("text", text, class_=messages[0].reason, x=x, y=y + 4, text_anchor=anchor)


def _tooltip_of_bar(bar: Bar) -> str:
    wait = bar.closed_at_us - bar.end_us
    return lines(
        bar.id,
        f"window {moment_text(bar.start_us)} – {clock_text(bar.end_us)} UTC",
        f"closed {moment_text(bar.closed_at_us)}, {duration_text(wait)} {'after' if wait >= 0 else 'before'} its end",
        closing_text(bar),
    )


def _tooltip_of_rejected(message: Rejected) -> str:
    return lines(f"{message.reason}: {message.type}", *_times(message))


def _times(message: Dot | Rejected) -> Iterator[str]:
    yield f"event {moment_text(message.event_us)} UTC"
    yield f"{delay_text(message.event_us, message.receive_us)}, {moment_text(message.receive_us)} UTC"
