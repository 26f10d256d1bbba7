"""The sandbox: what its filter lets through, by an interpreter of our own and by the kernel, and what it refuses."""

from __future__ import annotations

import errno
import json
import os
import platform
import re
import struct
import subprocess
import sys
from typing import Any

import pytest

from atcpy.errors import Unsupported
from atcpy.runtime import sandbox
from tests.sandboxes import need_sandbox
from tests.sources import REPO

PID = 4711
X86_64, I386 = 0xC000003E, 0x40000003
ALLOW, KILL = 0x7FFF0000, 0x80000000
EPERM, ENOSYS = 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS


def verdict(number: int, *arguments: int, arch: int = X86_64) -> int:
    """What the filter says of a system call: an interpreter of the four kinds of instructions that it has."""
    words = [*arguments, *[0] * (6 - len(arguments))]
    memory = number.to_bytes(4, "little") + arch.to_bytes(4, "little") + bytes(8)
    memory += b"".join(word.to_bytes(8, "little") for word in words)
    code = sandbox.filter_code(PID)
    accumulator = at = 0
    while True:
        operation, if_true, if_false, operand = code[at]
        at += 1
        if operation == 0x06:
            return operand
        if operation == 0x20:
            accumulator = int.from_bytes(memory[operand : operand + 4], "little")
            continue
        holds = {
            0x15: accumulator == operand,
            0x35: accumulator >= operand,
            0x45: bool(accumulator & operand),
        }[operation]
        at += if_true if holds else if_false


# The kernel's numbers, written down here once more.
DENIED = {
    "open": 2, "creat": 85, "openat": 257, "openat2": 437, "open_by_handle_at": 304, "stat": 4, "newfstatat": 262,
    "statx": 332, "access": 21, "readlink": 89, "getdents64": 217, "rename": 82, "renameat2": 316, "unlink": 87,
    "unlinkat": 263, "mkdir": 83, "link": 86, "symlink": 88, "chmod": 90, "chown": 92, "truncate": 76, "chdir": 80,
    "socket": 41, "connect": 42, "accept": 43, "sendto": 44, "sendmsg": 46, "recvmsg": 47, "bind": 49, "listen": 50,
    "socketpair": 53, "fork": 57, "vfork": 58, "execve": 59, "execveat": 322, "ptrace": 101, "kill": 62, "tkill": 200,
    "rt_sigqueueinfo": 129, "process_vm_readv": 310, "process_vm_writev": 311, "pidfd_open": 434, "pidfd_getfd": 438,
    "pidfd_send_signal": 424, "io_uring_setup": 425, "io_uring_enter": 426, "bpf": 321, "perf_event_open": 298,
    "userfaultfd": 323, "memfd_create": 319, "pkey_mprotect": 329, "shmget": 29, "shmat": 30, "keyctl": 250,
    "mount": 165, "unshare": 272, "setns": 308, "chroot": 161, "seccomp": 317, "init_module": 175, "reboot": 169,
    "setuid": 105, "setrlimit": 160, "personality": 135, "modify_ldt": 154, "arch_prctl": 158,
}  # fmt: skip


@pytest.mark.parametrize("name", DENIED)
def test_calls_that_reach_out_are_denied(name: str) -> None:
    assert verdict(DENIED[name], 1, 2, 3, 4, 5, 6) == EPERM
    assert DENIED[name] not in sandbox.ALLOWED.values()


def test_every_other_number_is_denied() -> None:
    known = {*sandbox.ALLOWED.values(), 9, 10, 16, 56, 72, 157, 234, 302, 435}
    assert {number for number in range(600) if verdict(number, 1, 2, 4) != EPERM} <= known
    assert all(verdict(number) == ALLOW for number in sandbox.ALLOWED.values())


def test_other_tables_of_calls_end_the_process() -> None:
    """`write` is 1 on x86-64, but `exit` on i386; x32 has numbers of its own above a bit."""
    for number in (0, 1, 9, 59):
        assert verdict(number, arch=I386) == KILL
        assert verdict(number | 0x40000000) == KILL
    assert verdict(0xFFFFFFFF) == KILL


