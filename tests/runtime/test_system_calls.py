"""A warm run makes no system call: memory is there, clocks are read without the kernel, nobody waits."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from tests.models_in_text import package
from tests.sources import REPO

# Counts how often a child stops at system calls between two runs of each job: {name: (package, feeds)}.
CHILD = """
import ctypes, os, pickle, signal, sys
import atcpy

ptrace = ctypes.CDLL(None).ptrace
TRACEME, SYSCALL = 0, 24

def stops(run, count):
    child = os.fork()
    if child == 0:
        allowed = ptrace(TRACEME, 0, None, None) == 0
        if allowed:
            os.kill(os.getpid(), signal.SIGSTOP)
            run(count)
        os._exit(0 if allowed else 1)
    found = 0
    _, status = os.waitpid(child, 0)
    while os.WIFSTOPPED(status):
        ptrace(SYSCALL, child, None, None)
        _, status = os.waitpid(child, 0)
        found += os.WIFSTOPPED(status)
    return found if os.WEXITSTATUS(status) == 0 else None

def added(run):
    # What happens once (Python's memory that grows) is not the run's: the least of three tries.
    tries = [(stops(run, 0), stops(run, RUNS)) for _ in range(3)]
    return None if None in tries[0] else min(many - few for few, many in tries)

def ask(count):
    for _ in range(count):
        os.getppid()

def runs_of(package, feeds):
    session = atcpy.InferenceSession(package, threads=1)
    def run(count):
        for number in range(count):
            session.run(None, feeds[number % len(feeds)])
    run(RUNS)
    return run

RUNS, jobs = pickle.load(sys.stdin.buffer)
found = {name: added(runs_of(*job)) for name, job in jobs.items()}
found["a run that makes one"] = added(ask)
pickle.dump(found, sys.stdout.buffer)
"""
RUNS = 200


def x(*shape: int) -> dict[str, Any]:
    return {"x": np.ones(shape, np.float32)}


PRODUCTS = "{ p = MatMul(x, w) q = Softmax(p) y = MatMul(q, w) }"
JOBS: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "fixed": (f"m (float[2,64] x) => (float[2,64] y) <float[64,64] w> {PRODUCTS}", [x(2, 64)]),
    "large results": ("m (float[64,2048] x) => (float[64,2048] y) { y = Softmax(x) }", [x(64, 2048)]),
    "open dims": (f"m (float[b,64] x) => (float[b,64] y) <float[64,64] w> {PRODUCTS}", [x(n, 64) for n in (1, 900, 7)]),
    "a size that data decide": ("m (float[b,n] x) => (int64[2,k] y) { y = NonZero(x) }", [x(2, 3), x(5, 30)]),
    "loop": (
        """m (float[2,3] x, int64 n) => (float[2,3] y) { yes = Constant<value = bool {1}>()
            y = Loop(n, yes, x) <body = b (int64 i, bool c, float[2,3] v) => (bool d, float[2,3] w) {
                d = Identity(c) w = Add(v, v)
            }>
        }""",
        [{**x(2, 3), "n": np.array(3)}],
    ),
}


@pytest.fixture(scope="module")
def counts() -> dict[str, int | None]:
    jobs = {name: (package(text), feeds) for name, (text, feeds) in JOBS.items()}
    done = subprocess.run(
        [sys.executable, "-c", CHILD],
        input=pickle.dumps((RUNS, jobs)),
        capture_output=True,
        env=os.environ | {"PYTHONPATH": str(REPO)},
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    found: dict[str, int | None] = pickle.loads(done.stdout)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", JOBS)
def test_a_warm_run_makes_no_system_call(name: str, counts: dict[str, int | None]) -> None:
    if counts[name] is None:
        pytest.skip("this machine does not let a process trace its child")
    assert counts["a run that makes one"] == 2 * RUNS, "a child stops before and after each call"
    assert counts[name] == 0
