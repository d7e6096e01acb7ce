"""A private certificate authority, and the certificate of the NATS server that it signs."""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_AUTHORITY_DAYS: Final = 3650
_SERVER_DAYS: Final = 730
_CLOCK_SKEW: Final = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class KeyedCertificate:
    """A certificate and its private key, both as PEM."""

    certificate: bytes
    private_key: bytes


def make_authority() -> KeyedCertificate:
    """Make a certificate authority that signs server certificates and nothing below them."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _make_name("skillbus deployment")
    certificate = (
        _start_certificate(name, name, key.public_key(), _AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_allow_key_use(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return _encode(certificate, key)


def make_server_certificate(authority: KeyedCertificate, hosts: Sequence[str]) -> KeyedCertificate:
    """Make a certificate for a server that is reached under these names and addresses. The first is its subject."""
    signer = serialization.load_pem_private_key(authority.private_key, password=None)
    if not isinstance(signer, ec.EllipticCurvePrivateKey):
        raise TypeError("the authority's key is not of an elliptic curve: make the authority with this command")
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = (
        _start_certificate(_make_name(hosts[0]), issuer.subject, key.public_key(), _SERVER_DAYS)
        .add_extension(x509.SubjectAlternativeName([_make_alternative_name(host) for host in hosts]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_allow_key_use(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(signer, hashes.SHA256())
    )
    return _encode(certificate, key)


def _start_certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + timedelta(days=days))
    )


def _make_name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _make_alternative_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _allow_key_use(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _encode(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> KeyedCertificate:
    return KeyedCertificate(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )
