"""The signature of a package: Ed25519 over its SHA-256, made and checked by the package `cryptography`.

    payload = public key (32) + signature (64)
    signed  = b"atcpy package\\0" + SHA-256 (32), as `container.py` records and defines it

The key in the payload says who claims to have signed. It proves nothing: the keys that the user requires count.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from atcpy.errors import CODES, AtcWarning, PackageCorrupt, Unsupported, UsageError, Where, raise_os_error
from atcpy.files import open_file

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

PublicKeys: TypeAlias = str | os.PathLike[str] | bytes | Sequence[str | os.PathLike[str] | bytes]

_KEY_BYTES = 32
_CONTEXT = b"atcpy package\0"  # a signature of something else by the same key is none of a package
_DER_HEAD = bytes.fromhex("302a300506032b6570032100")  # SubjectPublicKeyInfo of Ed25519 up to the key
_MAX_FILE_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class PublicKey:
    """An Ed25519 public key."""

    raw: bytes

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the key in DER, in hexadecimal: `openssl pkey -pubin -in PUB -outform DER | sha256sum`."""
        import hashlib

        return hashlib.sha256(_DER_HEAD + self.raw).hexdigest()


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A private key, ready to sign; `warnings` say what is wrong with its file."""

    private: Ed25519PrivateKey
    warnings: tuple[AtcWarning, ...] = ()

    @property
    def public(self) -> PublicKey:
        """The key that checks what this one signs."""
        return PublicKey(self.private.public_key().public_bytes_raw())

    def sign(self, sha256: bytes) -> bytes:
        """The payload of SIGNATURE for a package of that SHA-256. Ed25519 draws nothing: same bytes each time."""
        signature: bytes = self.private.sign(_CONTEXT + sha256)
        return self.public.raw + signature


def signer_of(payload: memoryview) -> PublicKey:
    """The key that a payload names."""
    return PublicKey(bytes(payload[:_KEY_BYTES]))


def check_signature(payload: memoryview | None, sha256: bytes, signers: Sequence[PublicKey], source: str) -> None:
    """Refuse a package that is not signed (P0008), by none of `signers` (P0007), or with a wrong signature (P0006)."""
    where = Where(file=source, partition="SIGNATURE")
    expected = " or ".join(key.fingerprint for key in signers)
    if payload is None:
        what = f"the package is not signed, and a signature of {expected} is required"
        raise PackageCorrupt("P0008", what, where=where, hint=CODES["P0008"].help)
    found = signer_of(payload)
    if found not in signers:
        what = f"the package is signed with another key: expected {expected}, found {found.fingerprint}"
        raise PackageCorrupt("P0007", what, where=where, hint=CODES["P0007"].help)
    ed25519, _ = _cryptography()
    from cryptography.exceptions import InvalidSignature

    try:
        ed25519.Ed25519PublicKey.from_public_bytes(found.raw).verify(bytes(payload[_KEY_BYTES:]), _CONTEXT + sha256)
    except InvalidSignature:
        what = f"the signature of {found.fingerprint} is not that of these bytes"
        raise PackageCorrupt("P0006", what, where=where, hint=CODES["P0006"].help) from None


def read_public_keys(keys: PublicKeys | None) -> tuple[PublicKey, ...]:
    """The keys of which one must have signed, each a path or the bytes of PEM; none for None. An empty list is refused:
    it would ask for no signature where somebody meant to require one.
    """
    if keys is None:
        return ()
    listed = [keys] if isinstance(keys, str | os.PathLike | bytes) else list(keys)
    if not listed:
        raise UsageError("E10001", "require_signature: the list of public keys is empty", hint="None asks for none")
    return tuple(_read_public_key(key) for key in listed)


def _read_public_key(key: str | os.PathLike[str] | bytes) -> PublicKey:
    ed25519, serialization = _cryptography()
    source = "the public key" if isinstance(key, bytes) else os.fspath(key)
    pem = key if isinstance(key, bytes) else _read_file(key)[0]
    if b"PRIVATE KEY-----" in pem:
        hint = "give the public one: openssl pkey -in KEY -pubout -out PUB"
        raise _misfit(source, "a private key where a public one is needed", hint)
    hint = "it begins with -----BEGIN PUBLIC KEY-----: openssl pkey -in KEY -pubout -out PUB"
    loaded = _load(lambda: serialization.load_pem_public_key(pem), source, hint)
    if not isinstance(loaded, ed25519.Ed25519PublicKey):
        raise _misfit(source, "not an Ed25519 key", hint)
    return PublicKey(loaded.public_bytes_raw())


def read_signing_key(path: str | os.PathLike[str]) -> SigningKey:
    """The private key of a PEM file (PKCS#8). Raises UsageError for what is none, or is encrypted."""
    ed25519, serialization = _cryptography()
    source = os.fspath(path)
    pem, mode = _read_file(path)
    hint = "openssl genpkey -algorithm ed25519 -out KEY makes one"
    if b"ENCRYPTED" in pem:
        raise _misfit(source, "encrypted, and nobody is asked for its password", "openssl pkey -in KEY -out PLAIN")
    if b"PUBLIC KEY-----" in pem:
        raise _misfit(source, "a public key where a private one is needed", hint)
    loaded = _load(lambda: serialization.load_pem_private_key(pem, password=None), source, hint)
    if not isinstance(loaded, ed25519.Ed25519PrivateKey):
        raise _misfit(source, "not an Ed25519 key", hint)
    if not mode & (stat.S_IRGRP | stat.S_IROTH):
        return SigningKey(loaded)
    what = f"the private key {source} can be read by others than its owner"
    return SigningKey(loaded, (AtcWarning("W0060", what, Where(file=source, option="sign")),))


def _load(load: Callable[[], Any], source: str, hint: str) -> Any:
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        return load()
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise _misfit(source, "no PEM file of a key", hint) from error


def _misfit(source: str, what: str, hint: str) -> UsageError:
    return UsageError("E13005", f"{source} is {what}", where=Where(file=source), hint=hint)


def _read_file(path: str | os.PathLike[str]) -> tuple[bytes, int]:
    """The content of a key file, and its permissions."""
    try:
        with open_file(path) as file:
            return file.read(_MAX_FILE_BYTES), os.fstat(file.fileno()).st_mode
    except OSError as error:
        raise_os_error(error, os.fspath(path))


def _cryptography() -> tuple[Any, Any]:
    """The modules `ed25519` and `serialization` of the package. Raises Unsupported (E10055) where it is missing."""
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as error:
        what = "signatures need the package cryptography, which is not installed"
        raise Unsupported("E10055", what, hint="pip install 'atcpy[sign]', or cryptography alone") from error
    return ed25519, serialization
