"""The tracker as the spec's page says it: items in sets, loops and no cleverness. What every store must equal."""

from dataclasses import dataclass, field

from batchline import errors

__all__ = ["Answer", "Model", "ModelFanout", "Refused"]

HOUR_US = 3_600_000_000
#: Spans of all fanouts of the model.
UNSEALED_US, SEALED_US, TOMBSTONE_US = 10 * HOUR_US, 20 * HOUR_US, 30 * HOUR_US
#: An item id; or the uuid of a group and a mask.
Named = str | tuple[str, int]
Kind = type[errors.BatchlineError]


class Refused(Exception):
    """The call is refused, with this error of ours."""

    def __init__(self, kind: Kind):
        super().__init__(kind.__name__)
        self.kind = kind


@dataclass(eq=False)
class ModelFanout:
    id: str
    parent: "ModelFanout | None"
    tolerate: int | None
    opened: int
    active: int
    sealed: int | None = None
    completed: int | None = None
    failed_at: int | None = None
    expired: int | None = None
    told_to: str = ""
    #: Ids in the order in which they were added.
    items: list[str] = field(default_factory=list)
    pending: set[str] = field(default_factory=set)
    acked: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)
    #: By add_id: the uuids and sizes that were answered.
    adds: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    #: The item of the parent that stands for this one.
    stands_for: str | None = None

    @property
    def ended(self) -> bool:
        return self.completed is not None or self.failed_at is not None

    @property
    def state(self) -> str:
        if self.expired is not None:
            return "expired"
        if self.ended:
            return "failed" if self.failed_at is not None else "complete"
        return "open" if self.sealed is None else "sealed"


@dataclass
class Answer:
    changed: int = 0
    repeated: int = 0
    completed: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    errors: list[tuple[Named, Kind]] = field(default_factory=list)