@pytest.mark.parametrize(
    ("number", "arguments", "expected"),
    [
        (9, (0, 4096, 3, 0x22), ALLOW),
        (9, (0, 4096, 5, 0x22), EPERM),  # mmap of executable memory
        (10, (0, 4096, 1), ALLOW),
        (10, (0, 4096, 4), EPERM),
        (56, (0x3D0F00,), ALLOW),  # a thread, as the C library starts it
        (56, (0x1200011,), EPERM),  # fork
        (56, (0x4111,), EPERM),  # vfork
        (56, (0x3D0F00 | 0x10000000,), EPERM),  # a namespace of its own
        (435, (0, 88), ENOSYS),
        (16, (1, 0x5401), ALLOW),
        (16, (0, 0x5412), EPERM),  # TIOCSTI writes into the terminal's input
        (16, (1, 0x5401 | 1 << 32), EPERM),
        (72, (3, 3), ALLOW),
        (72, (3, 8, 1), EPERM),  # F_SETOWN
        (234, (PID, 1, 6), ALLOW),
        (234, (1, 1, 9), EPERM),
        (234, (PID | 1 << 32, 1, 6), EPERM),
        (157, (15,), ALLOW),
        (157, (4, 1), EPERM),  # PR_SET_DUMPABLE
        (302, (0, 7, 0), ALLOW),
        (302, (0, 7, 0x7FFF0000), EPERM),
        (302, (0, 7, 1 << 32), EPERM),
        (302, (1, 7, 0), EPERM),
    ],
)
def test_arguments_decide(number: int, arguments: tuple[int, ...], expected: int) -> None:
    assert verdict(number, *arguments) == expected


