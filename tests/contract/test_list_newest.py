"""Lists of fanouts with the newest first, as pages for people have them."""

from batchline import Tracker
from tests.contract.tracking import opened


def pages(tracker: Tracker, limit: int, labels: dict[str, str] | None = None) -> list[str]:
    found: list[str] = []
    after = None
    while True:
        page = tracker.list(labels=labels, newest=True, limit=limit, after=after)
        found += [status.id for status in page.fanouts]
        after = page.next
        if after is None:
            return found


def test_the_newest_come_first_in_pages(fresh_tracker: Tracker) -> None:
    fanouts = [opened(fresh_tracker, labels={"odd": str(number % 2)})[0] for number in range(5)]
    newest = fanouts[::-1]
    assert [pages(fresh_tracker, limit) for limit in (1, 2, 5, 9)] == [newest] * 4
    assert pages(fresh_tracker, 1, {"odd": "0"}) == newest[::2]
    assert [one.id for one in fresh_tracker.list("open", newest=True, limit=1).fanouts] == newest[:1]
