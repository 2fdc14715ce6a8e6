"""Instances as processes that share a capacity: equally, never too much; one is killed, the server is away."""

import signal
import subprocess
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import accumulate
from pathlib import Path
from threading import Event

import pytest

from batchline.leases import open_leases
from batchline.runtime.clock import elapsed_seconds, now_us
from tests.acceptance.sharing import COST, FLUSH_S, Terms
from tests.conftest import own_server_of
from tests.doubles import new_id

PATIENCE_S = 60.0
#: A loop that is late makes up for so much of it.
LATE_S = 0.010


class Instance:
    """A process, and what it has said."""

    def __init__(self, url: str, resource: str, terms: Terms, said: Path):
        self._said = said
        program = [sys.executable, "-m", "tests.acceptance.sharing", url, resource, *map(str, terms)]
        with said.open("w") as out:
            self.process = subprocess.Popen(program, stdout=out)

    def said(self, what: str) -> list[tuple[float, float]]:
        """Moments and amounts; the last line may not be whole yet."""
        lines = [line.split() for line in self._said.read_text().splitlines(keepends=True) if line.endswith("\n")]
        return [(float(at), float(amount)) for kind, at, amount in lines if kind == what]

    @property
    def capacity(self) -> float:
        """What it has."""
        return ([0.0] + [amount for _, amount in self.said("capacity")])[-1]


class Group:
    """Instances of one resource."""

    def __init__(self, url: str, terms: Terms, home: Path):
        self.url, self.terms, self.resource = url, terms, new_id()
        self.alive: list[Instance] = []
        self.all: list[Instance] = []
        self._home = home

    def start(self, count: int) -> None:
        """So many more."""
        for _ in range(count):
            said = self._home / f"{self.resource}-{len(self.all)}"
            self.all.append(Instance(self.url, self.resource, self.terms, said))
            self.alive.append(self.all[-1])

    @property
    def capacities(self) -> list[float]:
        """What each that is alive has."""
        return [instance.capacity for instance in self.alive]

    def is_shared_out(self) -> bool:
        """Whether all is with somebody."""
        whole = self.terms.shared + len(self.alive) * self.terms.reserved
        return sum(self.capacities) == pytest.approx(whole)

    def is_fair(self) -> bool:
        """Whether all is with somebody, and each has the same."""
        fair = self.terms.shared / len(self.alive) + self.terms.reserved
        return self.is_shared_out() and all(one == pytest.approx(fair, rel=0.15) for one in self.capacities)

    def kill(self) -> float:
        """One is killed; tells when."""
        killed = self.alive.pop()
        killed.process.kill()
        killed.process.wait(PATIENCE_S)
        return elapsed_seconds()

    def tell_to_end(self) -> None:
        """All are told to end."""
        for instance in self.alive:
            instance.process.send_signal(signal.SIGTERM)

    def wait_for_end(self) -> None:
        """All have ended well."""
        assert [instance.process.wait(PATIENCE_S) for instance in self.alive] == [0] * len(self.alive)

    def most_sent(self, span_s: float) -> float:
        """The most that all together have sent in any such span."""
        sent = sorted(one for instance in self.all for one in instance.said("sent"))
        moments, sums = [at for at, _ in sent], [0.0, *accumulate(cost for _, cost in sent)]
        ends = [bisect_left(moments, at + span_s) for at in moments]
        return max(sums[end] - sums[begin] for begin, end in enumerate(ends))

    def most_allowed(self, span_s: float) -> float:
        """What they may send in such a span."""
        whole = self.terms.shared + len(self.all) * self.terms.reserved
        return whole * (span_s + FLUSH_S + LATE_S) + len(self.all) * COST


@contextmanager
def groups_of(home: Path, *of: tuple[str, Terms]) -> Iterator[list[Group]]:
    groups = [Group(url, terms, home) for url, terms in of]
    try:
        yield groups
    finally:
        for group in groups:
            for instance in group.all:
                instance.process.kill()
                instance.process.wait()


def wait_until(wanted: Callable[[], bool], group: Group) -> float:
    """Wait for what other processes do; tells when."""
    began_s = elapsed_seconds()
    while not wanted():
        assert elapsed_seconds() - began_s < PATIENCE_S, group.capacities
        Event().wait(0.1)  # other processes write files: there is nothing else to wait for
    return elapsed_seconds()


def test_busy_processes_have_equal_shares_and_that_of_a_killed_one_within_a_lease(
    tmp_path: Path, postgresql_database: str, redis_url: str
) -> None:
    terms = Terms(shared=1_600, factor=25, reserved=0, lease_ms=5_000)
    kinds = {f"sqlite:///{tmp_path / 'leases.db'}": 2, postgresql_database: 4, redis_url: 16}
    with groups_of(tmp_path, *[(url, terms) for url in kinds]) as groups:
        for group, count in zip(groups, kinds.values(), strict=True):
            group.start(count)
        for group in groups:
            wait_until(group.is_fair, group)
        Event().wait(2)  # to see what they send when each has its share
        killed_s = max(group.kill() for group in groups)
        for group in groups:
            shared_out_s = wait_until(group.is_shared_out, group)
            # Whoever waits for it looks every half second, on a machine that has other things to do.
            assert shared_out_s - killed_s < terms.lease_s + 10
        for group in groups:
            group.tell_to_end()
        for group in groups:
            group.wait_for_end()
            for span_s in (0.2, 1.0, 3.0):
                assert group.most_sent(span_s) <= group.most_allowed(span_s)
            with open_leases(group.url, group.resource) as leases:
                assert leases.holders(now_us()) == {}


def test_when_the_server_is_away_all_fall_to_what_is_reserved_and_come_back_with_it(tmp_path: Path) -> None:
    terms = Terms(shared=400, factor=20, reserved=30, lease_ms=3_000)
    with ExitStack() as stack:
        server = stack.enter_context(own_server_of("postgresql"))
        (group,) = stack.enter_context(groups_of(tmp_path, (server.url, terms)))
        group.start(2)
        wait_until(group.is_fair, group)
        server.end()
        gone_s = elapsed_seconds()
        wait_until(lambda: group.capacities == [30, 30], group)
        for instance in group.all:
            fallen_s, _ = instance.said("capacity")[-1]
            # Its loop tells so when it looks, every flush; a busy machine may let it look later.
            assert fallen_s - gone_s < terms.lease_s + 2
        server.start()
        wait_until(group.is_fair, group)
        group.tell_to_end()
        group.wait_for_end()
        assert group.most_sent(1.0) <= group.most_allowed(1.0)
