"""`skillbus init-deploy`: what it writes, what it keeps, and who can read it."""

import ssl
import stat
from pathlib import Path

import nkeys
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from skillbus.contracts.bus_users import BUS_USERS

from .conftest import CommandLine


def read_all(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "deploy" / "secrets"


def test_every_user_of_the_bus_gets_a_key_that_the_server_knows(skillbus: CommandLine, folder: Path) -> None:
    assert skillbus("init-deploy", "--folder", str(folder)).exit_code == 0
    users = (folder / "nats-users.conf").read_text()
    for user in BUS_USERS:
        pair = nkeys.from_seed(bytearray((folder / f"nats-{user.name}.seed").read_bytes().strip()))
        assert f"NKEY_{user.name.upper()}: {pair.public_key.decode()}\n" in users
    assert ": SU" not in users
    assert len({(folder / f"nats-{user.name}.seed").read_bytes() for user in BUS_USERS}) == len(BUS_USERS)


def test_only_the_owner_enters_the_folder_and_what_no_container_reads_is_private(
    skillbus: CommandLine, folder: Path
) -> None:
    skillbus("init-deploy", "--folder", str(folder), "--tls")
    private = {path.name for path in folder.iterdir() if mode_of(path) == 0o600}
    assert mode_of(folder) == 0o700
    assert private == {"ca.key", "nats-client.seed", "nats-operator.seed", "qdrant.env"}
    assert {mode_of(path) for path in folder.iterdir() if path.name not in private} == {0o644}


def test_a_second_time_changes_nothing_and_adds_what_is_missing(skillbus: CommandLine, folder: Path) -> None:
    skillbus("init-deploy", "--folder", str(folder), "--tls")
    before = read_all(folder)
    again = skillbus("init-deploy", "--folder", str(folder), "--json")
    assert read_all(folder) == before
    assert '"written": []' in again.stdout

    (folder / "nats-agent.seed").unlink()
    skillbus("init-deploy", "--folder", str(folder))
    after = read_all(folder)
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {"nats-agent.seed", "nats-users.conf"}
    assert b"tls {" in after["nats-users.conf"]


def test_rotation_replaces_every_secret(skillbus: CommandLine, folder: Path) -> None:
    skillbus("init-deploy", "--folder", str(folder), "--tls")
    before = read_all(folder)
    skillbus("init-deploy", "--folder", str(folder), "--tls", "--rotate")
    after = read_all(folder)
    assert after.keys() == before.keys()
    assert [name for name in after if after[name] == before[name]] == []


def test_no_secret_is_printed(skillbus: CommandLine, folder: Path) -> None:
    outputs = [skillbus("init-deploy", "--folder", str(folder), "--tls", *more) for more in ((), ("--json",))]
    printed = "".join(output.output for output in outputs)
    for content in read_all(folder).values():
        for line in content.decode().split():
            assert len(line) < 40 or line not in printed


def test_the_readers_of_vectors_get_a_key_that_cannot_write(skillbus: CommandLine, folder: Path) -> None:
    skillbus("init-deploy", "--folder", str(folder))
    found = {name: content.decode().strip() for name, content in read_all(folder).items()}
    assert found["qdrant.env"].splitlines() == [
        f"QDRANT__SERVICE__API_KEY={found['qdrant-key']}",
        f"QDRANT__SERVICE__READ_ONLY_API_KEY={found['qdrant-read-only-key']}",
    ]
    assert found["qdrant-key"] != found["qdrant-read-only-key"]


def test_the_certificate_is_for_the_named_hosts_and_signed_by_the_authority(
    skillbus: CommandLine, folder: Path
) -> None:
    skillbus("init-deploy", "--folder", str(folder), "--tls-host", "bus.example.test")
    authority = x509.load_pem_x509_certificate((folder / "ca.pem").read_bytes())
    server = x509.load_pem_x509_certificate((folder / "nats-tls.pem").read_bytes())
    server.verify_directly_issued_by(authority)
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["nats", "localhost", "bus.example.test"]
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]
    assert isinstance(server.public_key(), ec.EllipticCurvePublicKey)
    ssl.create_default_context(cafile=folder / "ca.pem")


@pytest.mark.parametrize("content", [b"", b"hunter2", b"SUAAAA\n", b"\xff\xfe"])
def test_a_damaged_seed_is_refused_without_being_shown(skillbus: CommandLine, folder: Path, content: bytes) -> None:
    skillbus("init-deploy", "--folder", str(folder))
    (folder / "nats-agent.seed").write_bytes(content)
    done = skillbus("init-deploy", "--folder", str(folder))
    assert done.exit_code == 1
    assert "--rotate" in done.output
    assert "hunter2" not in done.output
    assert (folder / "nats-agent.seed").read_bytes() == content


def test_a_folder_that_cannot_be_made_is_named(skillbus: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = skillbus("init-deploy", "--folder", str(tmp_path / "file" / "secrets"))
    assert done.exit_code == 1
    assert "--folder" in done.output
