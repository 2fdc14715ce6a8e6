"""However seals, acks and failures meet, exactly one call is told of the end."""

import threading
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import pytest

from batchline.runtime.estimated_tracker import EstimatedTracker
from tests.stores.redis.estimate_race import race, race_in_process, stand_at
from tests.stores.redis.estimating import opened

ROUNDS = 300


def assert_each_told_once(fanouts: list[str], told: list[list[str]]) -> None:
    counts = Counter(fanout for one in told for fanout in one)
    assert counts == dict.fromkeys(fanouts, 1)


@pytest.mark.parametrize("verbs", [("seal", "ack"), ("seal", "seal", "ack", "ack"), ("seal", "ack", "fail", "fail")])
def test_of_threads_that_race_exactly_one_is_told(tracker: EstimatedTracker, verbs: tuple[str, ...]) -> None:
    items = sum(verb != "seal" for verb in verbs)
    fanouts = [opened(tracker, items=items, tolerate=1) for _ in range(ROUNDS)]
    gate = threading.Barrier(len(verbs))
    with ThreadPoolExecutor(len(verbs)) as threads:
        told = list(threads.map(lambda verb: race(tracker, fanouts, verb, gate), verbs))
    assert_each_told_once(fanouts, told)


def test_of_processes_that_race_exactly_one_is_told(tracker: EstimatedTracker, redis_url: str) -> None:
    verbs = ["seal", "ack", "ack"]
    fanouts = [opened(tracker, items=2) for _ in range(ROUNDS)]
    context = get_context("spawn")
    gate = context.Barrier(len(verbs))
    with ProcessPoolExecutor(len(verbs), context, initializer=stand_at, initargs=(gate,)) as processes:
        told = list(processes.map(race_in_process, [redis_url] * 3, [fanouts] * 3, verbs))
    assert_each_told_once(fanouts, told)
