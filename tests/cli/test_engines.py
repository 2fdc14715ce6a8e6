import logging
from typing import Any

import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway

from batchline.cli import engines
from tests.servers.launch import hold_port


class SparkWithoutJava:
    """A session whose Java was killed: nobody listens where it was."""

    def __init__(self, port: int) -> None:
        self._gateway: Any = JavaGateway(gateway_parameters=GatewayParameters(port=port))

    def stop(self) -> None:
        self._gateway.jvm.java.lang.System.exit(0)


def test_a_spark_whose_java_is_gone_is_stopped_without_another_error() -> None:
    with hold_port() as held:
        engines._stop(SparkWithoutJava(held.getsockname()[1]))  # type: ignore[arg-type]


def test_py4j_logs_nowhere_and_our_own_log_stays_on_standard_error(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.root, "handlers", [])  # as in a command: pytest has some of its own
    with engines._logged_nowhere():
        logging.getLogger("py4j.clientserver").warning("every Ctrl-C")
        logging.getLogger("batchline").warning("loop prune failed")
    assert capfd.readouterr().err == "loop prune failed\n"
