"""Trial certificates: TLS with them works, without them it does not; Flower reads the keys; nothing is replaced."""

from __future__ import annotations

import contextlib
import shlex
import socket
import ssl
import stat
import sys
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner

pytest.importorskip("flwr", reason="needs the flower extra")

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key
from cryptography.x509.oid import ExtensionOID

from glocalfair.cli.flower_certs import certs
from glocalfair.errors import GlocalfairError
from glocalfair.flower.certs import next_commands, write


def handshake(server: Path, trusted: Path, host: str) -> None:
    """Make one TLS connection over a pair of sockets; raise what the client raises."""
    ours, theirs = socket.socketpair()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(server / "server.pem", server / "server.key")

    def serve() -> None:
        # The client may refuse.
        with theirs, contextlib.suppress(OSError):
            context.wrap_socket(theirs, server_side=True).close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with ours:
            ssl.create_default_context(cafile=trusted / "ca.crt").wrap_socket(ours, server_hostname=host).close()
    finally:
        thread.join()


def test_tls_holds_for_the_named_hosts_and_this_ca_only(tmp_path: Path) -> None:
    write(tmp_path / "one", ["flower.example.org", "192.0.2.7", "::1"])
    write(tmp_path / "two")
    for host in ("localhost", "127.0.0.1", "flower.example.org", "192.0.2.7", "::1"):
        handshake(tmp_path / "one", tmp_path / "one", host)
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        handshake(tmp_path / "one", tmp_path / "one", "other.example.org")
    with pytest.raises(ssl.SSLCertVerificationError, match="certificate verify failed"):
        handshake(tmp_path / "one", tmp_path / "two", "localhost")


def test_the_ca_signs_and_the_server_does_not(tmp_path: Path) -> None:
    write(tmp_path, days=9)
    ca, server = (x509.load_pem_x509_certificate((tmp_path / name).read_bytes()) for name in ("ca.crt", "server.pem"))
    server.verify_directly_issued_by(ca)
    basic = ExtensionOID.BASIC_CONSTRAINTS
    assert ca.extensions.get_extension_for_oid(basic).value == x509.BasicConstraints(True, 0)
    assert server.extensions.get_extension_for_oid(basic).value == x509.BasicConstraints(False, None)
    assert (server.not_valid_after_utc - server.not_valid_before_utc).days == 9
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    assert [str(ip) for ip in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]


def test_flower_reads_the_keys_of_a_site(tmp_path: Path) -> None:
    from flwr.supernode.cli.flower_supernode import _try_setup_client_authentication as flower_reads

    class Args:
        auth_supernode_private_key = str(tmp_path / "keys" / "a")
        auth_supernode_public_key = None

    write(tmp_path, sites=["a", "b"])
    read = flower_reads(Args())  # type: ignore[arg-type]
    assert read is not None and isinstance(read[0].curve, ec.SECP384R1)
    public = load_ssh_public_key((tmp_path / "keys" / "a.pub").read_bytes())
    assert isinstance(public, ec.EllipticCurvePublicKey) and public == read[1]
    other = load_ssh_private_key((tmp_path / "keys" / "b").read_bytes(), None)
    assert isinstance(other, ec.EllipticCurvePrivateKey) and other.public_key() != public
    assert (tmp_path / "keys" / "a.pub").read_text().startswith("ecdsa-sha2-nistp384 ")


def test_private_files_are_private(tmp_path: Path) -> None:
    files = write(tmp_path / "new", sites=["a"])
    assert sorted(str(f.relative_to(tmp_path / "new")) for f in files) == [
        "ca.crt",
        "ca.key",
        "keys/a",
        "keys/a.pub",
        "server.key",
        "server.pem",
    ]
    for file in files:
        mode = stat.S_IMODE(file.stat().st_mode)
        assert (b"PRIVATE KEY" in file.read_bytes()) == (mode == 0o600), file
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700


@pytest.mark.parametrize("there", ["ca.crt", "server.key", "keys/b.pub"])
def test_nothing_is_replaced_and_nothing_half_made(tmp_path: Path, there: str) -> None:
    (tmp_path / there).parent.mkdir(exist_ok=True)
    (tmp_path / there).write_text("mine")
    with pytest.raises(GlocalfairError, match="is not replaced"):
        write(tmp_path, sites=["a", "b"])
    assert [f for f in tmp_path.rglob("*") if f.is_file()] == [tmp_path / there]
    assert (tmp_path / there).read_text() == "mine"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"sites": ["../a"]}, "'sites' must be names of letters"),
        ({"sites": ["a b"]}, "'sites' must be names of letters"),
        ({"sites": ["a.pub"]}, "'sites' must be names of letters"),
        ({"sites": ["a", "A"]}, "'sites' must be names that differ"),
        ({"hosts": ["example.org:8000"]}, "'host' must be a host name or an IP address"),
        ({"hosts": [""]}, "'host' must be a host name or an IP address"),
        ({"days": 0}, "'days' must be from 1 to 3650"),
    ],
)
def test_bad_names(tmp_path: Path, values: dict[str, list[str]], message: str) -> None:
    with pytest.raises(GlocalfairError, match=message):
        write(tmp_path / "new", **values)  # type: ignore[arg-type]
    assert not (tmp_path / "new").exists()


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(GlocalfairError, match="Cannot write"):
        write(tmp_path / "file" / "below")


def test_without_flower(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(GlocalfairError, match=r"glocalfair\[flower\]"):
        write(tmp_path)


@pytest.mark.parametrize("hosts", [[], ["flower.example.org"], ["2001:db8::1"]])
def test_flower_understands_the_commands(tmp_path: Path, hosts: list[str]) -> None:
    from flwr.superlink.cli.flower_superlink import _parse_args_run_superlink
    from flwr.supernode.cli.flower_supernode import _parse_args_run_supernode

    folder = tmp_path / "with space"
    lines = [line for line in next_commands(folder, hosts, ["a", "b"]) if not line.startswith("#")]
    commands = [shlex.split(line) for line in "\n".join(lines).replace("\\\n", "").splitlines()]
    assert [command[0] for command in commands] == ["flower-superlink", "flwr", "flwr", *["flower-supernode"] * 2]
    link = _parse_args_run_superlink().parse_args(commands[0][1:])
    assert link.enable_supernode_auth and link.ssl_keyfile == str(folder / "server.key")
    nodes = [_parse_args_run_supernode().parse_args(command[1:]) for command in commands[3:]]
    assert [node.auth_supernode_private_key for node in nodes] == [str(folder / "keys" / s) for s in "ab"]
    assert len({node.port for node in nodes}) == 2 and nodes[0].root_certificates == str(folder / "ca.crt")


def test_the_command(tmp_path: Path) -> None:
    done = CliRunner().invoke(certs, [str(tmp_path / "c"), "--host", "h.example", "192.0.2.7", "--sites", "a", "b"])
    assert done.exit_code == 0, done.output
    assert done.output.startswith(f"8 files in {tmp_path / 'c'}. Next:\n")
    assert "flwr supernode register" in done.output and "h.example:8000" in done.output
    again = CliRunner().invoke(certs, [str(tmp_path / "c")])
    assert isinstance(again.exception, GlocalfairError)
