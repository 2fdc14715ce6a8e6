"""Bad input: each item that is none is an error with a name, the rest of the call counts, and nothing is silent."""

from collections.abc import Callable
from typing import Any

import pytest

from batchline import ItemGroup, Tracker
from batchline.core.item_group import add_of, group_id, place_of, slot_and_salt, slot_of
from batchline.errors import (
    BatchlineError,
    FanoutExpired,
    ForeignGroup,
    InvalidCount,
    InvalidName,
    MalformedItem,
    UnknownFanout,
    UnknownGroup,
    UnknownItem,
)
from tests.contract.tracking import Finishing, errors_of, new_id, opened

UUID4 = "9f86d081-884c-4d65-9a2f-eaa0c55ad015"
STRANGE_NAMES = [
    "a:b:c",
    ":",
    "::",
    "trailing:",
    "ünï ✓",
    "😀" * 255,
    "שלום \u202eabc\u202c",
    "e\u0301 and é",
    "'; DROP TABLE batchline_fanouts; --",
    '"quoted" `back` \\back\\slash\\',
    "%s %(name)s %% 100%",
    ":name ::bigint @variable ?",
    '{"a": [1, null]}',
    "$.x[*]",
    "trailing space ",
    " leading space",
    "\u2028line\u2029paragraph\u00a0",
    "\ufeffbom\u200d\ufffd\uffff",
    "x" * 255,
    "null",
    "\\u0000",
]


def strange(name: str) -> str:
    """A name of this kind that no other test has, of as many characters."""
    mark = new_id()[-8:]
    return f"{mark}{name}" if len(name) + 8 <= 255 else mark + name[8:]


@pytest.mark.parametrize("name", STRANGE_NAMES)
def test_a_strange_name_is_kept_to_the_character(finishing: Finishing, tracker: Tracker, name: str) -> None:
    fanout, other, call = strange(name), strange(name), strange(name)
    labels = {fanout: other, "plain": name}
    assert tracker.open(fanout, labels=labels).id == fanout
    assert tracker.status(fanout).labels == labels
    (group,) = tracker.add(fanout, 4, add_id=name)
    assert tracker.add(fanout, 4, add_id=name) == [group]
    items = list(group.items())
    assert tracker.pending_items(fanout) == items
    assert finishing.ack(items[:1]).changed == 1
    assert finishing.ack([(group, 2)]).changed == 1
    assert [status.id for status in tracker.list(labels=labels).fanouts] == [fanout]
    tracker.open(other, parent=fanout)
    assert [status.id for status in tracker.list(parent=fanout).fanouts] == [other]
    assert tracker.seal(other).completed
    tracker.seal(fanout)
    assert tracker.ack(items, call_id=call).completed == (fanout,)
    assert tracker.ack(items, call_id=call).completed == (fanout,)
    assert tracker.status(fanout).total == 5


def test_names_that_look_alike_are_two(finishing: Finishing, tracker: Tracker) -> None:
    base = new_id()
    ends = ("", " ", "\u00e9", "e\u0301", "e", "\u00e9 ", "ß", "ss", "\u200d", ":")
    names = [base.upper(), f" {base}", *(f"{base}{end}" for end in ends)]
    groups = {name: tracker.add(tracker.open(name).id, 1, add_id="page") for name in names}
    assert len({group.id for (group,) in groups.values()}) == len(names)
    for name, (group,) in groups.items():
        assert tracker.status(name).pending == 1
        assert finishing.ack(list(group.items())).changed == 1
        assert [tracker.status(one).pending for one in names].count(0) == list(groups).index(name) + 1


def test_add_ids_and_call_ids_that_look_alike_are_two(tracker: Tracker) -> None:
    fanout, _ = opened(tracker)
    for add_id in ("a", "A", "a ", "á", "a\u0301"):
        tracker.add(fanout, 1, add_id=add_id)
    assert tracker.status(fanout).total == 5
    done, _ = opened(tracker)
    call = new_id()
    assert tracker.seal(done, call_id=call).completed
    assert not tracker.seal(done, call_id=f"{call} ").completed
    assert not tracker.seal(done, call_id=call.upper()).completed


