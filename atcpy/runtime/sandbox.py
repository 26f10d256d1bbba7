"""`enter_sandbox`: from then on the process computes, and reaches nothing. Linux on x86-64; ADR 0016 says why so.

Two walls of the kernel. A seccomp filter lets through the system calls of the table below and fails every other one
with EPERM; it holds for all threads. Landlock, where it is, denies files and connections once more.
"""

from __future__ import annotations

import ctypes
import errno
import importlib
import os
import pkgutil
import platform
import struct
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress

from atcpy.errors import InternalError, Unsupported
from atcpy.runtime.system_call import system_call

# ---- what may be called, by the numbers of x86-64

_MEMORY = {"brk": 12, "munmap": 11, "mremap": 25, "madvise": 28, "msync": 26, "mincore": 27}
_THREADS = {
    "futex": 202, "set_robust_list": 273, "rseq": 334, "sched_yield": 24, "sched_getaffinity": 204, "getcpu": 309,
    "restart_syscall": 219, "exit": 60, "exit_group": 231, "gettid": 186, "getpid": 39, "getppid": 110,
}  # fmt: skip
_CLOCKS = {
    "clock_gettime": 228, "clock_getres": 229, "clock_nanosleep": 230, "nanosleep": 35, "gettimeofday": 96, "time": 201,
    "setitimer": 38, "getitimer": 36, "alarm": 37, "getrusage": 98, "times": 100, "sysinfo": 99,
}  # fmt: skip
_SIGNALS = {"rt_sigaction": 13, "rt_sigprocmask": 14, "rt_sigreturn": 15, "sigaltstack": 131, "rt_sigpending": 127}
# Of descriptors that are open: they were opened before.
_DESCRIPTORS = {
    "read": 0, "write": 1, "close": 3, "fstat": 5, "poll": 7, "lseek": 8, "pread64": 17, "pwrite64": 18, "readv": 19,
    "writev": 20, "select": 23, "dup": 32, "dup2": 33, "fsync": 74, "fdatasync": 75, "ftruncate": 77, "pselect6": 270,
    "ppoll": 271, "dup3": 292,
}  # fmt: skip
_ENTROPY = {"getrandom": 318}
ALLOWED = _MEMORY | _THREADS | _CLOCKS | _SIGNALS | _DESCRIPTORS | _ENTROPY

_MMAP, _MPROTECT, _IOCTL, _FCNTL, _CLONE, _CLONE3, _TGKILL, _PRCTL, _PRLIMIT64 = 9, 10, 16, 72, 56, 435, 234, 157, 302
_PROT_EXEC = 4
_CLONE_THREAD = 0x10000
_CLONE_NAMESPACES = 0x7E020080
_TERMINAL_QUERIES = (0x5401, 0x5413)  # TCGETS, TIOCGWINSZ: `isatty` and the width
_DESCRIPTOR_FLAGS = (1, 2, 3)  # F_GETFD, F_SETFD, F_GETFL; F_SETOWN would send signals to others
_PR_SET_NAME = 15

_SECCOMP, _SET_MODE_FILTER, _GET_ACTION_AVAIL, _TSYNC = 317, 1, 2, 1
_PR_SET_NO_NEW_PRIVS = 38
_LANDLOCK_CREATE, _LANDLOCK_RESTRICT, _LANDLOCK_VERSION, _LANDLOCK_TSYNC = 444, 446, 1, 8

_ARCH_X86_64 = 0xC000003E
_X32_BIT = 0x40000000
_KILL, _ALLOW, _ERRNO = 0x80000000, 0x7FFF0000, 0x00050000

# ---- the filter: classic BPF over `struct seccomp_data` (number, architecture, address, six arguments)

_Code = list[tuple[int, int, int, int]]  # operation, jump if true, jump if false, operand
_LOAD, _JUMP_EQUAL, _JUMP_NOT_LESS, _JUMP_ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16


