"""`--custom-ops` on the command line."""

from __future__ import annotations

import re
from pathlib import Path

import onnx
import pytest

from tests.ops.custom.models import DOUBLE, ONE_NODE, double, model, module
from tests.sandboxes import need_sandbox

from .conftest import Invoke, finish, spawn

pytestmark = pytest.mark.usefixtures("no_custom_ops")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    onnx.save(model(ONE_NODE), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


@pytest.fixture
def ops(tmp_path: Path) -> Path:
    return module(tmp_path)


@pytest.fixture
def package(source: Path, ops: Path, invoke: Invoke) -> Path:
    ran = invoke("convert", "--model", source, "--custom-ops", ops, "-o", source.with_suffix(".om"))
    assert ran.code == 0, ran.err
    assert "HOST_CPU 1" in ran.out
    assert "needs      custom::Double" in ran.out
    assert "W0020" in ran.err
    return source.with_suffix(".om")


COMMANDS = {
    "run": ["--fill", "ones"],
    "verify": [],
    "bench": ["--min-time", "0.01", "--warmup", "1"],
    "inspect": ["--tasks"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_takes_the_module(package: Path, ops: Path, invoke: Invoke, command: str) -> None:
    ran = invoke(command, package, *COMMANDS[command], "--custom_ops", ops)
    assert ran.code == 0, ran.err


def test_a_sandbox_runs_no_custom_operators(package: Path, invoke: Invoke) -> None:
    need_sandbox()
    ran = invoke("run", package, "--fill", "ones", "--sandbox")
    assert ran.code == 4 and "error[C0003]" in ran.err and "without --sandbox" in ran.err


@pytest.mark.parametrize("command", COMMANDS)
def test_without_it_the_operator_is_named(package: Path, invoke: Invoke, command: str) -> None:
    from atcpy.ops.custom import forget_all

    forget_all()
    ran = invoke(command, package, *COMMANDS[command], "--json")
    assert ran.code == 4
    [error] = ran.envelope["errors"]
    assert error["code"] == "C0003"
    assert "custom::Double" in error["message"]
    assert "--custom-ops" in error["hint"]
    # What can be seen without the operator is shown.
    assert (ran.envelope["result"] is not None) == (command == "inspect")


def test_it_is_repeatable_and_takes_commas(source: Path, tmp_path: Path, invoke: Invoke) -> None:
    files = [module(tmp_path, DOUBLE.replace("Double", name), f"{name}.py") for name in ("Double", "Other", "Third")]
    target = tmp_path / "m.om"
    ran = invoke(
        "convert", "--model", source, "-o", target, "--custom-ops", f"{files[1]},{files[2]}", "--custom-ops", files[0]
    )
    assert ran.code == 0, ran.err
    line = invoke("inspect", target, "--custom-ops", files[0]).out
    assert re.search(r"--custom_ops=sha256:\w{64},sha256:\w{64},sha256:\w{64}$", line, re.M)


def test_check_names_what_is_not_registered(source: Path, ops: Path, invoke: Invoke) -> None:
    ran = invoke("check", source)
    assert ran.code == 4
    assert "--custom-ops" in ran.out
    ran = invoke("check", source, "--custom-ops", ops, "--list-ops")
    assert ran.code == 0
    assert "HOST_CPU" in ran.out


def test_convert_and_verify_compare_with_forward(source: Path, ops: Path, invoke: Invoke) -> None:
    ran = invoke("convert", "--model", source, "-o", source.with_suffix(".om"), "--custom-ops", ops, "--verify")
    assert ran.code == 0, ran.err
    assert "Double.forward" in ran.out


def test_what_user_code_prints_is_not_the_result(source: Path, tmp_path: Path, invoke: Invoke) -> None:
    ops = module(tmp_path, "print('loaded')\n" + double(forward="print('running'); return x"))
    package = source.with_suffix(".om")
    ran = invoke("convert", "--model", source, "--custom-ops", ops, "-o", package, "--json")
    assert ran.envelope["ok"]
    assert ran.err == "loaded\n"
    ran = invoke("run", package, "--fill", "ones", "--custom-ops", ops, "--json")
    assert ran.envelope["ok"]
    assert ran.err == "running\n"


def test_passes_lists_its_passes(tmp_path: Path, invoke: Invoke) -> None:
    ops = module(tmp_path, DOUBLE + '    pattern = op("Add", var("x"), var("x"))\n')
    assert "DoubleFusionPass" in invoke("passes", "--custom-ops", ops).out
    assert "DoubleFusionPass" not in invoke("passes").out


@pytest.mark.slow
@pytest.mark.parametrize(("body", "code"), [("raise SystemExit(0)", 4), ("import os; os.abort()", -6)])
def test_an_operator_never_ends_the_process_without_a_word(
    source: Path, tmp_path: Path, invoke: Invoke, body: str, code: int
) -> None:
    ops = module(tmp_path, double(forward=body))
    package = source.with_suffix(".om")
    assert invoke("convert", "--model", source, "--custom-ops", ops, "-o", package).code == 0
    ran = finish(spawn("run", package, "--fill", "ones", "--custom-ops", ops))
    assert ran.code == code
    assert "my_ops.py" in ran.err  # the line that did it
    assert ("Traceback" in ran.err) is False


def test_a_traceback_is_shown_with_debug_alone(source: Path, tmp_path: Path, invoke: Invoke) -> None:
    ops = module(tmp_path, double(infer="return x.nothing"))
    for flag in ([], ["--debug"]):
        ran = invoke("convert", "--model", source, "--custom-ops", ops, "-o", tmp_path / "m.om", *flag)
        assert ran.code == 4
        assert "C0001" in ran.err
        assert ("Traceback" in ran.err) is bool(flag)
