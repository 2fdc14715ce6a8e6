"""A report as one HTML page: headings, tables of figures and pictures, with nothing to load from elsewhere."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from batchline.pictures.elements import element, words

__all__ = ["Section", "page"]

NUMBER = re.compile(r"[-+≤≥<>~]?\s*\d[\d,.]*\s*(%|\w{1,5}(/\w{1,3})?)?")

STYLE = """
:root{color-scheme:light dark;--paper:#f6f7f9;--card:#fff;--ink:#1c2430;--quiet:#66707c;--line:#e1e5ea;
--good:#17915a;--bad:#d1332a}
@media (prefers-color-scheme:dark){:root{--paper:#0b0e12;--card:#12161c;--ink:#e6e9ee;--quiet:#98a2ae;--line:#252c35;
--good:#3ecf8e;--bad:#ff7a70}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);line-height:1.5;
font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif}
main{max-width:1200px;margin:0 auto;padding:clamp(16px,3vw,40px) clamp(12px,2.5vw,32px)}
h1{font-size:clamp(1.4rem,4vw,2rem);line-height:1.2;margin:0 0 1.2rem}
h2{font-size:1.15rem;margin:0 0 .4rem}
section{background:var(--card);border:1px solid var(--line);border-radius:12px;margin:0 0 1.2rem;
padding:clamp(14px,2vw,24px)}
p{margin:0 0 .8rem;color:var(--quiet);max-width:75ch}
.scroll{overflow-x:auto;margin:.6rem 0 0}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{padding:.35rem 1.4rem .35rem 0;border-bottom:1px solid var(--line);text-align:left;font-weight:400;
vertical-align:baseline;white-space:nowrap}
thead th,tbody th{color:var(--quiet)}
thead th{font-size:.85rem}
tbody tr:last-child>*{border-bottom:0}
.number{text-align:right}
.points{list-style:none;margin:.6rem 0 0;padding:0}
.points li{padding:.3rem 0 .3rem 1.7rem;position:relative}
.points li::before{content:"✓";position:absolute;left:.1rem;font-weight:700;color:var(--good)}
.points .wrong::before{content:"✗";color:var(--bad)}
.points .wrong{color:var(--bad)}
figure{margin:1rem 0 0;overflow-x:auto;border:1px solid var(--line);border-radius:8px}
figure svg{display:block;width:100%;height:auto;min-width:920px}
"""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page: a heading, a sentence, a table of figures, statements, pictures; what is empty is left out."""

    heading: str
    text: str = ""
    #: The names of the columns; a table of names and values has none.
    columns: Sequence[str] = ()
    #: The first cell of a row names it.
    rows: Sequence[Sequence[str]] = ()
    #: Statements, and whether each holds.
    points: Sequence[tuple[bool, str]] = ()
    #: Pictures as `svg` draws them: markup, taken as it is.
    pictures: Sequence[str] = ()


def page(title: str, sections: Iterable[Section]) -> str:
    """One self-contained HTML page, light or dark as the reader prefers, and readable on a phone."""
    head = element(
        "head",
        '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        element("title", words(title)),
        element("style", STYLE),
    )
    body = element("body", element("main", element("h1", words(title)), *(_section(section) for section in sections)))
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def _section(section: Section) -> str:
    parts = [element("h2", words(section.heading))]
    if section.text:
        parts.append(element("p", words(section.text)))
    if section.rows:
        parts.append(element("div", _table(section), class_="scroll"))
    if section.points:
        points = [element("li", words(said), class_="right" if holds else "wrong") for holds, said in section.points]
        parts.append(element("ul", *points, class_="points"))
    parts += [element("figure", picture, tabindex="0") for picture in section.pictures]
    return element("section", *parts)


def _table(section: Section) -> str:
    # A column of numbers stands right-aligned, its head with it.
    numeric = [all(map(_is_number, column)) for column in zip(*section.rows, strict=True)]
    body = [element("tr", *_cells(row, numeric)) for row in section.rows]
    if not section.columns:
        return element("table", element("tbody", *body))
    named = zip(section.columns, numeric, strict=True)
    head = [_cell("th", name, right=right and place > 0, scope="col") for place, (name, right) in enumerate(named)]
    return element("table", element("thead", element("tr", *head)), element("tbody", *body))


def _cells(row: Sequence[str], numeric: Sequence[bool]) -> Iterable[str]:
    yield _cell("th", row[0], right=False, scope="row")
    for text, right in zip(row[1:], numeric[1:], strict=True):
        yield _cell("td", text, right=right)


def _cell(name: str, text: str, *, right: bool, **attributes: str) -> str:
    number = {"class_": "number"} if right else {}
    return element(name, words(text), **number, **attributes)


def _is_number(text: str) -> bool:
    return NUMBER.fullmatch(text.strip()) is not None
