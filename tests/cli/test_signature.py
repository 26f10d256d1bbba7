"""Signed packages on the command line: convert signs, every command that opens a package can require it."""

import json
import struct
from pathlib import Path

import numpy as np
import pytest

import atcpy
from atcpy.om.container import reseal
from tests.om.signing_keys import private_key, public_pem, write_keys

from .conftest import Invoke


@pytest.fixture
def signed(invoke: Invoke, shelf: Path, tmp_path: Path) -> Path:
    private, _ = write_keys(tmp_path)
    target = tmp_path / "signed.om"
    assert invoke("convert", "-m", shelf / "linear.onnx", "-o", target, "--sign", private).code == 0
    return target


def test_convert_names_the_signer_and_records_no_path(invoke: Invoke, shelf: Path, tmp_path: Path) -> None:
    private, _ = write_keys(tmp_path)
    target = tmp_path / "m.om"
    ran = invoke("convert", "-m", shelf / "linear.onnx", "-o", target, "--sign", private, "--json")
    fingerprint = ran.envelope["result"]["signed_by"]
    assert len(fingerprint) == 64 and ran.envelope["warnings"] == []
    assert (
        f"  signed by  {fingerprint}\n"
        in invoke("convert", "-m", shelf / "linear.onnx", "-o", target, "--sign", private).out
    )
    assert str(private).encode() not in target.read_bytes()
    first = target.read_bytes()
    atcpy.convert(shelf / "linear.onnx", target, sign=private)
    assert target.read_bytes() == first
    plain = tmp_path / "plain.om"
    assert invoke("convert", "-m", shelf / "linear.onnx", "-o", plain, "--json").envelope["result"]["signed_by"] is None
    assert plain.read_bytes() == (shelf / "linear.om").read_bytes()


@pytest.mark.parametrize("command", ["run", "verify", "bench", "inspect"])
def test_each_command_asks_before_it_looks_inside(
    command: str, invoke: Invoke, signed: Path, shelf: Path, tmp_path: Path
) -> None:
    more = {
        "run": ["--fill", "ones"],
        "verify": ["--against", shelf / "linear.onnx"],
        "bench": ["--min-time", "0.01", "--warmup", "1", "--layers"],
        "inspect": [],
    }[command]
    own, other = tmp_path / "pub1.pem", write_keys(tmp_path, 2)[1]
    assert invoke(command, signed, *more, "--require-signature", own).code == 0
    assert invoke(command, signed, *more, "--require-signature", other, "--require_signature", own).code == 0
    refused = invoke(command, signed, *more, "--require-signature", other, "--json")
    assert refused.code == 7 and refused.envelope["errors"][0]["code"] == "P0007"
    unsigned = invoke(command, shelf / "linear.om", *more, "--require-signature", own, "--json")
    assert unsigned.code == 7 and unsigned.envelope["errors"][0]["code"] == "P0008"
    # What is behind the checksum is not even parsed: the graph is no graph.
    broken = bytearray(signed.read_bytes())
    (offset,) = struct.unpack_from("<Q", broken, 264 + 24 + 8)
    broken[384 + offset] = 0xFF
    signed.write_bytes(reseal(bytes(broken)))
    assert invoke(command, signed, *more, "--require-signature", own, "--json").envelope["errors"][0]["code"] == "P0006"


def test_other_side_of_a_benchmark_is_asked_too(invoke: Invoke, signed: Path, shelf: Path, tmp_path: Path) -> None:
    ran = invoke(
        "bench", signed, "--vs", shelf / "linear.om", "--min-time", "0.01", "--require-signature", tmp_path / "pub1.pem"
    )
    assert ran.code == 7 and "P0008" in ran.err


def test_a_package_that_a_benchmark_converts_needs_no_signature(
    invoke: Invoke, signed: Path, shelf: Path, tmp_path: Path
) -> None:
    arguments = ("bench", signed, "--streams", "--vs-model", shelf / "linear.onnx", "--min-time", "0.01")
    ran = invoke(*arguments, "--require-signature", tmp_path / "pub1.pem")
    assert ran.code == 0, ran.err
    assert (
        "P0008"
        in invoke("bench", shelf / "linear.om", *arguments[2:], "--require-signature", tmp_path / "pub1.pem").err
    )


@pytest.mark.parametrize("ranks", ["--simulate-ranks", "--ranks"])
def test_ranks_ask_for_the_signature(ranks: str, invoke: Invoke, signed: Path, tmp_path: Path) -> None:
    _, other = write_keys(tmp_path, 2)
    assert invoke("run", signed, "--fill", "ones", ranks, "2", "--require-signature", tmp_path / "pub1.pem").code == 0
    ran = invoke("run", signed, "--fill", "ones", ranks, "2", "--require-signature", other)
    assert ran.code == 7 and "P0007" in ran.err


def test_inspect_says_who_signed_and_whether_that_was_checked(
    invoke: Invoke, signed: Path, shelf: Path, tmp_path: Path
) -> None:
    own = tmp_path / "pub1.pem"
    plain = invoke("inspect", signed)
    assert "(not checked: --require_signature PUB)" in plain.out
    checked = invoke("inspect", signed, "--require-signature", own)
    assert "(required, and checked)" in checked.out
    for ran, was_checked in (
        (invoke("inspect", signed, "--json"), False),
        (invoke("inspect", signed, "--json", "--require-signature", own), True),
    ):
        result = ran.envelope["result"]
        assert result["signature_checked"] is was_checked and result["signed_by"] in plain.out
    unsigned = invoke("inspect", shelf / "linear.om", "--json").envelope["result"]
    assert unsigned["signed_by"] is None and "signed by" not in invoke("inspect", shelf / "linear.om").out
    assert invoke("inspect", shelf / "linear.onnx", "--require-signature", own).code == 2


def test_keys_that_cannot_be_used_are_usage_errors(invoke: Invoke, signed: Path, shelf: Path, tmp_path: Path) -> None:
    private, public = tmp_path / "key1.pem", tmp_path / "pub1.pem"
    for key in (public, shelf / "linear.om", tmp_path / "absent.pem"):
        target = tmp_path / "never.om"
        ran = invoke("convert", "-m", shelf / "linear.onnx", "-o", target, "--sign", key)
        assert ran.code == 2 and str(key) in ran.err and not target.exists()
    for key in (private, shelf / "linear.om", tmp_path / "absent.pem"):
        ran = invoke("run", signed, "--fill", "ones", "--require-signature", key)
        assert ran.code == 2 and str(key) in ran.err


def test_private_key_that_others_can_read(invoke: Invoke, shelf: Path, tmp_path: Path) -> None:
    private, _ = write_keys(tmp_path)
    private.chmod(0o644)
    arguments = ["convert", "-m", shelf / "linear.onnx", "-o", tmp_path / "m.om", "--sign", private]
    ran = invoke(*arguments)
    assert ran.code == 0 and "warning[W0060]" in ran.err
    assert invoke(*arguments, "--werror").code == 2


def test_verify_option_of_convert_signs_as_well(invoke: Invoke, shelf: Path, tmp_path: Path) -> None:
    private, public = write_keys(tmp_path)
    target = tmp_path / "m.om"
    assert invoke("convert", "-m", shelf / "linear.onnx", "-o", target, "--sign", private, "--verify").code == 0
    ran = invoke("run", target, "--fill", "ones", "--require-signature", public, "--json")
    assert ran.code == 0 and np.isfinite(json.loads(ran.out)["result"]["outputs"][0]["mean"])


def test_session_in_python_takes_the_same_key(signed: Path) -> None:
    assert private_key() is not None
    assert atcpy.InferenceSession(signed, require_signature=public_pem()).get_inputs()[0].name == "x"
