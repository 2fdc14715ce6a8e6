"""The rule of stage 1 as the spec's page says it: lists, loops and no cleverness. What the others must equal."""

from dataclasses import dataclass, field

from batchline import BatchRules, Measurement


@dataclass
class ModelBatch:
    key: str
    start: int
    end: int
    ordinal: int
    members: list[Measurement] = field(default_factory=list)
    closed_at: int | None = None
    reason: str = "open"

    @property
    def size(self) -> int:
        return sum(m.size or 0 for m in self.members)

    @property
    def id(self) -> str:
        return f"{self.key}@{self.start}" + (f".{self.ordinal}" if self.ordinal else "")


class ModelKey:
    """One key: its open batches, and every start it has ever used."""

    def __init__(self, key: str, rules: BatchRules) -> None:
        self.key, self.rules = key, rules
        self.window, self.delay, self.leap = rules.window_us, rules.max_delay_us, rules.leap_limit_us
        self.open: list[ModelBatch] = []
        self.closed: list[ModelBatch] = []
        self.starts: list[int] = []
        self.clock = 0

    def add(self, m: Measurement) -> str:
        self.clock = max(self.clock, m.receive_us) if self.open else m.receive_us
        self.close_due()
        if m.event_us < self.clock - self.delay:
            return "late"
        if m.event_us > self.clock + self.leap:
            return "future"
        if self.rules.max_bytes is not None and (m.size or 0) > self.rules.max_bytes:
            return "oversize"
        covering = [b for b in self.open if b.start <= m.event_us < b.end]
        if not covering:
            self.open_new(m)
            return "batched"
        (batch,) = covering
        twins = [x for x in batch.members if x.type == m.type]
        if twins:
            (twin,) = twins
            if twin.event_us == m.event_us:
                return "duplicate"
            low, high = sorted((twin.event_us, m.event_us))
            cut = high if self.rules.split == "later" else low + -(-(high - low) // 2)
            self.cut(batch, cut)
            (batch,) = [b for b in self.open if b.start <= m.event_us < b.end]
        if self.rules.max_bytes is not None and batch.size + (m.size or 0) > self.rules.max_bytes:
            batch = self.make_room(batch, m, self.rules.max_bytes)
        batch.members.append(m)
        return "batched"

    def close(self, batch: ModelBatch, at: int, reason: str) -> None:
        batch.closed_at, batch.reason = at, reason
        self.open.remove(batch)
        self.closed.append(batch)

    def close_due(self) -> None:
        for batch in sorted(self.open, key=lambda b: b.start):
            if batch.end + self.delay <= self.clock:
                self.close(batch, batch.end + self.delay, "timeout")
        if not self.open:
            self.starts.clear()

    def new(self, start: int, end: int) -> ModelBatch:
        batch = ModelBatch(self.key, start, end, self.starts.count(start))
        self.starts.append(start)
        self.open.append(batch)
        return batch

    def open_new(self, m: Measurement) -> None:
        t = m.event_us
        start = {
            "arrival": self.clock - self.delay,
            "lookback": t - self.delay,
            "event": t,
            "aligned": t // self.window * self.window,
        }[self.rules.anchor]
        start = max([start] + [b.end for b in self.open if b.end <= t])
        if not start <= t < start + self.window:
            start = t
        end = min([start + self.window] + [b.start for b in self.open if b.start > t])
        self.new(start, end).members.append(m)

    def cut(self, batch: ModelBatch, at: int) -> None:
        end = min([at + self.window] + [b.start for b in self.open if b.start > at])
        upper = self.new(at, batch.end if self.rules.split == "midpoint" else end)
        upper.members = [m for m in batch.members if m.event_us >= at]
        batch.members = [m for m in batch.members if m.event_us < at]
        batch.end = at
        if at + self.delay <= self.clock:
            self.close(batch, self.clock, "timeout")

    def make_room(self, batch: ModelBatch, m: Measurement, most: int) -> ModelBatch:
        t, size = m.event_us, m.size or 0
        before = [x for x in batch.members if x.event_us < t]
        after = [x for x in batch.members if x.event_us > t]
        later = min((x.event_us for x in after), default=0)
        if before and batch.size - sum(x.size or 0 for x in before) + size <= most:
            self.cut(batch, t)
        elif after and batch.size - sum(x.size or 0 for x in after) + size <= most:
            self.cut(batch, later)
        else:
            if before:
                self.cut(batch, t)
            if after:
                self.cut(next(b for b in self.open if b.start <= t < b.end), later)
        batch = next(b for b in self.open if b.start <= t < b.end)
        if batch.size + size > most:
            self.close(batch, self.clock, "full")
            batch = self.new(t, batch.end)
        return batch

    def flush(self) -> None:
        for batch in sorted(self.open, key=lambda b: b.start):
            self.close(batch, self.clock, "flush")


def run_model(rules: BatchRules, messages: list[Measurement]) -> tuple[list[str], list[ModelBatch]]:
    """Every message's verdict, and the batches of each key as they closed, keys in order of their first message."""
    keys: dict[str, ModelKey] = {}
    verdicts = [keys.setdefault(m.key, ModelKey(m.key, rules)).add(m) for m in messages]
    for key in keys.values():
        key.flush()
    return verdicts, [batch for key in keys.values() for batch in key.closed]
