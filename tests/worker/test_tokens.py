"""Tokens: what is signed can be verified, and a key that does not fit is said without a word of it."""

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from streamlease_worker.tokens import sign_token

type Private = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey


def pem(key: Private) -> str:
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return key.private_bytes(*form).decode()


@pytest.mark.parametrize(
    ("algorithm", "key"),
    [
        ("ES256", ec.generate_private_key(ec.SECP256R1())),
        ("EdDSA", ed25519.Ed25519PrivateKey.generate()),
        ("RS256", rsa.generate_private_key(65537, 2048)),
    ],
)
def test_a_token_is_signed_by_the_key(algorithm: str, key: Private) -> None:
    token = sign_token(algorithm, pem(key), {"kid": "k", "nonce": "n"}, {"sub": "me", "exp": 9_999_999_999})
    assert jwt.decode(token, key.public_key(), algorithms=[algorithm])["sub"] == "me"
    assert jwt.get_unverified_header(token)["kid"] == "k"


def test_a_text_signs_too() -> None:
    key = "a shared secret of more than thirty-two bytes"
    assert jwt.decode(sign_token("HS256", key, {}, {"sub": "me"}), key, algorithms=["HS256"]) == {"sub": "me"}


@pytest.mark.parametrize("algorithm", ["ES256", "EdDSA", "RS256", "none such"])
@pytest.mark.parametrize("key", ["s3cr3t", "", "-----BEGIN PRIVATE KEY-----\ns3cr3t\n-----END PRIVATE KEY-----"])
def test_a_key_that_does_not_fit_is_refused_and_not_shown(algorithm: str, key: str) -> None:
    with pytest.raises(ValueError, match="its key or claims do not fit") as refusal:
        sign_token(algorithm, key, {}, {"sub": "me"})
    assert "s3cr3t" not in f"{refusal.value} {refusal.value.__cause__} {refusal.value.__suppress_context__}"
