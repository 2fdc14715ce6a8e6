"""The page that holds the pictures."""

import re
from html.parser import HTMLParser

import pytest

from batchline.pictures.page import Section, page
from batchline.pictures.svg import svg
from batchline.pictures.windows import picture_of
from tests.pictures.tables import KEY, use_case

VOID = {"meta"}


class Outline(HTMLParser):
    """The tags of a page, each closed by its own end; and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.texts: list[str] = []
        self.classes: dict[str, str] = {}
        self.last_class = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.last_class = dict(attrs).get("class") or ""
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:  # noqa: ARG002 - the signature is HTMLParser's
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
        self.classes[data] = self.last_class


FIGURES = Section("Figures", "What <came> out.", rows=[("batches", "1,234"), ("throughput", "10.4 M/s")])
STAGES = Section("Stages", columns=("stage", "out", "note"), rows=[("batcher", "12", "3 late"), ("packer", "5", "")])


def test_a_page_has_headings_figures_and_pictures() -> None:
    picture = svg(picture_of(use_case("UC1"), KEY))
    outline = Outline(page("The run", [FIGURES, STAGES, Section("One key", pictures=[picture, picture])]))
    assert outline.open == []
    assert outline.seen[:6] == ["html", "head", "meta", "meta", "title", "style"]
    assert (outline.seen.count("h1"), outline.seen.count("h2"), outline.seen.count("section")) == (1, 3, 3)
    assert (outline.seen.count("table"), outline.seen.count("svg"), outline.seen.count("figure")) == (2, 2, 2)
    assert {"The run", "Figures", "1,234", "One key"} <= set(outline.texts)


def test_what_is_empty_is_left_out() -> None:
    outline = Outline(page("Nothing", [Section("Empty")]))
    assert not {"p", "table", "figure"} & set(outline.seen)
    assert Outline(page("", [])).seen.count("section") == 0


def test_numbers_stand_on_the_right() -> None:
    outline = Outline(page("Numbers", [FIGURES, STAGES]))
    assert [outline.classes[text] for text in ("10.4 M/s", "out", "5")] == ["number"] * 3
    assert [outline.classes[text] for text in ("batches", "stage", "note", "3 late")] == [""] * 4


def test_numbers_that_name_rows_do_not() -> None:
    outline = Outline(
        page("Numbers", [Section("Workers", columns=("workers", "seconds"), rows=[("1", "10"), ("2", "5.1")])])
    )
    assert [outline.classes[text] for text in ("workers", "1", "seconds", "5.1")] == ["", "", "number", "number"]


def test_markup_in_text_is_text() -> None:
    html = page("<b>&", [Section("<i>", "<script>", columns=["<u>", "a"], rows=[("<td>", "&lt;")])])
    assert not {"b", "i", "script", "u"} & set(Outline(html).seen)
    assert {"<b>&", "<i>", "<script>", "<u>", "<td>", "&lt;"} <= set(Outline(html).texts)


def test_it_needs_nothing_from_elsewhere() -> None:
    html = page("The run", [FIGURES, Section("One key", pictures=[svg(picture_of(use_case("UC1"), KEY))])])
    assert html.startswith('<!doctype html>\n<html lang="en">')
    assert not re.search(r"<script|<link|@import|url\(|src=|href=", html)
    assert 'name="viewport"' in html
    assert "prefers-color-scheme:dark" in html


def test_rows_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        page("Ragged", [Section("Rows", rows=[("a", "1"), ("b",)])])


def test_statements_say_whether_they_hold() -> None:
    made = page("Checked", [Section("What was checked", points=[(True, "all <arrived>"), (False, "in order")])])
    assert '<li class="right">all &lt;arrived&gt;</li>' in made
    assert '<li class="wrong">in order</li>' in made
    assert "all <arrived>" in Outline(made).texts
