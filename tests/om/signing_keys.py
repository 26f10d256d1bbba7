"""Keys that tests sign with, made of fixed bytes: the tests are the same each time."""

from pathlib import Path
from typing import Any

import pytest

REASON = "needs the package cryptography: pip install 'atcpy[sign]'"


def private_key(seed: int = 1) -> Any:
    """The Ed25519 key of a number. Skips the test where `cryptography` is not installed."""
    ed25519 = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519", reason=REASON)
    return ed25519.Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32)


def public_pem(seed: int = 1) -> bytes:
    """The PEM of the public key of `private_key(seed)`."""
    key = private_key(seed).public_key()
    from cryptography.hazmat.primitives import serialization

    pem: bytes = key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return pem


def private_pem(private: Any, password: bytes | None = None) -> bytes:
    """The PKCS#8 PEM of a private key."""
    from cryptography.hazmat.primitives import serialization

    encryption = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    pem: bytes = private.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
    return pem


def write_keys(folder: Path, seed: int = 1) -> tuple[Path, Path]:
    """The files of a private key, readable by its owner alone, and of its public key."""
    private, public = folder / f"key{seed}.pem", folder / f"pub{seed}.pem"
    private.write_bytes(private_pem(private_key(seed)))
    private.chmod(0o600)
    public.write_bytes(public_pem(seed))
    return private, public
