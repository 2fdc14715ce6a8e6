"""Internal topics: whose patterns only match one reads there, and changes and leases nothing."""

import threading
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from batchline import Store, Timeline, Tracker, lease_text, open_store
from batchline.runtime.publisher import Publisher, make_topics
from batchline.runtime.tokens import Tokens
from batchline.service.service import Service
from tests.contract.parcels.posting import parcels_of
from tests.doubles import HandClock
from tests.service.asking import Asking

TOPIC = "/v1/topics/parcels"
MESSAGES = f"{TOPIC}/messages"


class Scene:
    """A service with parcels on an internal topic, and a worker that has leased one."""

    def __init__(self, store: Store) -> None:
        self.store, self.clock = store, HandClock()
        self.service = Service(store, clock=self.clock)
        self.timeline, self.tokens = Timeline(store, clock=self.clock), Tokens(store, self.clock)
        make_topics(self.timeline, "parcels")
        Tracker(store, clock=self.clock).open("f")
        Publisher(store, "parcels", "f", clock=self.clock).post(parcels_of("import", 0, 1, 2))
        (held,) = self.timeline.lease("parcels", "w", limit=1)
        self.lease = lease_text(held.lease)

    def asking(self, *topics: str, **more: Any) -> Asking:
        """A client whose token is for these topics, and of the producer group that owns the parcels."""
        usual = {"producer_group": "parcels", "consumers": ["*"], "topics": topics}
        return Asking(self.service, self.tokens.create(**(usual | more))[1])

    def requests(self) -> dict[str, tuple[str, str, Any]]:
        """Whatever changes something on the topic, or takes messages from it; what changes most comes last."""
        leases = {"leases": [self.lease]}
        fanout = {"id": "told", "on_complete": {"topic": "parcels"}}
        return {
            "create": ("POST", MESSAGES, {"messages": [{"body": "x", "id": "new"}]}),
            "move": ("POST", f"{MESSAGES}/move", {"moments": {"{import/0}2": 4102444800000}}),
            "heartbeat": ("PUT", f"{TOPIC}/consumers/v", {}),
            "unsubscribe": ("DELETE", f"{TOPIC}/consumers/v", None),
            "lease": ("POST", f"{MESSAGES}/lease", {"consumer": "v"}),
            "lease one": ("POST", f"{MESSAGES}/lease-one", {"consumer": "v", "id": "new", "version": 1}),
            "upcoming": ("GET", f"{TOPIC}/upcoming?consumer=v", None),
            "next due": ("GET", f"{TOPIC}/next-due", None),
            "on_complete": ("POST", "/v1/fanouts", fanout),
            "extend": ("POST", f"{MESSAGES}/extend", leases),
            "release": ("POST", f"{MESSAGES}/release", leases),
            "done": ("POST", f"{MESSAGES}/done", leases),
            "cancel": ("POST", f"{MESSAGES}/cancel", {"ids": ["{import/0}2"]}),
        }


@pytest.fixture
def scene() -> Iterator[Scene]:
    with open_store("memory://") as store:
        scene = Scene(store)
        yield scene
        scene.service.close()


@pytest.mark.parametrize("topics", [("*",), ("parcel?",), ("p*", "other")], ids=str)
def test_a_token_whose_patterns_match_an_internal_topic_changes_nothing_there(
    scene: Scene, topics: tuple[str, ...]
) -> None:
    asking, before = scene.asking(*topics), scene.timeline.count("parcels")
    for name, (method, path, form) in scene.requests().items():
        answer = asking.ask(method, path, form)
        assert (name, answer.status, answer.problem) == (name, 403, "Forbidden")
        assert "topic 'parcels' is internal" in answer.json()["detail"]
    assert asking.get("/v1/leases?consumer=w").json()["messages"] == []
    assert asking.get("/v1/leases?consumer=w&topic=parcels").json()["messages"] == []
    assert scene.timeline.count("parcels") == before
    assert len(scene.timeline.my_leases("w")) == 1


@pytest.mark.parametrize("topics", [("parcels",), ("*", "parcels")], ids=str)
def test_a_token_that_names_an_internal_topic_may_use_it(scene: Scene, topics: tuple[str, ...]) -> None:
    asking = scene.asking(*topics)
    assert len(asking.get("/v1/leases?consumer=w").json()["messages"]) == 1
    for name, (method, path, form) in scene.requests().items():
        assert (name, asking.ask(method, path, form).status // 100) == (name, 2)


def test_an_admin_may_use_internal_topics(scene: Scene) -> None:
    asking = scene.asking("*", admin=True)
    for name, (method, path, form) in scene.requests().items():
        assert (name, asking.ask(method, path, form).status // 100) == (name, 2)


def test_where_there_are_no_tokens_everybody_may_use_internal_topics(scene: Scene) -> None:
    asking = Asking(scene.service)
    for name, (method, path, form) in scene.requests().items():
        assert (name, asking.ask(method, path, form).status // 100) == (name, 2)


def test_a_token_whose_patterns_match_an_internal_topic_reads_there(scene: Scene) -> None:
    asking = scene.asking("*")
    assert asking.get(TOPIC).json()["internal"] is True
    assert [(one["name"], one["internal"]) for one in asking.get("/v1/topics").json()["topics"]] == [
        ("parcels", True),
        ("parcels-dead", True),
    ]
    assert asking.get(f"{TOPIC}/count").json()["processing"] == 1
    assert asking.get(f"{TOPIC}/load?within=1h").status == 200
    assert asking.get(f"{TOPIC}/consumers").status == 200


def test_a_topic_that_becomes_internal_is_closed_to_patterns_after_five_seconds(scene: Scene) -> None:
    scene.timeline.create_topic("later")
    asking, path = scene.asking("*"), "/v1/topics/later/messages"
    form = {"messages": [{"body": "x"}]}
    assert asking.post(path, form).status == 200
    make_topics(scene.timeline, "later")
    scene.clock.us += 5_000_000
    assert asking.post(path, form).status == 403


def test_the_loop_reads_no_store_to_tell_what_is_internal(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    asking, read_in, topics = scene.asking("*"), set[threading.Thread](), Timeline.topics

    def noted(timeline: Timeline) -> Any:
        read_in.add(threading.current_thread())
        return topics(timeline)

    monkeypatch.setattr(Timeline, "topics", noted)
    # What is remembered grows old between any two looks at the clock.
    monkeypatch.setattr(scene.service.parts.internal, "_clock", count(0, 3_000_000).__next__)
    for _ in range(4):
        assert asking.post(f"{MESSAGES}/lease", {"consumer": "v"}).status == 403
    assert read_in
    assert threading.main_thread() not in read_in


def test_a_lease_cannot_be_carried_to_a_topic_that_the_token_is_for(scene: Scene) -> None:
    scene.timeline.create_topic("mine")
    asking, forged = scene.asking("mine"), scene.lease.replace("/parcels/", "/mine/")
    for verb in ("extend", "release", "done"):
        answer = asking.post(f"/v1/topics/mine/messages/{verb}", {"leases": [forged]})
        assert [one["outcome"] for one in answer.json()["outcomes"]] == ["lost"]
    assert len(scene.timeline.my_leases("w")) == 1
