"""The pages about pipelines name every key, and what they show as a pipeline's file is one."""

import re
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from batchline.core.batch_rules import BatchRules
from batchline.core.pack_rules import PackRules
from batchline.core.pipeline import Capacity, Pipeline, Publication, SinkAddress, Source, Work
from batchline.core.pipeline_tables import pipeline_of
from batchline.core.retry import RetryRules
from batchline.flow import Summary

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "reference/pipeline.md").read_text()
#: A block of TOML that begins with a name.
WHOLE_FILE = re.compile(r"^```toml[^\n]*\n(name = .*?)^```", re.MULTILINE | re.DOTALL)
PARTS = {
    "## The file itself": Pipeline,
    "## `[source]`": Source,
    "## `[batch]`": BatchRules,
    "## `[pack]`": PackRules,
    "## `[publish]`": Publication,
    "## `[capacity]`": Capacity,
    "## `[sink]`": SinkAddress,
    "## `[work]`": Work,
    "`retry` has": RetryRules,
    "## The summary": Summary,
}


def section(begin: str) -> str:
    """From its heading to the next."""
    return PAGE[PAGE.index(begin) :].split("\n## ")[0]


@pytest.mark.parametrize("begin", PARTS)
def test_every_key_stands_in_its_section(begin: str) -> None:
    text = section(begin)
    keys = [field.name for field in fields(PARTS[begin]) if f"## `[{field.name}]`" not in PARTS]
    assert [key for key in keys if f"`{key}`" not in text] == []


def files() -> list[Any]:
    """Blocks of TOML that are whole files: those that have a name."""
    return [
        pytest.param(block, id=page.stem)
        for page in [DOCS.parent / "README.md", *sorted(DOCS.rglob("*.md"))]
        for block in WHOLE_FILE.findall(page.read_text())
    ]


@pytest.mark.parametrize("text", files())
def test_a_pipeline_that_a_page_shows_is_one(text: str) -> None:
    assert pipeline_of(tomllib.loads(text)).name
