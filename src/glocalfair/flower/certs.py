"""Certificates and keys for a trial: an own CA, the SuperLink's certificate, and a key pair for each SuperNode.

Made to try a deployment with TLS and SuperNode authentication on a few machines. In production an organisation's own
PKI issues the certificate, and every site makes its own key pair (see the docs on production).
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from glocalfair.errors import GlocalfairError, invalid

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

LOCAL = ("localhost", "127.0.0.1")
_CA_NAME = "glocalfair trial CA"
SECRET = ("ca.key", "server.key")
_SITE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_LABEL = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOST = re.compile(rf"(?=.{{1,253}}$){_LABEL}(\.{_LABEL})*")


def write(folder: Path, hosts: Sequence[str] = (), sites: Sequence[str] = (), days: int = 365) -> list[Path]:
    """Write CA, server certificate and site keys into a folder; what is there already is never replaced.

    Parameters
    ----------
    folder
        Where to; made if it is not there.
    hosts
        Names and IP addresses by which SuperNodes reach the SuperLink, beside localhost and 127.0.0.1.
    sites
        Names of the sites to make key pairs for.
    days
        How long the certificates are valid.

    Returns
    -------
    list of Path
        The files: ``ca.crt``, ``ca.key``, ``server.pem``, ``server.key``, and ``keys/SITE`` with ``keys/SITE.pub``.
    """
    _require_cryptography()
    if not 1 <= days <= 3650:
        raise invalid("days", "from 1 to 3650", days)
    for site in sites:
        if not _SITE.fullmatch(site) or site.endswith(".pub"):
            raise invalid("sites", "names of letters, digits, '.', '_' and '-', not ending in '.pub'", site)
    if len({site.lower() for site in sites}) < len(sites):
        raise invalid("sites", "names that differ in more than upper and lower case", list(sites))
    content = {folder / name: data for name, data in _certificates((*LOCAL, *hosts), days).items()}
    secret = {folder / name for name in SECRET} | {folder / "keys" / site for site in sites}
    for site in sites:
        private, public = _key_pair(site)
        content |= {folder / "keys" / site: private, folder / "keys" / f"{site}.pub": public}
    for path in content:
        if path.exists():
            raise GlocalfairError(f"'{path}' exists already and is not replaced. Choose another folder.")
    for path, data in content.items():
        _create(path, data, 0o600 if path in secret else 0o644)
    return list(content)


def _require_cryptography() -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError as error:
        raise GlocalfairError("Certificates need the flower extra: pip install 'glocalfair[flower]'.") from error


def _create(path: Path, data: bytes, mode: int) -> None:
    """Write a file that was not there; it has its mode from the first byte on."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(data)
    except OSError as error:
        raise GlocalfairError(f"Cannot write '{path}': {error.strerror}.") from error


def _new_key() -> EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP384R1())


def _key_pair(site: str) -> tuple[bytes, bytes]:
    """Return a key pair as ``ssh-keygen -t ecdsa -b 384`` makes it."""
    from cryptography.hazmat.primitives import serialization as form

    key = _new_key()
    public = key.public_key().public_bytes(form.Encoding.OpenSSH, form.PublicFormat.OpenSSH)
    private = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.OpenSSH, form.NoEncryption())
    return private, public + f" {site}\n".encode()


def _certificates(hosts: Sequence[str], days: int) -> dict[str, bytes]:
    """Make a CA that can sign servers only, and the certificate of one server."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    names = [_general_name(host) for host in dict.fromkeys(hosts)]
    ca_key, key = _new_key(), _new_key()

    def certificate(name: str, of: EllipticCurvePrivateKey, extensions: list[x509.ExtensionType]) -> bytes:
        # An hour ago: the clocks of two machines differ.
        now = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=1)
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _CA_NAME)]))
            .public_key(of.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now)
            .not_valid_after(now + datetime.timedelta(days=days, hours=1))
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(of.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
        )
        for extension in extensions:
            critical = isinstance(extension, x509.BasicConstraints | x509.KeyUsage)
            builder = builder.add_extension(extension, critical)
        return builder.sign(ca_key, hashes.SHA384()).public_bytes(form.Encoding.PEM)

    def private(of: EllipticCurvePrivateKey) -> bytes:
        return of.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())

    server = [
        x509.BasicConstraints(ca=False, path_length=None),
        _usage(signs=False),
        x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]),
        x509.SubjectAlternativeName(names),
    ]
    return {
        "ca.crt": certificate(_CA_NAME, ca_key, [x509.BasicConstraints(ca=True, path_length=0), _usage(signs=True)]),
        "ca.key": private(ca_key),
        "server.pem": certificate("glocalfair SuperLink", key, server),
        "server.key": private(key),
    }


def _usage(signs: bool) -> x509.KeyUsage:
    from cryptography import x509

    unused = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "crl_sign")
    rest = dict.fromkeys((*unused, "encipher_only", "decipher_only"), False)
    return x509.KeyUsage(digital_signature=not signs, key_cert_sign=signs, **rest)


def _general_name(host: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        if not _HOST.fullmatch(host):
            raise invalid("host", "a host name or an IP address, without a port", host) from None
        return x509.DNSName(host)


def next_commands(folder: Path, hosts: Sequence[str], sites: Sequence[str]) -> Iterator[str]:
    """Give the commands that use the files, line by line."""
    at = hosts[0] if hosts else LOCAL[1]
    listen = "0.0.0.0" if hosts else LOCAL[1]
    quoted = {name: shlex.quote(str(folder / name)) for name in ("ca.crt", "server.pem", "server.key")}
    tls = f"--ssl-ca-certfile {quoted['ca.crt']} --ssl-certfile {quoted['server.pem']}"
    tls += f" --ssl-keyfile {quoted['server.key']}"
    yield "# At the coordinator: $FLWR_HOME/config.toml (default ~/.flwr) needs"
    yield "#   [superlink.trial]"
    yield f'#   address = "{_bracketed(at)}:8000"'
    yield f'#   root-certificates = "{(folder / "ca.crt").resolve()}"'
    yield f"flower-superlink {tls} --enable-supernode-auth --disable-runtime-dependency-installation \\"
    yield f"    --host {listen} --port 8000 --database state.db"
    for site in sites:
        yield f"flwr supernode register {shlex.quote(str(folder / 'keys' / f'{site}.pub'))} trial"
    for number, site in enumerate(sites):
        key = shlex.quote(str(folder / "keys" / site))
        yield f"# At {site}, which needs ca.crt and its own two key files, and nothing else:"
        yield f"flower-supernode --superlink {_bracketed(at)}:8000 --root-certificates {quoted['ca.crt']} \\"
        yield f"    --auth-supernode-private-key {key} --port {9094 + number} --node-config 'site=\"{site}\"'"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