BAD_NAMES = [
    ("", "must have 1 to 255 characters, got 0: ''"),
    ("x" * 256, "must have 1 to 255 characters, got 256: 'xxx"),
    ("a\0b", r"must have no control characters, got '\\x00' at 1 of 'a\\x00b'"),
    ("a\nb", r"must have no control characters, got '\\n' at 1 of 'a\\nb'"),
    ("a\x7f", r"must have no control characters, got '\\x7f' at 1"),
    ("a\x85", r"must have no control characters, got '\\x85' at 1"),
    ("half \ud83d", r"must have no control characters, got '\\ud83d' at 5"),
    (5, r"must be a text, got 5 \(int\)"),
    (b"bytes", r"must be a text, got b'bytes' \(bytes\)"),
    (10**5000, r"must be a text, got an int too long to show \(int\)"),
]
VERBS: dict[str, Callable[[Tracker, Any], object]] = {
    "open": lambda tracker, name: tracker.open(name),
    "parent": lambda tracker, name: tracker.open(new_id(), parent=name),
    "add": lambda tracker, name: tracker.add(name, 1),
    "add_id": lambda tracker, name: tracker.add(opened(tracker)[0], 1, add_id=name),
    "seal": lambda tracker, name: tracker.seal(name),
    "seal's call_id": lambda tracker, name: tracker.seal(opened(tracker)[0], call_id=name),
    "ack's call_id": lambda tracker, name: tracker.ack(opened(tracker, 1)[1], call_id=name),
    "fail's call_id": lambda tracker, name: tracker.fail(opened(tracker, 1)[1], "broken", call_id=name),
    "status": lambda tracker, name: tracker.status(name),
    "pending_items": lambda tracker, name: tracker.pending_items(name),
    "failed_items": lambda tracker, name: tracker.failed_items(name),
    "expire": lambda tracker, name: tracker.expire(name),
    "list": lambda tracker, name: tracker.list(parent=name),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    ("name", "said"),
    BAD_NAMES,
    ids=["empty", "long", "NUL", "line", "DEL", "NEL", "half", "int", "bytes", "huge"],
)
def test_a_name_that_cannot_be_kept_is_refused_by_every_verb(
    tracker: Tracker, verb: str, name: object, said: str
) -> None:
    with pytest.raises(InvalidName, match=said):
        VERBS[verb](tracker, name)


# --- items ------------------------------------------------------------------------------------------------------------


def refused(
    finishing: Finishing, tracker: Tracker, named: object, error: type[BatchlineError], said: str, good: bool = True
) -> None:
    """The item is refused, by ack and by fail, and what is named beside it counts."""
    for verb in ("ack", "fail"):
        fanout, items = opened(tracker, 2)
        beside = items[:1] if good and finishing.way == "among others" else []
        outcome = getattr(finishing, verb)([named, *beside])
        assert outcome.changed == len(beside)
        assert (errors_of(outcome), outcome.repeated) == ([(named, error)], 0)
        assert said in str(outcome.errors[0].error)
        assert tracker.status(fanout).pending == 2 - len(beside)


@pytest.mark.parametrize(
    "item",
    [
        "",
        "nonsense",
        "a:b",
        "a:b:c",
        "a:b:5",
        f"a:{UUID4}",
        f"a:{UUID4}:",
        f"a:{UUID4}:-1",
        f"a:{UUID4}:+1",
        f"a:{UUID4}:01",
        f"a:{UUID4}: 1",
        f"a:{UUID4}:1 ",
        f"a:{UUID4}:1.0",
        f"a:{UUID4}:٣",
        f"a:{UUID4}:²",
        f"a:{UUID4}:{'9' * 5000}",
        f"a:{UUID4.upper()}:1",
        f"a:{UUID4.replace('-', '')}:1",
        f"a:{{{UUID4}}}:1",
        f":{UUID4}:1",
        f"{UUID4}:1",
        "nul \0:and:5",
        "half \ud800:and:5",
        "x" * 100_000,
        None,
        5,
        5.5,
        True,
        b"bytes",
        (),
        ("one",),
        (UUID4, 1, 1),
        (5, 1),
        (None, 1),
        (UUID4, "1"),
        (UUID4, 1.0),
        (UUID4, True),
        (UUID4, None),
        ("nonsense", 1),
        (UUID4.upper(), 1),
        (f"a:b:{UUID4}:1", 1),
        (f":{UUID4}", 1),
        {"id": UUID4},
        10**5000,
    ],
    ids=lambda value: "long int" if isinstance(value, int) and value > 9 else ascii(value)[:60],
)
def test_what_is_no_item_is_malformed(finishing: Finishing, tracker: Tracker, item: object) -> None:
    refused(finishing, tracker, item, MalformedItem, "expected fanout:uuid:index, or a group with a mask, got ")


