"""SVG and HTML elements as text: everything that comes from data is escaped here, and only here."""

from collections.abc import Iterator
from html import escape

from rich.cells import cell_len

from batchline.pictures.captions import printable

__all__ = ["drawing", "element", "fitted", "lines", "text_width", "words"]

#: The mean width of a character, in parts of the font's size; a little more than most fonts have.
LETTER = 0.55


def element(name: str, *children: str, **attributes: float | str) -> str:
    """An element around children that are markup already; `class_` is class, `stroke_width` stroke-width."""
    written = "".join(f' {_attribute(key)}="{_value(value)}"' for key, value in attributes.items())
    return f"<{name}{written}>{''.join(children)}</{name}>" if children else f"<{name}{written}/>"


def drawing(look: str, style: str, width: float, height: float, label: str, *children: str) -> str:
    """A picture of its own, on paper: by `look` its style finds it, and `label` is for who cannot see it."""
    return element(
        "svg",
        element("style", style),
        element("rect", class_="paper", width=width, height=height),
        *children,
        xmlns="http://www.w3.org/2000/svg",
        class_=look,
        viewBox=f"0 0 {width} {height:.0f}",
        width=width,
        height=height,
        role="img",
        aria_label=label,
    )


def words(text: str) -> str:
    """Text from anywhere as markup that shows it."""
    return escape(printable(text))


def lines(*texts: str) -> str:
    """A tooltip of several lines."""
    return element("title", "\n".join(words(text) for text in texts))


def text_width(text: str, size: float) -> float:
    """About how wide a text is in a font of this size: nothing is measured, so nothing depends on installed fonts."""
    return cell_len(text) * size * LETTER


def fitted(text: str, size: float, room: float) -> str:
    """The text, or as much of it as has room, with an ellipsis."""
    text = printable(text)
    if text_width(text, size) <= room:
        return text
    return "".join(_beginning(text, room / size / LETTER - 1)) + "…"


def _beginning(text: str, cells: float) -> Iterator[str]:
    for letter in text:
        cells -= cell_len(letter)
        if cells < 0:
            return
        yield letter


def _attribute(name: str) -> str:
    return name.rstrip("_").replace("_", "-")


def _value(value: float | str) -> str:
    return words(value) if isinstance(value, str) else f"{value:.1f}".removesuffix(".0")
