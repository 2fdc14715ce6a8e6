"""What `batchline serve` refuses before it serves anything."""

from pathlib import Path

from tests.cli.conftest import Call


def test_a_password_in_an_address_is_not_repeated(batchline: Call, tmp_path: Path) -> None:
    for words in (
        ("--store", "postgresql://me:hunter2@127.0.0.1:1/db"),
        ("--store", "mysql://me:hunter2@127.0.0.1:1/db"),
        ("--store", f"sqlite:///{tmp_path / 'b.db'}", "--estimates", "http://me:hunter2@127.0.0.1/"),
    ):
        said = batchline("serve", "--listen", "127.0.0.1:0", "--wait", "0s", *words)
        assert said.code != 0
        assert "127.0.0.1" in said.err
        assert "hunter2" not in said.out + said.err


def test_a_certificate_without_its_key_is_refused(batchline: Call, tmp_path: Path) -> None:
    said = batchline("serve", "--store", f"sqlite:///{tmp_path / 'b.db'}", "--tls-cert", "c.pem")
    assert said.code != 0
    assert "--tls-cert and --tls-key go together" in said.err


def test_without_tokens_another_address_than_loopback_must_be_asked_for(batchline: Call, tmp_path: Path) -> None:
    said = batchline("serve", "--store", f"sqlite:///{tmp_path / 'b.db'}", "--listen", "0.0.0.0:0")
    assert said.code != 0
    assert "--insecure" in said.err


def test_a_limit_on_connections_below_one_is_refused(batchline: Call, tmp_path: Path) -> None:
    for option, name in (("--connections", "connections"), ("--connections-per-address", "per address")):
        said = batchline("serve", "--store", f"sqlite:///{tmp_path / 'b.db'}", option, "0")
        assert said.code != 0
        assert f"{name}: expected at least 1, got 0" in said.err