def _give(verdict: int) -> _Code:
    return [(_RETURN, 0, 0, verdict)]


_DENY = _give(_ERRNO | errno.EPERM)


def _on_call(number: int, then: _Code) -> _Code:
    """`then`, which returns, for a system call; else go on."""
    return [(_JUMP_EQUAL, 0, len(then), number), *then]


def _if_equal(argument: int, value: int, then: _Code) -> _Code:
    """`then` if all 64 bits of an argument are those of `value`; else go on."""
    low, high = _ARGUMENTS + 8 * argument, _ARGUMENTS + 8 * argument + 4
    return [
        (_LOAD, 0, 0, high),
        (_JUMP_EQUAL, 0, len(then) + 2, value >> 32),
        (_LOAD, 0, 0, low),
        (_JUMP_EQUAL, 0, len(then), value & 0xFFFFFFFF),
        *then,
    ]


def _if_any_bit(argument: int, mask: int, then: _Code) -> _Code:
    """`then` if an argument has one of the bits of `mask`, which are of its lower half; else go on."""
    return [(_LOAD, 0, 0, _ARGUMENTS + 8 * argument), (_JUMP_ANY_BIT, 0, len(then), mask), *then]


def _if_one_of(argument: int, values: Iterable[int]) -> _Code:
    code = [step for value in values for step in _if_equal(argument, value, _give(_ALLOW))]
    return [*code, *_DENY]


def filter_code(pid: int) -> _Code:
    """The filter for the process `pid`. A call by another architecture's table, whose numbers differ, ends it."""
    code: _Code = [(_LOAD, 0, 0, _ARCH), (_JUMP_EQUAL, 1, 0, _ARCH_X86_64), *_give(_KILL)]
    code += [(_LOAD, 0, 0, _NUMBER), (_JUMP_NOT_LESS, 0, 1, _X32_BIT), *_give(_KILL)]
    for number in ALLOWED.values():
        code += _on_call(number, _give(_ALLOW))
    for number in (_MMAP, _MPROTECT):  # no memory becomes code
        code += _on_call(number, [*_if_any_bit(2, _PROT_EXEC, _DENY), *_give(_ALLOW)])
    threads = [*_if_any_bit(0, _CLONE_NAMESPACES, _DENY), *_if_any_bit(0, _CLONE_THREAD, _give(_ALLOW)), *_DENY]
    code += _on_call(_CLONE, threads)
    # Its flags lie in memory, which a filter does not see: without it, the C library takes `clone`.
    code += _on_call(_CLONE3, _give(_ERRNO | errno.ENOSYS))
    code += _on_call(_IOCTL, _if_one_of(1, _TERMINAL_QUERIES))
    code += _on_call(_FCNTL, _if_one_of(1, _DESCRIPTOR_FLAGS))
    code += _on_call(_TGKILL, _if_one_of(0, (pid,)))  # `abort`, and signals between its threads
    code += _on_call(_PRCTL, _if_one_of(0, (_PR_SET_NAME,)))
    code += _on_call(_PRLIMIT64, [*_if_equal(2, 0, _if_one_of(0, (0, pid))), *_DENY])  # read its own limits
    return [*code, *_DENY]


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_char_p)]


# ---- both walls


def require_sandbox() -> None:
    """Raises Unsupported (E10055) where there is no sandbox; changes nothing."""
    if missing := _missing():
        what = f"the sandbox needs seccomp filters of Linux on x86-64: {missing}"
        raise Unsupported("E10055", what, hint="run it without, in a container or a virtual machine")


def _missing() -> str:
    if not sys.platform.startswith("linux"):
        return f"this is {sys.platform}"
    if platform.machine() != "x86_64" or struct.calcsize("P") != 8:
        return f"this is {platform.machine()}, {8 * struct.calcsize('P')} bits"
    action = ctypes.c_uint32(_KILL)
    result = system_call(_SECCOMP, _GET_ACTION_AVAIL, 0, ctypes.byref(action))
    return "" if result == 0 else f"the system says {os.strerror(-result).lower()}"


