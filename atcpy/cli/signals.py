"""Interrupts: every moment of a run ends within a second, with the right code and nothing left behind."""

import os
import signal
import sys
import threading
from types import FrameType
from typing import NoReturn

from atcpy.errors import INTERRUPTED, TERMINATED, Terminated

GRACE_SECONDS = 0.6
OUT_OF_TIME = 6
_announced = threading.Event()
time_is_over = threading.Event()  # set by the handler of --timeout: the error is on its way


def handle_signals() -> None:
    """Install the handlers; only the main thread of a process of its own may do so."""
    signal.signal(signal.SIGTERM, _terminate)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # nohup
        signal.signal(signal.SIGHUP, _terminate)
    signal.signal(signal.SIGINT, _interrupt)
    # Python's handlers wait for the C call that runs to return; this thread does not.
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    threading.Thread(target=_insist, args=(read_end,), daemon=True).start()


def restore_signals() -> None:
    """Let signals end the process at once: its work is done, and nothing catches what a handler raises."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


def _terminate(_number: int, frame: FrameType | None) -> None:
    if _is_importing(frame):
        _leave(TERMINATED)
    raise Terminated


def _interrupt(_number: int, frame: FrameType | None) -> None:
    if _is_importing(frame):
        announce_interrupt()
        _leave(INTERRUPTED)
    raise KeyboardInterrupt


def _leave(code: int) -> NoReturn:
    """End without unwinding; a package that was being written leaves no temporary file."""
    # The writer may be what is being imported: then it has no file yet.
    if (abandon := getattr(sys.modules.get("atcpy.om.atomic"), "abandon", None)) is not None:
        abandon()
    os._exit(code)


def _is_importing(frame: FrameType | None) -> bool:
    """Is a module being imported?  Then nothing is being written, and an exception would not come through: numpy's C
    code prints a traceback of its own and makes an ImportError of it.
    """
    while frame is not None:
        if frame.f_globals.get("__name__") == "importlib._bootstrap":
            return True
        frame = frame.f_back
    return False


def _insist(read_end: int) -> None:
    codes = {
        signal.SIGINT: INTERRUPTED,
        signal.SIGTERM: TERMINATED,
        signal.SIGHUP: TERMINATED,
        signal.SIGALRM: OUT_OF_TIME,
    }
    while number := os.read(read_end, 1):
        if (code := codes.get(signal.Signals(number[0]))) is not None:
            threading.Event().wait(GRACE_SECONDS)
            if code == OUT_OF_TIME:
                if time_is_over.is_set():
                    continue
                sys.stderr.write("error[R0003] the time limit is reached in a kernel\n  help: raise --timeout\n")
                sys.stderr.flush()
            if code == INTERRUPTED:
                announce_interrupt()
            _leave(code)


def announce_interrupt() -> None:
    """One line, once."""
    if not _announced.is_set():
        _announced.set()
        sys.stderr.write("interrupted\n")
        sys.stderr.flush()
