"""A signed package: what the signature covers, and that nothing but what was signed is taken."""

import hashlib
import struct
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from atcpy import InferenceSession
from atcpy.errors import AtcError, PackageCorrupt, Unsupported, UsageError
from atcpy.om import container, writer
from atcpy.om.container import SIGNATURE_BYTES, Partition, Verify, parse, reseal
from atcpy.om.signature import PublicKey, SigningKey, read_public_keys, read_signing_key
from atcpy.options import convert_options
from atcpy.stages.pipeline import compile_model
from tests.effort import is_thorough
from tests.models_in_text import model
from tests.om import sample
from tests.om.signing_keys import private_key, private_pem, public_pem, write_keys


def key(seed: int = 1) -> SigningKey:
    return SigningKey(private_key(seed))


@pytest.fixture(scope="module")
def signed() -> bytes:
    return writer.to_bytes(sample.small(), sign=key().sign)


def code_of(package: bytes, signers: Sequence[PublicKey], verify: Verify = Verify.FULL) -> str | None:
    try:
        parse(package, signers=signers, verify=verify)
    except PackageCorrupt as error:
        assert error.exit_code == 7 and error.what and error.hint
        return error.code
    return None


def test_signed_package_is_taken_from_its_signer_alone(signed: bytes) -> None:
    assert code_of(signed, ()) is None
    assert code_of(signed, [key().public]) is None
    assert code_of(signed, [key(2).public, key().public]) is None
    assert code_of(signed, [key(2).public]) == "P0007"
    assert code_of(writer.to_bytes(sample.small()), [key().public]) == "P0008"
    opened = parse(signed)
    assert opened.signer == key().public
    assert parse(writer.to_bytes(sample.small())).signer is None


def test_another_signer_is_named_beside_the_one_expected(signed: bytes) -> None:
    with pytest.raises(PackageCorrupt) as caught:
        parse(signed, signers=[key(2).public])
    assert f"expected {key(2).public.fingerprint}, found {key().public.fingerprint}" in caught.value.what


def test_fingerprint_is_the_hash_of_the_key_in_der() -> None:
    public = private_key().public_key()
    from cryptography.hazmat.primitives import serialization

    der = public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    assert key().public.fingerprint == hashlib.sha256(der).hexdigest()


def test_what_is_signed_is_every_byte_but_checksum_and_signature(signed: bytes) -> None:
    """The documented definition, computed here by hand."""
    at = len(signed) - SIGNATURE_BYTES
    digest = hashlib.sha256(signed[:12] + bytes(64) + signed[76:at]).digest()
    assert parse(signed).sha256 == digest
    public = private_key().public_key()
    assert signed[at : at + 32] == public.public_bytes_raw()
    public.verify(signed[at + 32 :], b"atcpy package\0" + digest)


def test_table_of_a_signed_package_ends_with_the_signature(signed: bytes) -> None:
    assert struct.unpack_from("<II", signed, 256) == (5, 0)
    kinds = [struct.unpack_from("<IIQQ", signed, 264 + 24 * i) for i in range(5)]
    assert [kind for kind, *_ in kinds] == [8, 0, 1, 2, 23]
    assert kinds[-1][3] == 96 and 256 + 8 + 5 * 24 + kinds[-1][2] + 96 == len(signed)
    assert parse(signed).extent(Partition.WEIGHTS_DATA).offset % 64 == 0


def test_same_key_and_model_make_the_same_bytes(signed: bytes, tmp_path: Path) -> None:
    assert writer.to_bytes(sample.small(), sign=key().sign) == signed
    writer.write(tmp_path / "m.om", sample.small(), sign=key().sign)
    assert (tmp_path / "m.om").read_bytes() == signed
    assert writer.to_bytes(sample.small(), sign=key(2).sign) != signed


