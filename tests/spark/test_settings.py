"""What is set for which master."""

from __future__ import annotations

import os

import pytest

from batchline.spark.settings import cores_of, driver_memory, is_local, settings_for, text_of


@pytest.mark.parametrize(
    ("master", "cores"),
    [("local", 1), ("local[3]", 3), ("local[4,2]", 4), ("local[*]", len(os.sched_getaffinity(0)))],
)
def test_a_local_master_says_how_many_tasks_it_runs_at_once(master: str, cores: int) -> None:
    assert is_local(master)
    assert cores_of(master) == cores


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "k8s://https://host", "local-cluster[2,1,1024]"])
def test_a_cluster_gets_nothing_that_holds_for_this_machine_only(master: str) -> None:
    names = set(settings_for(master))
    assert names.isdisjoint({"spark.driver.bindAddress", "spark.driver.host", "spark.sql.warehouse.dir"})
    assert settings_for(master)["spark.sql.session.timeZone"] == "UTC"


def test_the_heap_leaves_room_for_python() -> None:
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 1024 <= int(driver_memory().removesuffix("m")) <= max(machine >> 21, 1024)


@pytest.mark.parametrize(("value", "text"), [(True, "true"), (3, "3"), ("as is", "as is"), (0.5, "0.5")])
def test_a_setting_is_spelled_as_spark_does(value: object, text: str) -> None:
    assert text_of(value) == text  # type: ignore[arg-type]