@pytest.mark.parametrize(
    ("mask", "error", "said"),
    [
        (0, MalformedItem, "expected a mask with a bit for each item, got 0"),
        (-1, MalformedItem, "expected a mask with a bit for each item, got -1"),
        (-(10**5000), MalformedItem, "expected a mask with a bit for each item, got an int too long to show"),
        (1 << 64, UnknownItem, "a group has at most 64 items, got a mask of 65 bits"),
        (1 << 99_999, UnknownItem, "a group has at most 64 items, got a mask of 100000 bits"),
        (True, MalformedItem, "expected fanout:uuid:index, or a group with a mask, got "),
        (1.0, MalformedItem, "expected fanout:uuid:index, or a group with a mask, got "),
    ],
    ids=["0", "-1", "huge negative", "65 bits", "many bits", "True", "1.0"],
)
def test_a_mask_that_cannot_be_is_refused(
    finishing: Finishing, tracker: Tracker, mask: Any, error: type[BatchlineError], said: str
) -> None:
    fanout, _ = opened(tracker)
    (group,) = tracker.add(fanout, 64)
    refused(finishing, tracker, (group, mask), error, said)
    assert tracker.status(fanout).pending == 64


@pytest.mark.parametrize("item", ["{fanout}:" + UUID4 + ":0", ("{fanout}:" + UUID4, 1), (UUID4, 1)])
def test_a_uuid_that_is_no_groups_is_an_unknown_group(finishing: Finishing, tracker: Tracker, item: Any) -> None:
    fanout, _ = opened(tracker, 1)
    named = item.format(fanout=fanout) if isinstance(item, str) else (item[0].format(fanout=fanout), item[1])
    refused(finishing, tracker, named, UnknownGroup, f"no group '{UUID4}' was ever given out")


def test_a_fanout_that_is_not_there_is_unknown(finishing: Finishing, tracker: Tracker) -> None:
    group = group_id(slot_of(1, 0), 12345)
    for fanout in (new_id(), "a:b", "'; --", "😀", "%s"):
        refused(finishing, tracker, f"{fanout}:{group}:0", UnknownFanout, f"no fanout {fanout!r} is open")
        refused(finishing, tracker, (f"{fanout}:{group}", 1), UnknownFanout, f"no fanout {fanout!r} is open")


@pytest.mark.parametrize("name", ["nul \0", "half \ud800", "line\nbreak", "x" * 256])
def test_a_fanout_that_cannot_be_is_malformed_also_with_a_group_that_is_there(
    finishing: Finishing, tracker: Tracker, name: str
) -> None:
    fanout, _ = opened(tracker)
    (group,) = tracker.add(fanout, 1)
    for named in (f"{name}:{group.id}:0", (f"{name}:{group.id}", 1), (ItemGroup(name, group.id, 1), 1)):
        refused(finishing, tracker, named, MalformedItem, "expected fanout:uuid:index, or a group with a mask, got ")
    assert tracker.status(fanout).pending == 1


def test_a_group_that_was_never_given_out_is_unknown(finishing: Finishing, tracker: Tracker) -> None:
    fanout, _ = opened(tracker)
    (group,) = tracker.add(fanout, 64)
    slot, salt = slot_and_salt(group.id) or (0, 0)
    made_up = [
        group_id(slot_of(add_of(slot), place_of(slot) + 1), salt),  # past the last of its add
        group_id(slot_of(add_of(slot) + 1_000_000, 0), salt),  # of an add that never was
        group_id(slot_of((1 << 42) - 1, (1 << 18) - 1), salt),
        group_id(0, salt),
    ]
    for one in made_up:
        said = f"fanout '{fanout}' was never given the group {one}"
        refused(finishing, tracker, f"{fanout}:{one}:0", UnknownGroup, said)
        refused(finishing, tracker, (one, 1 << 63), UnknownGroup, said)
    other_salt = group_id(slot, salt ^ 1)
    refused(finishing, tracker, f"{fanout}:{other_salt}:0", UnknownGroup, f"no group {other_salt} was ever given out")
    refused(finishing, tracker, (other_salt, 1), UnknownGroup, f"no group {other_salt} was ever given out")
    assert tracker.status(fanout).pending == 64


def test_a_uuid_with_digits_too_many_is_malformed(finishing: Finishing, tracker: Tracker) -> None:
    for bits in (60, 64, 70):
        group = group_id(1 << bits, 12345)
        refused(finishing, tracker, f"f:{group}:0", MalformedItem, "expected fanout:uuid:index, or a group with a mask")
        refused(finishing, tracker, (group, 1), MalformedItem, "expected fanout:uuid:index, or a group with a mask")