def test_every_changed_byte_is_refused_by_its_checksum(signed: bytes) -> None:
    signers = [key().public]
    for at in range(0, len(signed), 1 if is_thorough() else 7):
        mutant = bytearray(signed)
        mutant[at] ^= 0x20
        assert code_of(bytes(mutant), signers) is not None, at


def test_every_bit_of_the_signature_counts_behind_the_checksum(signed: bytes) -> None:
    first, signers = len(signed) - SIGNATURE_BYTES, [key().public]
    for at in range(first, len(signed)):
        for bit in range(8):
            mutant = bytearray(signed)
            mutant[at] ^= 1 << bit
            resealed = reseal(bytes(mutant))
            expected = "P0007" if at < first + 32 else "P0006"
            assert code_of(resealed, signers) == expected, (at, bit)
            assert code_of(resealed, ()) is None  # nobody asked who signed it


def test_changed_content_with_the_old_signature_is_refused(signed: bytes) -> None:
    taken = 0
    for at in [*range(84, 116), *range(160, 180), *range(400, len(signed) - SIGNATURE_BYTES, 61)]:
        mutant = bytearray(signed)
        mutant[at] ^= 1
        resealed = reseal(bytes(mutant))
        found = code_of(resealed, [key().public])
        assert found == "P0006" or (found == "P0005" and at < 360), at
        taken += code_of(resealed, ()) is None
    assert taken > 20  # where no signature is required


def test_weights_count_where_only_the_header_is_verified(signed: bytes) -> None:
    mutant = bytearray(signed)
    mutant[parse(signed).extent(Partition.WEIGHTS_DATA).offset] ^= 1
    assert code_of(bytes(mutant), (), Verify.HEADER) is None
    assert code_of(bytes(mutant), [key().public], Verify.HEADER) == "P0003"
    with pytest.raises(PackageCorrupt, match="SHA-256"):
        InferenceSession(bytes(mutant), verify="header", require_signature=public_pem())


def test_truncated_doubled_and_removed_signatures_are_refused(signed: bytes) -> None:
    signers = [key().public]
    assert {code_of(reseal(signed[:-n]), signers) for n in range(1, SIGNATURE_BYTES + 1)} == {"P0004"}
    for longer in (signed + signed[-SIGNATURE_BYTES:], signed + b"\0"):
        assert code_of(longer, signers) == "P0005"
        fitting = bytearray(longer)
        struct.pack_into("<Q", fitting, 184, len(longer) - 256)
        assert code_of(reseal(bytes(fitting)), signers) == "P0005"
        struct.pack_into("<Q", fitting, 264 + 4 * 24 + 16, 96 + len(longer) - len(signed))
        assert code_of(reseal(bytes(fitting)), signers) == "P0005"
    for count in (0, 3, 4, 6, 2**32 - 1):
        mutant = bytearray(signed)
        struct.pack_into("<I", mutant, 256, count)
        assert code_of(reseal(bytes(mutant)), signers) == "P0005", count
    mutant = bytearray(signed)
    struct.pack_into("<I", mutant, 264 + 4 * 24, 2)
    assert code_of(reseal(bytes(mutant)), signers) == "P0005"


def test_signature_of_another_package_is_refused(signed: bytes) -> None:
    other = writer.to_bytes(sample.odd(), sign=key().sign)
    moved = reseal(signed[:-SIGNATURE_BYTES] + other[-SIGNATURE_BYTES:])
    assert code_of(moved, [key().public]) == "P0006"
    assert code_of(moved, [key(2).public]) == "P0007"


def test_unsigned_packages_have_the_bytes_that_they_had(signed: bytes) -> None:
    unsigned = writer.to_bytes(sample.small())
    assert struct.unpack_from("<I", unsigned, 256) == (4,)
    assert parse(unsigned).sha256 == hashlib.sha256(unsigned[:12] + bytes(64) + unsigned[76:]).digest()


