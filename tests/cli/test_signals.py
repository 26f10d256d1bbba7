"""Interrupts and closed pipes, in real processes."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

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


def test_termination_ends_with_143_and_no_words(package: Path) -> None:
    process = begun(package)
    process.send_signal(signal.SIGTERM)
    ran = finish(process)
    assert (ran.code, ran.out, ran.err) == (143, "", "")


@pytest.mark.parametrize("arguments", [("passes", "list"), ("passes", "list", "--json"), ("--help",)])
def test_a_closed_pipe_is_quiet(arguments: tuple[str, ...]) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        ran = finish(spawn(*arguments, stdout=write_end))
    finally:
        os.close(write_end)
    assert ran.code in (0, 141)
    assert ran.err == ""


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
