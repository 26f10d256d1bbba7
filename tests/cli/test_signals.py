"""Interrupts and closed pipes, in real processes."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import onnx
import pytest

from atcpy.cli.app import execute

from .conftest import environment, finish, spawn


def begun(package: Path) -> subprocess.Popen[str]:
    """A command that runs for an hour, and has begun to."""
    process = spawn("bench", package, "--min-time", "3600", "-v")
    assert process.stderr is not None
    assert process.stderr.readline().startswith("timing")
    return process


def test_interrupt_ends_with_130_and_one_line(package: Path) -> None:
    process = begun(package)
    process.send_signal(signal.SIGINT)
    ran = finish(process)
    assert (ran.code, ran.out, ran.err) == (130, "", "interrupted\n")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_termination_ends_with_143_and_no_words(number: signal.Signals, package: Path) -> None:
    process = begun(package)
    process.send_signal(number)
    ran = finish(process)
    assert (ran.code, ran.out, ran.err) == (143, "", "")


def ending(script: str, *arguments: object) -> tuple[int, str, str]:
    ran = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        env=environment(), text=True, capture_output=True, check=False,
    )  # fmt: skip
    return ran.returncode, ran.stdout, ran.stderr


def test_a_hangup_that_is_ignored_stays_so() -> None:
    """Which is how `nohup` starts a command."""
    script = (
        "import os, signal; signal.signal(signal.SIGHUP, signal.SIG_IGN); from atcpy.cli.signals import *;"
        "handle_signals(); os.kill(os.getpid(), signal.SIGHUP); restore_signals(); os.kill(os.getpid(), signal.SIGHUP)"
    )
    assert ending(script) == (0, "", "")


def test_an_interrupt_before_the_command_line_is_loaded_prints_nothing() -> None:
    script = (
        "import builtins, os, signal, atcpy.__main__ as program; load = builtins.__import__\n"
        "def interrupt(name, *rest):\n"
        "    if name == 'atcpy.cli.app': os.kill(os.getpid(), signal.SIGINT)\n"
        "    return load(name, *rest)\n"
        "builtins.__import__ = interrupt; program.main()"
    )
    assert ending(script) == (-signal.SIGINT, "", "")


def test_an_interrupt_during_the_import_of_the_writer_ends_at_once() -> None:
    script = (
        "import os, signal; from atcpy.cli.signals import handle_signals; handle_signals()\n"
        "import atcpy.om, dataclasses; own = dataclasses.dataclass\n"
        "def interrupt(*rest, **options):\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    return own(*rest, **options)\n"
        "dataclasses.dataclass = interrupt; import atcpy.om.atomic; print('imported')"
    )
    assert ending(script) == (130, "", "interrupted\n")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_when_all_is_done_prints_nothing(number: signal.Signals) -> None:
    script = (
        "import os, sys; from atcpy.cli.app import main; code = main(['--version']); sys.stdout.flush();"
        "os.kill(os.getpid(), int(sys.argv[1])); print(code)"
    )
    code, out, err = ending(script, int(number))
    assert (code, out.startswith("atcpy "), err) == (-number, True, "")


@pytest.mark.parametrize(
    "arguments",
    [
        ("passes", "list"),
        pytest.param(("passes", "list", "--json"), marks=pytest.mark.slow),
        pytest.param(("--help",), marks=pytest.mark.slow),
    ],
)
def test_a_closed_pipe_is_quiet(arguments: tuple[str, ...]) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        ran = finish(spawn(*arguments, stdout=write_end))
    finally:
        os.close(write_end)
    assert ran.code in (0, 141)
    assert ran.err == ""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_behind_stdout_is_a_limit() -> None:
    with open("/dev/full", "w") as full:
        ran = finish(spawn("passes", "list", stdout=full))
    assert ran.code == 6
    assert ran.err.startswith("error[R0002] ")
    assert "Traceback" not in ran.err


def test_an_interrupt_during_an_import_ends_at_once() -> None:
    script = (
        "import os, signal, sys, types; from atcpy.cli.signals import handle_signals; handle_signals();"
        "open('slow.py', 'w').write('import os, signal; os.kill(os.getpid(), signal.SIGINT); print(1 + 1)');"
        "sys.path.insert(0, '.'); import slow"
    )
    with tempfile.TemporaryDirectory() as folder:
        ran = subprocess.run(
            [sys.executable, "-c", script], cwd=folder, env=environment(), text=True, capture_output=True
        )
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", "interrupted\n")


@pytest.fixture(scope="module")
def slow_package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One task that takes minutes on scalars: a window of 99 × 99 over four million pixels."""
    folder = tmp_path_factory.mktemp("slow")
    text = """<ir_version: 10, opset_import: ["" : 21]> slow (float[1,1,2000,2000] x) => (float[1,1,2000,2000] y) {
      y = MaxPool<kernel_shape=[99,99], pads=[49,49,49,49]>(x) }"""
    onnx.save(onnx.parser.parse_model(text), folder / "slow.onnx")
    assert execute(["convert", "--model", str(folder / "slow.onnx"), "-o", str(folder / "slow"), "-q"]) == 0
    return folder / "slow.om"


def cpu_seconds(process: subprocess.Popen[str]) -> float:
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) / os.sysconf("SC_CLK_TCK")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code", "printed"),
    [(signal.SIGINT, 130, "interrupted\n"), pytest.param(signal.SIGTERM, 143, "", marks=pytest.mark.slow)],
)
def test_a_kernel_that_runs_for_minutes_is_interrupted(
    number: signal.Signals, code: int, printed: str, slow_package: Path
) -> None:
    process = spawn(
        "run", slow_package, "--fill", "ones", "--threads", "1", env={**environment(), "ATCPY_ISA": "scalar"}
    )
    while cpu_seconds(process) < 1.5 and process.poll() is None:  # far more than loading takes
        threading.Event().wait(0.05)
    process.send_signal(number)
    assert process.wait(timeout=10) == code
    ran = finish(process)
    assert (ran.out, ran.err) == ("", printed)


@pytest.mark.slow
def test_the_time_limit_ends_a_kernel_that_runs_for_minutes(slow_package: Path) -> None:
    scalar = {**environment(), "ATCPY_ISA": "scalar"}
    ran = finish(spawn("run", slow_package, "--fill", "ones", "--threads", "1", "--timeout", "3", env=scalar))
    assert ran.code == 6
    assert ran.err.startswith("error[R0003] ")


@pytest.mark.slow
def test_an_interrupt_of_convert_leaves_nothing(tmp_path: Path) -> None:
    """At several moments of its work; the package of before stays."""
    ops = " ".join(f"v{i + 1} = {'Relu' if i % 2 else 'Neg'}(v{i})" for i in range(20_000))
    text = f'<ir_version: 10, opset_import: ["" : 21]> g (float[4] v0) => (float[4] v20000) {{ {ops} }}'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    (tmp_path / "m.om").write_bytes(b"old")
    for seconds in (0.7, 1.5, 2.5):
        process = spawn("convert", "--model", tmp_path / "m.onnx", "-o", tmp_path / "m.om", "-q")
        while cpu_seconds(process) < seconds and process.poll() is None:
            threading.Event().wait(0.02)
        process.send_signal(signal.SIGINT)
        ran = finish(process)
        assert ran.code in (130, 0), ran.err
        assert sorted(path.name for path in tmp_path.iterdir()) == ["m.om", "m.onnx"]
        assert (tmp_path / "m.om").read_bytes() == b"old" or ran.code == 0
        (tmp_path / "m.om").write_bytes(b"old")
