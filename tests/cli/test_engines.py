from typing import Any

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