@pytest.mark.parametrize(
    ("system", "machine", "answer", "message"),
    [
        ("darwin", "x86_64", 0, "this is darwin"),
        ("linux", "aarch64", 0, "this is aarch64"),
        ("linux", "x86_64", -errno.ENOSYS, "the system says function not implemented"),
        ("linux", "x86_64", -errno.EINVAL, "the system says invalid argument"),
    ],
)
def test_systems_without_filters_are_refused(
    system: str, machine: str, answer: int, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(sandbox, "system_call", lambda *_: answer)
    with pytest.raises(Unsupported, match=message) as caught:
        sandbox.enter_sandbox()
    assert (caught.value.code, caught.value.exit_code) == ("E10055", 4)


# What a process finds when it is in: each attempt, and what became of it.
CHILD = """
import ctypes, json, mmap, os, signal, socket, subprocess, sys, threading
import numpy as np
import atcpy
from tests.models_in_text import package

text = "m (float[64,512] x) => (float[64,512] y) <float[512,512] w> { p = MatMul(x, w) y = Softmax(p) }"
x = {"x": np.linspace(-1, 1, 64 * 512, dtype=np.float32).reshape(64, 512)}
session, late = (atcpy.InferenceSession(package(text), threads=2) for _ in range(2))
gather = atcpy.InferenceSession(package("m (float[4] x, int64[1] i) => (float[1] y) { y = Gather(x, i) }"), threads=1)
before = session.run(None, x)[0]
read_end, write_end = os.pipe()
folder = os.open(sys.argv[1], os.O_RDONLY)
worker_ready, worker_go, in_worker = threading.Event(), threading.Event(), []
libc = ctypes.CDLL(None, use_errno=True)
syscall = libc.syscall

def attempt(work):
    try:
        work()
    except BaseException as error:
        return type(error).__name__
    return "done"

def call(number, *words):
    if syscall(number, *words) == -1:
        raise OSError(ctypes.get_errno(), "")

def wait_and_open():  # a thread that was there before
    worker_ready.set()
    worker_go.wait()
    in_worker.append(attempt(lambda: open("/etc/passwd")))

worker = threading.Thread(target=wait_and_open)
worker.start()
worker_ready.wait()
landlock = atcpy.enter_sandbox()
worker_go.set()
worker.join()

def unseen():
    import antigravity

found = {
    "read a file": attempt(lambda: open("/etc/passwd")),
    "read a file beside an open folder": attempt(lambda: os.open("secret", os.O_RDONLY, dir_fd=folder)),
    "write a file": attempt(lambda: open(sys.argv[1] + "/new", "w")),
    "its own memory": attempt(lambda: open("/proc/self/mem", "r+b")),
    "list a folder": attempt(lambda: os.listdir("/")),
    "remove": attempt(lambda: os.unlink(sys.argv[1] + "/secret")),
    "socket": attempt(socket.socket),
    "unix socket": attempt(lambda: socket.socket(socket.AF_UNIX)),
    "fork": attempt(os.fork),
    "exec": attempt(lambda: os.execv("/bin/true", ["true"])),
    "subprocess": attempt(lambda: subprocess.run(["/bin/true"])),
    "ptrace": attempt(lambda: call(101, 16, os.getppid(), 0, 0)),
    "memory of another process": attempt(lambda: call(310, os.getppid(), 0, 0, 0, 0, 0)),
    "kill the parent": attempt(lambda: os.kill(os.getppid(), 0)),
    "executable memory": attempt(lambda: mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_EXEC)),
    "leave by a second filter": attempt(lambda: call(317, 1, 0, 0)),
    "a thread that was there": in_worker[0],
}
inside = []
thread = threading.Thread(target=lambda: inside.append(session.run(None, x)[0]))
thread.start()
thread.join()
os.write(write_end, b"open before")
result = {
    "denied": found,
    "again": atcpy.enter_sandbox() == landlock,
    "same": all(np.array_equal(before, y) for y in (session.run(None, x)[0], inside[0], late.run(None, x)[0])),
    "pipe": os.read(read_end, 11).decode(),
    "import": attempt(unseen),
    "fault": attempt(lambda: gather.run(None, {"x": np.ones(4, np.float32), "i": np.array([9])})),
}
print(json.dumps(result), flush=True)
os._exit(0)
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    need_sandbox()
    folder = tmp_path_factory.mktemp("sandbox")
    (folder / "secret").write_text("secret")
    ran = subprocess.run(
        [sys.executable, "-c", CHILD, str(folder)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(REPO)},
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert os.listdir(folder) == ["secret"]
    result: dict[str, Any] = json.loads(ran.stdout)
    return result


@pytest.mark.slow
def test_process_in_it_reaches_nothing(found: dict[str, Any]) -> None:
    assert set(found["denied"].values()) == {"PermissionError"}, found["denied"]


@pytest.mark.slow
def test_process_in_it_computes_as_before(found: dict[str, Any]) -> None:
    assert found["same"] and found["pipe"] == "open before" and found["again"]
    assert found["fault"] == "ModelInvalid"
    assert found["import"] in {"ModuleNotFoundError", "PermissionError"}  # what is not imported by then, is not


@pytest.mark.slow
def test_example_of_the_page_ends_where_it_says(tmp_path: Any) -> None:
    need_sandbox()
    [example] = re.findall(r"```python\n(.*?)```", (REPO / "docs/sandbox.md").read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "models").symlink_to(REPO / "models")
    ran = subprocess.run(
        [sys.executable, "-c", example],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(REPO)},
        check=False,
    )
    assert ran.returncode == 1 and "PermissionError" in ran.stderr.splitlines()[-1], ran.stderr
    assert f"line {len(example.splitlines())}, in <module>" in ran.stderr


# Numbers of the other tables mean other calls: the filter ends a process that makes one.
FOREIGN = """
import ctypes, sys
from atcpy.runtime import sandbox
sandbox.import_all = lambda: None  # it takes a second, and nothing is run here
sandbox.enter_sandbox()
print("in", flush=True)
ctypes.CDLL(None).syscall(ctypes.c_long(0x40000000 | 39))
print("alive", flush=True)
"""


def test_call_by_another_table_ends_the_process() -> None:
    need_sandbox()
    ran = subprocess.run(
        [sys.executable, "-c", FOREIGN],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(REPO)},
        check=False,
    )
    assert ran.stdout == "in\n" and ran.returncode == -31, ran.stderr  # SIGSYS


# The highest right of files, the rights of TCP and the scopes of each version, as <linux/landlock.h> documents them.
LANDLOCK = {
    1: (1 << 12,), 2: (1 << 13,), 3: (1 << 14,), 4: (1 << 14, 3), 5: (1 << 15, 3), 6: (1 << 15, 3, 3),
    7: (1 << 15, 3, 3), 8: (1 << 15, 3, 3),
}  # fmt: skip


@pytest.mark.parametrize("version", LANDLOCK)
def test_landlock_is_asked_for_what_its_version_knows(version: int) -> None:
    highest, *others = LANDLOCK[version]
    expected = struct.pack(f"={1 + len(others)}Q", 2 * highest - 1, *others)
    assert sandbox.landlock_attributes(version) == expected


def test_landlock_denies_alone(tmp_path: Any) -> None:
    """Without the filter: the second wall stands where the first one has a hole."""
    need_sandbox()
    script = f"""
from atcpy.runtime import sandbox
version = sandbox._restrict_by_landlock()
try:
    open({str(tmp_path / "f")!r}, "w")
    print(version, "open")
except PermissionError:
    print(version, "denied")
"""
    # Landlock needs no_new_privs of processes that are not root; the filter sets it before.
    script = script.replace("version =", "sandbox.system_call(157, 38, 1, 0, 0, 0)\nversion =", 1)
    ran = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(REPO)},
        check=False,
    )
    version, _, became = ran.stdout.strip().partition(" ")
    if version == "0":
        pytest.skip("this system has no Landlock")
    assert became == "denied", ran.stderr
