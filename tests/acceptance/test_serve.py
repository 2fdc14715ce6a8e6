"""`batchline serve`, as people start it: with a certificate, a landing and a log."""

import datetime as dt
import ipaddress
import json
import re
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from batchline import open_store
from batchline.core.moment import moment_of
from batchline.runtime.clock import now_us
from batchline.runtime.tokens import Tokens

PATIENCE_S = 60.0


def make_certificate(directory: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1, signed by itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "batchline")])
    now = moment_of(now_us())
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    encoding, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    files = directory / "cert.pem", directory / "key.pem"
    files[0].write_bytes(certificate.public_bytes(encoding))
    files[1].write_bytes(key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, plain))
    return files


@contextmanager
def started(*words: object) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command, listening; and where."""
    command = [sys.executable, "-m", "batchline", "serve", "--listen", "127.0.0.1:0", *map(str, words)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            found = re.search(r"https?://\S+", process.stderr.readline())
            assert found is not None
            yield process, found[0]
        finally:
            process.kill()


def test_it_speaks_https_to_who_trusts_its_certificate_and_logs_without_secrets(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    url = f"sqlite:///{tmp_path / 'b.db'}"
    with open_store(url) as store:
        token, text = Tokens(store).create("t", producer_group="g", admin=True)
    words = ("--store", url, "--log", "--tls-cert", certificate, "--tls-key", key, "--landing", tmp_path / "in")
    with started(*words) as (process, address):
        trusting = ssl.create_default_context(cafile=certificate)
        bearer = {"authorization": f"Bearer {text}"}
        with httpx2.Client(base_url=address, verify=trusting, headers=bearer) as client:
            assert client.post("/v1/topics", json={"name": "t"}).status_code == 201
            measured = {"key": "k", "type": "t", "event_time": "2026-11-15T12:00:00Z", "value": 1}
            assert client.post("/v1/measurements", json=[measured]).json() == {"accepted": 1, "rejected": []}
            assert client.get("/health/ready").json()["database"] == url
            assert client.post("/v1/estimates", json={}).status_code == 404
        with pytest.raises(httpx2.ConnectError, match="certificate"):
            httpx2.get(f"{address}/health/live", verify=ssl.create_default_context())
        with pytest.raises(httpx2.HTTPError):
            httpx2.get(f"{address.replace('https', 'http')}/health/live")
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    lines = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    assert [(line["operation"], line["status"]) for line in lines] == [
        ("create_topic", 201),
        ("land_measurements", 202),
        ("read_ready", 200),
        ("open_estimate", 404),
    ]
    assert lines[0]["token"] == token.id
    assert text.rpartition("_")[2] not in said
    assert len(list((tmp_path / "in").glob("*-serve-*.jsonl"))) == 1
