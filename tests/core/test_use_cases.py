"""The five use cases of the seed, to the number."""

import re

import pytest

from batchline import Batch, BatchRules, EventTimeBatcher, Measurement
from tests.core.streams import us

# name, anchor of the windows shown, messages as a1:t@T, batches as [start,end) timeout {members}, rejected
USE_CASES = [
    (
        "UC1", "arrival",
        "b1:120@125 a1:115@135 c1:142@150 d1:160@165 e1:175@190 g1:240@250 f1:215@260",
        "[105,155) 175 {a1 b1 c1} · [155,205) 225 {d1 e1} · [230,280) 300 {g1}",
        ["f1@260 late"],
    ),
    (
        "UC2", "lookback",
        "a1:120@130 b1:130@140 c1:142@150 d1:180@190 e1:190@210",
        "[100,150) 170 {a1 b1 c1} · [160,210) 230 {d1 e1}",
        [],
    ),
    (
        "UC3", "lookback",
        "a1:120@125 b1:130@140 a2:140@150 c1:150@170 a3:170@180",
        "[100,140) 160 {a1 b1} · [140,170) 190 {a2 c1} · [170,220) 240 {a3}",
        [],
    ),
    (
        "UC4", "lookback",
        "a1:120@130 b1:130@140 c1:140@150 c1:140@160 d1:190@210 c1:140@220 e1:210@230",
        "[100,150) 170 {a1 b1 c1} · [170,220) 240 {d1 e1}",
        ["c1@160 duplicate", "c1@220 late"],
    ),
    (
        "UC5", "lookback",
        "a1:120@130 b1:130@140 c1:140@150 a2:180@190 b2:200@205 d1:145@215",
        "[100,150) 170 {a1 b1 c1} · [160,210) 230 {a2 b2}",
        ["d1@215 late"],
    ),
]  # fmt: skip


def rules(anchor: str) -> BatchRules:
    return BatchRules(window=us(50), max_delay=us(20), leap_limit=us(20), anchor=anchor)


def messages_of(text: str) -> list[Measurement]:
    rows = re.findall(r"(([a-z])\d+):(\d+)@(\d+)", text)
    return [Measurement.from_us("device", kind, int(t), int(T), name) for name, kind, t, T in rows]


def run(anchor: str, text: str) -> tuple[list[Batch], list[str]]:
    batcher, rejected = EventTimeBatcher(rules(anchor)), []
    for message in messages_of(text):
        verdict = batcher.add(message)
        if not verdict.accepted:
            rejected.append(f"{message.payload}@{message.receive_us} {verdict.reason}")
    batcher.flush()
    return batcher.closed(), rejected


def shown(batch: Batch) -> str:
    members = " ".join(sorted(m.payload for m in batch.messages))
    return f"[{batch.start_us},{batch.end_us}) {batch.timeout_us} {{{members}}}"


@pytest.mark.parametrize(("name", "anchor", "messages", "expected", "rejected"), USE_CASES)
def test_windows_timeouts_members_and_rejections_are_those_of_the_page(
    name: str, anchor: str, messages: str, expected: str, rejected: list[str]
) -> None:
    batches, rejections = run(anchor, messages)
    assert " · ".join(shown(b) for b in batches) == expected
    assert rejections == rejected


@pytest.mark.parametrize("anchor", ["arrival", "lookback"])
@pytest.mark.parametrize(("name", "shown_anchor", "messages", "expected", "rejected"), USE_CASES)
def test_groupings_and_rejections_hold_for_both_anchors(
    name: str, shown_anchor: str, messages: str, expected: str, rejected: list[str], anchor: str
) -> None:
    batches, rejections = run(anchor, messages)
    groups = ["{" + " ".join(sorted(m.payload for m in b.messages)) + "}" for b in batches]
    assert groups == re.findall(r"\{[^}]*\}", expected)
    assert rejections == rejected
