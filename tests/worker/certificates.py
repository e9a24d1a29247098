"""A certificate authority of the test's own, and what it vouches for."""

import ipaddress
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

PEM = serialization.Encoding.PEM


class Authority:
    def __init__(self, name: str = "authority") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        made = self._certificate(self._name, self._key.public_key()).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        self.pem = made.sign(self._key, hashes.SHA256()).public_bytes(PEM).decode()

    def vouch(self, name: str) -> tuple[str, str]:
        """A certificate for a host's name or address, and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        try:
            named: x509.GeneralName = x509.IPAddress(ipaddress.ip_address(name))
        except ValueError:
            named = x509.DNSName(name)
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        made = (
            self._certificate(subject, key.public_key())
            .add_extension(x509.SubjectAlternativeName([named]), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        private = key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        return made.public_bytes(PEM).decode(), private.decode()

    def server(self, folder: Path, name: str, *, clients: "Authority | None" = None) -> ssl.SSLContext:
        """A server of that name; with `clients`, one that takes only whom that authority vouches for."""
        certificate, key = self.vouch(name)
        path = folder / "server.pem"
        path.write_text(certificate + key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        if clients is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(cadata=clients.pem)
        return context

    def _certificate(self, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        serial = x509.random_serial_number()
        return x509.CertificateBuilder(
            self._name, subject, key, serial, now - timedelta(days=1), now + timedelta(days=1)
        )