_landlock: int | None = None  # its version, once the process is in the sandbox


def enter_sandbox() -> int:
    """Give up, for this process and for good, to open files or connections, start programs or processes, trace others
    or send them signals, and to make memory executable. What fails so raises PermissionError. What is open stays
    open: descriptors can be read and written, threads started. Load sessions and read inputs before.

    Returns the version of Landlock that stands behind the filter, 0 where the system has none. Landlock's versions
    before 8 hold for the calling thread and those that it starts; the filter holds for all.

    There is no way back. A second call does nothing. Raises Unsupported (E10055) where the system has no filters.
    """
    global _landlock
    if _landlock is not None:
        return _landlock
    require_sandbox()
    import_all()
    if result := system_call(_PRCTL, _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise InternalError(f"no_new_privs: {os.strerror(-result)}")
    version = _restrict_by_landlock()
    code = filter_code(os.getpid())
    packed = b"".join(struct.pack("=HBBI", *step) for step in code)
    program = _Program(len(code), packed)
    result = system_call(_SECCOMP, _SET_MODE_FILTER, _TSYNC, ctypes.byref(program))
    if result:
        raise InternalError(f"seccomp: {os.strerror(-result) if result < 0 else f'thread {result} has another filter'}")
    _landlock = version
    return version


def _restrict_by_landlock() -> int:
    """Deny all that Landlock knows, by a rule set that handles it and has no rule; its version, 0 without it."""
    version = system_call(_LANDLOCK_CREATE, None, 0, _LANDLOCK_VERSION)
    if version <= 0:
        return 0
    attributes = landlock_attributes(version)
    rules = system_call(_LANDLOCK_CREATE, ctypes.c_char_p(attributes), len(attributes), 0)
    if rules < 0:
        raise InternalError(f"landlock {version}: {os.strerror(-rules)}")
    result = system_call(_LANDLOCK_RESTRICT, rules, _LANDLOCK_TSYNC if version >= 8 else 0)
    os.close(rules)
    if result:
        raise InternalError(f"landlock {version}: {os.strerror(-result)}")
    return version


def landlock_attributes(version: int) -> bytes:
    """`struct landlock_ruleset_attr` with all rights that a version handles; a kernel refuses others."""
    # 13 rights of files, then refer, truncate, ioctl of devices; two of TCP; sockets of others and signals to them.
    files = (1 << (13 + (version >= 2) + (version >= 3) + (version >= 5))) - 1
    return struct.pack("=QQQ", files, 3, 3)[: 8 * (1 + (version >= 4) + (version >= 6))]


# What a run imports when it first needs it: host operators, plans of open dims, the compiler for sizes without a plan.
_PARTS = ("atcpy.ir", "atcpy.ops", "atcpy.formats", "atcpy.kernels", "atcpy.om", "atcpy.runtime")
_NOT_NEEDED = frozenset({"atcpy.runtime.distributed.mpi_world"})  # MPI starts when it is imported
_COMPILER_PARTS = ("atcpy.parsers.onnx", "atcpy.passes", "atcpy.stages", "onnx.reference")
_OTHERS = ("atcpy.options", "difflib", "json", "ml_dtypes", "traceback", "numpy.fft", "numpy.linalg", "numpy.random")


def import_all(parts: Sequence[str] = (*_PARTS, *_COMPILER_PARTS), others: Sequence[str] = _OTHERS) -> None:
    """Import what runs import lazily. What is not installed, as the compiler beside the runtime alone, is left out."""
    for name in (*others, *parts):
        with suppress(ImportError):
            module = importlib.import_module(name)
            for info in pkgutil.walk_packages(getattr(module, "__path__", ()), name + "."):
                if info.name not in _NOT_NEEDED:
                    with suppress(ImportError):
                        importlib.import_module(info.name)
