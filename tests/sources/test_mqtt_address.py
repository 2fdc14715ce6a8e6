"""Addresses of MQTT brokers."""

import pytest

from batchline.errors import InvalidInput
from batchline.sources.mqtt_address import MqttAddress


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("mqtt://localhost", MqttAddress("localhost", 1883)),
        ("mqtt://localhost:1884/", MqttAddress("localhost", 1884)),
        ("mqtts://broker", MqttAddress("broker", 8883, tls=True)),
        ("mqtts://broker/?ca=my/ca.pem", MqttAddress("broker", 8883, tls=True, ca="my/ca.pem")),
        ("mqtt://me:p%40ss@broker", MqttAddress("broker", 1883, user="me", password="p@ss")),
        ("mqtt://[::1]:1884", MqttAddress("::1", 1884)),
    ],
)
def test_an_address_names_a_broker(text: str, address: MqttAddress) -> None:
    assert MqttAddress.from_text(text) == address


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("localhost", "got the scheme ''"),
        ("mqt://localhost", "got the scheme 'mqt'; did you mean 'mqtt'"),
        ("mqtt://", "got the host ''"),
        ("mqtt://host/topic", "the path '/topic'"),
        ("mqtt://host:port", "got a port that is none"),
        ("mqtts://host/?caa=x", "got the option 'caa'; did you mean 'ca'"),
        ("mqtt://host/?ca=x", "got the option 'ca'"),
    ],
)
def test_what_names_none_is_refused(text: str, reason: str) -> None:
    with pytest.raises(InvalidInput, match="expected an address such as mqtt://host") as refused:
        MqttAddress.from_text(text)
    assert reason in str(refused.value)


def test_no_message_repeats_a_password() -> None:
    with pytest.raises(InvalidInput) as refused:
        MqttAddress.from_text("mqqt://me:secret@broker/x")
    assert "secret" not in str(refused.value)
    assert "secret" not in repr(MqttAddress.from_text("mqtt://me:secret@broker"))