class Model:
    """All fanouts, those that expired included until their tombstones go."""

    def __init__(self, now: int) -> None:
        self.now = now
        self.kept: dict[str, ModelFanout] = {}
        #: By uuid: whose it is, how many items it has, whether its item stands for a child.
        self.groups: dict[str, tuple[ModelFanout, int, bool]] = {}

    def fanout(self, name: str) -> ModelFanout:
        if name not in self.kept:
            raise Refused(errors.UnknownFanout)
        if self.kept[name].expired is not None:
            raise Refused(errors.FanoutExpired)
        return self.kept[name]

    def parent_of(self, fanout: ModelFanout) -> str | None:
        """As it is shown: a parent that was forgotten is none."""
        parent = fanout.parent
        return parent.id if parent is not None and self.kept.get(parent.id) is parent else None

    # --- verbs ---

    def open(self, name: str, parent: str | None, tolerate: int | None) -> bool:
        """Whether that made a new one, so that its parent must be told the item it got."""
        if name in self.kept:
            there = self.fanout(name)
            if (self.parent_of(there), there.tolerate) != (parent, tolerate):
                raise Refused(errors.FanoutExists)
            self.touch(there, there.parent)
            return False
        above = None if parent is None else self.fanout(parent)
        if above is not None and above.sealed is not None:
            raise Refused(errors.FanoutSealed)
        self.kept[name] = ModelFanout(name, above, tolerate, self.now, self.now)
        return True

    def joined(self, child: str, item: str) -> None:
        """The parent's new item stands for the child."""
        one = self.kept[child]
        assert one.parent is not None
        one.stands_for = item
        self.take(one.parent, [item])
        self.groups[item.rsplit(":", 2)[1]] = (one.parent, 1, True)

    def may_add(self, name: str, count: int, add_id: str | None) -> list[tuple[str, int]] | None:
        """The groups of an add that was there; None if there are to be new ones."""
        fanout = self.fanout(name)
        if add_id in fanout.adds:
            if sum(upto for _, upto in fanout.adds[add_id]) != count:
                raise Refused(errors.InvalidCount)
            self.touch(fanout)
            return fanout.adds[add_id]
        if fanout.sealed is not None:
            raise Refused(errors.FanoutSealed)
        return None

    def added(self, name: str, add_id: str | None, groups: list[tuple[str, int]]) -> None:
        fanout = self.kept[name]
        if add_id is not None:
            fanout.adds[add_id] = groups
        for group, upto in groups:
            assert group not in self.groups
            self.groups[group] = (fanout, upto, False)
            self.take(fanout, [f"{name}:{group}:{index}" for index in range(upto)])

    def touch(self, *fanouts: ModelFanout | None) -> None:
        """What a caller did is activity, repeats included."""
        for one in fanouts:
            if one is not None and one.expired is None:
                one.active = self.now

    def take(self, fanout: ModelFanout, items: list[str]) -> None:
        fanout.items += items
        fanout.pending |= set(items)
        fanout.active = self.now

    def seal(self, name: str, call: str) -> Answer:
        fanout = self.fanout(name)
        if fanout.sealed is not None:
            self.touch(fanout)
            return self.told(call, Answer())
        fanout.sealed = fanout.active = self.now
        answer = Answer()
        self.end([fanout], call, answer)
        return answer

    def finish(self, named: list[Named], reason: str | None, call: str) -> Answer:
        """Acknowledge, or fail for a reason."""
        answer, hit, seen = Answer(), dict[str, ModelFanout](), set[Named]()
        for one in named:
            index = one.rpartition(":")[2] if isinstance(one, str) else ""
            if one in seen and index.isdecimal() and int(index) < 64:
                answer.repeated += 1
                continue
            seen.add(one)
            self.look_up(one, answer, hit)
        if not hit:
            return self.told(call, answer)
        for item, fanout in hit.items():
            self.finish_item(fanout, item, reason)
        self.end(list(dict.fromkeys(hit.values())), call, answer)
        return answer

    def look_up(self, named: Named, answer: Answer, hit: dict[str, ModelFanout]) -> None:
        kind, items = self.judge(named)
        if kind is not None:
            answer.errors.append((named, kind))
        for item in items:
            fanout = self.groups[item.rsplit(":", 2)[1]][0]
            new = item in fanout.pending and item not in hit
            answer.changed += new
            answer.repeated += not new
            self.touch(fanout)
            if new:
                hit[item] = fanout

    def judge(self, named: Named) -> tuple[Kind | None, list[str]]:
        """The error, or none, and the items that are there."""
        if isinstance(named, tuple):
            group, indexes = named[0], [index for index in range(64) if named[1] >> index & 1]
            owner = self.groups.get(group, (None, 0, False))[0]
            if owner is None or self.kept.get(owner.id) is not owner:
                return errors.UnknownGroup, []
            name = owner.id
        else:
            name, group, index = named.rsplit(":", 2) if named.count(":") > 1 else ("", "", "x")
            if not index.isdecimal():
                return errors.MalformedItem, []
            indexes = [int(index)]
        if max(indexes) > 63:
            return errors.UnknownItem, []
        return self.judge_group(name, group, indexes)

    def judge_group(self, name: str, group: str, indexes: list[int]) -> tuple[Kind | None, list[str]]:
        try:
            fanout = self.fanout(name)
        except Refused as refused:
            return refused.kind, []
        owner, upto, child = self.groups.get(group, (None, 0, False))
        if owner is None or self.kept.get(owner.id) is not owner:
            return errors.UnknownGroup, []
        if owner is not fanout:
            return errors.ForeignGroup, []
        if child:
            return errors.ChildItem, []
        there = [f"{name}:{group}:{index}" for index in indexes if index < upto]
        return (errors.UnknownItem if len(there) < len(indexes) else None), there

    # --- ends ---

    def finish_item(self, fanout: ModelFanout, item: str, reason: str | None) -> None:
        fanout.pending.remove(item)
        fanout.active = self.now
        if reason is None:
            fanout.acked.add(item)
        else:
            fanout.failed[item] = reason

    def end(self, fanouts: list[ModelFanout], call: str, answer: Answer) -> None:
        """End those that are done, and whatever that ends above them."""
        for fanout in fanouts:
            if fanout.ended or fanout.expired is not None:
                continue
            if fanout.tolerate is not None and len(fanout.failed) > fanout.tolerate:
                fanout.failed_at = self.now
                answer.failed.append(fanout.id)
            elif fanout.sealed is not None and not fanout.pending:
                fanout.completed = self.now
                answer.completed.append(fanout.id)
            else:
                continue
            fanout.told_to = call
            self.tell_parent(fanout, fanout.state, call, answer)

    def tell_parent(self, fanout: ModelFanout, state: str, call: str, answer: Answer) -> None:
        parent, item = fanout.parent, fanout.stands_for
        if parent is None or item is None or parent.expired is not None:
            return
        self.finish_item(parent, item, None if state == "complete" else f"child {fanout.id!r} {state}")
        self.end([parent], call, answer)

    def told(self, call: str, answer: Answer) -> Answer:
        """What the same call was told before."""
        ended = [one for one in self.kept.values() if one.told_to == call]
        answer.completed = [one.id for one in ended if one.state == "complete"]
        answer.failed = [one.id for one in ended if one.state == "failed"]
        return answer

    # --- expiry ---

    def expire(self, name: str, call: str) -> tuple[list[str], Answer]:
        if name not in self.kept:
            raise Refused(errors.UnknownFanout)
        fanout, answer = self.kept[name], Answer()
        if fanout.expired is not None:
            return [], answer
        fanout.expired = self.now
        if not fanout.ended:
            self.tell_parent(fanout, "expired", call, answer)
        return [name], answer

    def expire_due(self, call: str) -> tuple[list[str], list[str], Answer]:
        """Whom this expires, whose tombstones go, and what that ends."""
        gone = [one for one in self.kept.values() if one.expired is not None and one.expired + TOMBSTONE_US <= self.now]
        for fanout in gone:
            del self.kept[fanout.id]
        whole, expired = Answer(), list[str]()
        # A child's end is activity of its parent: from the leaves up, so that nobody is looked at too early.
        for fanout in reversed(list(self.kept.values())):
            if self.is_due(fanout):
                names, answer = self.expire(fanout.id, call)
                expired += names
                whole.completed += answer.completed
                whole.failed += answer.failed
        return expired, [fanout.id for fanout in gone], whole

    def is_due(self, fanout: ModelFanout) -> bool:
        span = UNSEALED_US if fanout.sealed is None else SEALED_US
        alive = any(one.parent is fanout and one.state in ("open", "sealed") for one in self.kept.values())
        return fanout.expired is None and not alive and fanout.active + span <= self.now