def test_a_group_of_another_fanout_is_foreign(finishing: Finishing, tracker: Tracker) -> None:
    fanout, _ = opened(tracker, 1)
    owner, items = opened(tracker, 3)
    group = items[0].split(":")[1]
    said = f"group {group} belongs to fanout '{owner}', not to '{fanout}'"
    refused(finishing, tracker, f"{fanout}:{group}:0", ForeignGroup, said)
    refused(finishing, tracker, (f"{fanout}:{group}", 7), ForeignGroup, said)
    refused(finishing, tracker, (ItemGroup(fanout, group, 3), 7), ForeignGroup, said)
    assert (tracker.status(owner).pending, tracker.status(fanout).pending) == (3, 1)


@pytest.mark.parametrize("count", [1, 2, 63])
def test_an_index_past_the_last_is_unknown_and_the_rest_of_the_group_counts(
    finishing: Finishing, tracker: Tracker, count: int
) -> None:
    fanout, items = opened(tracker, count, tolerate=None)
    group = items[0].rpartition(":")[0]
    past = f"{group}:{count}"
    outcome = finishing.ack([past, items[-1]])
    assert (outcome.changed, errors_of(outcome)) == (1, [(past, UnknownItem)])
    assert str(outcome.errors[0].error) == f"group {group.split(':')[1]} has {count} items, got the index {count}"
    outcome = finishing.fail([past, items[0]])
    assert (outcome.changed, errors_of(outcome)) == (int(count > 1), [(past, UnknownItem)])
    assert tracker.status(fanout).pending == max(0, count - 2)


def test_each_index_past_the_last_is_an_error_of_its_own(finishing: Finishing, tracker: Tracker) -> None:
    _, items = opened(tracker, 3)
    group = items[0].rpartition(":")[0]
    outcome = finishing.ack([f"{group}:{index}" for index in (3, 63, 64, 100)])
    said = {one.item: str(one.error) for one in outcome.errors}
    past = f"group {group.split(':')[1]} has 3 items, got the index 3, 63"
    assert said == {f"{group}:3": past, f"{group}:63": past} | {
        f"{group}:{index}": f"a group has at most 64 items, got the index {index} in '{group}:{index}'"
        for index in (64, 100)
    }


def test_a_mask_that_reaches_past_the_last_is_one_error_and_the_rest_of_it_counts(
    finishing: Finishing, tracker: Tracker
) -> None:
    fanout, _ = opened(tracker)
    (group,) = tracker.add(fanout, 3)
    for mask, changed in ((0b1010, 1), (1 << 63 | 1, 1), ((1 << 64) - 1, 1)):
        outcome = finishing.ack([(group, mask)])
        assert (outcome.changed, errors_of(outcome)) == (changed, [((group, mask), UnknownItem)])
        assert f"group {group.id} has 3 items, got the index" in str(outcome.errors[0].error)
    assert tracker.status(fanout).pending == 0


def test_everything_that_is_named_is_accounted_for(tracker: Tracker) -> None:
    fanout, items = opened(tracker, 100, tolerate=None)
    foreign, others = opened(tracker, 1)
    gone, theirs = opened(tracker, 2)
    tracker.expire(gone)
    tracker.ack(items[:3])
    named = [
        *items[:5],
        *items[:1],
        *theirs,
        "nonsense",
        "nonsense",
        f"{new_id()}:{items[0].split(':')[1]}:0",
        others[0].replace(foreign, fanout),
        f"{fanout}:{UUID4}:3",
        items[99].rpartition(":")[0] + ":36",
        items[99].rpartition(":")[0] + ":64",
        items[99],
    ]
    for verb, changed in ((tracker.ack, 3), (lambda items: tracker.fail(items, "broken"), 0)):
        outcome = verb(named)
        assert outcome.changed == changed
        assert outcome.changed + outcome.repeated + len(outcome.errors) == len(named)
        kinds = [kind for _, kind in errors_of(outcome)]
        assert {kind: kinds.count(kind) for kind in kinds} == {
            MalformedItem: 2,
            FanoutExpired: 2,
            UnknownItem: 2,
            UnknownFanout: 1,
            ForeignGroup: 1,
            UnknownGroup: 1,
        }
    assert tracker.status(fanout).acked == 6


def test_more_items_than_a_call_may_have_are_refused_before_anything_is_changed(
    tracker: Tracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The full ten million are tried once, in tests/core/test_ack.py.
    monkeypatch.setattr("batchline.core.ack.MOST_ITEMS", 1000)
    fanout, items = opened(tracker, 1001)
    for verb in (tracker.ack, lambda items: tracker.fail(items, "broken")):
        with pytest.raises(InvalidCount, match="at most 1,000 items in one call, got more; nothing was changed"):
            verb(item for item in items)
        assert tracker.status(fanout).pending == 1001
    assert tracker.ack(items[:1000]).changed == 1000