def test_table_that_the_file_is_too_short_for(signed: bytes) -> None:
    short = bytearray(signed[: 256 + container.TABLE_BYTES + 8])
    struct.pack_into("<Q", short, 184, len(short) - 256)
    assert code_of(reseal(bytes(short)), ()) == "P0004"


def test_file_with_required_signature_is_read_before_it_can_change(signed: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m.om"
    path.write_bytes(signed)
    for signers, expected in (([key().public], signed), ([], bytes(len(signed)))):
        opened = container.open_container(path, signers=signers)
        with path.open("r+b") as file:
            file.write(bytes(len(signed)))
        assert bytes(opened.buffer) == expected  # a mapped file shows the change
        path.write_bytes(signed)


@pytest.mark.parametrize("form", ["path", "text", "bytes", "several"])
def test_session_takes_keys_as_paths_and_as_pem(form: str, tmp_path: Path) -> None:
    compiled, _ = compile_model(model("m (float[2] x) => (float[2] y) { y = Neg(x) }"), convert_options())
    signed = writer.to_bytes(compiled, sign=key().sign)
    _, public = write_keys(tmp_path)
    forms = {"path": public, "text": str(public), "bytes": public_pem(), "several": [public_pem(2), public]}
    assert InferenceSession(signed, require_signature=forms[form]).get_inputs()[0].name == "x"
    with pytest.raises(PackageCorrupt) as caught:
        InferenceSession(signed, require_signature=public_pem(3))
    assert caught.value.code == "P0007"


def test_empty_list_of_keys_is_no_way_to_require_nothing(signed: bytes) -> None:
    with pytest.raises(UsageError, match="empty"):
        InferenceSession(signed, require_signature=[])


def error_of_key(path: Path) -> AtcError:
    with pytest.raises(AtcError) as caught:
        read_signing_key(path)
    return caught.value


def test_no_key_requires_no_signature_and_a_path_must_be_one() -> None:
    assert read_public_keys(None) == ()
    for read in (read_public_keys, read_signing_key):
        with pytest.raises(UsageError) as caught:
            read("nul\0byte")
        assert caught.value.code == "E13001"


def test_key_files_that_cannot_sign(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    private = private_key()
    from cryptography.hazmat.primitives.asymmetric import ec

    cases = [
        (b"", "no PEM file"),
        (b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "no PEM file"),
        (public_pem(), "a public key"),
        (private_pem(private, b"secret"), "encrypted"),
        (private_pem(ec.generate_private_key(ec.SECP256R1())), "not an Ed25519 key"),
    ]
    for pem, message in cases:
        path.write_bytes(pem)
        error = error_of_key(path)
        assert (error.code, error.exit_code) == ("E13005", 2) and message in error.what and error.hint
    assert error_of_key(tmp_path / "absent.pem").code == "E10410"
    assert error_of_key(tmp_path).exit_code == 2


def test_key_files_that_cannot_be_required(tmp_path: Path) -> None:
    private, public = write_keys(tmp_path)
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    kind = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    other = ec.generate_private_key(ec.SECP256R1()).public_key().public_bytes(*kind)
    for pem, message in ((private.read_bytes(), "a private key"), (b"key", "no PEM file"), (other, "not an Ed25519")):
        with pytest.raises(UsageError, match=message) as caught:
            read_public_keys([public, pem])
        assert caught.value.code == "E13005"


@pytest.mark.parametrize(("mode", "warns"), [(0o600, False), (0o400, False), (0o640, True), (0o604, True)])
def test_private_key_that_others_can_read_is_a_warning(mode: int, warns: bool, tmp_path: Path) -> None:
    private, _ = write_keys(tmp_path)
    private.chmod(mode)
    assert [warning.code for warning in read_signing_key(private).warnings] == ["W0060"] * warns


def test_without_cryptography_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives", None)
    with pytest.raises(Unsupported, match="cryptography") as caught:
        read_public_keys(b"-----BEGIN PUBLIC KEY-----")
    assert caught.value.code == "E10055" and "atcpy[sign]" in caught.value.hint
