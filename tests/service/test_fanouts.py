"""Fanouts over HTTP: what one producer group learns of another's."""

from contextlib import closing

from batchline import open_store
from batchline.runtime.tokens import Tokens
from batchline.service.service import Service
from tests.service.asking import Asking


def test_an_id_that_is_taken_tells_nothing_of_the_fanout_that_has_it_unless_it_is_your_own() -> None:
    with open_store("memory://") as store, closing(Service(store)) as service:
        mine = Asking(service, Tokens(store).create(producer_group="mine", topics=["*"])[1])
        theirs = Asking(service, Tokens(store).create(producer_group="theirs", topics=["*"])[1])
        assert mine.post("/v1/fanouts", {"id": "a", "labels": {"customer": "Smith"}}).status == 201
        for asking, told in ((mine, True), (theirs, False)):
            answer = asking.post("/v1/fanouts", {"id": "a"})
            assert (answer.status, answer.problem) == (409, "FanoutExists")
            assert ("Smith" in answer.json()["detail"]) is told
