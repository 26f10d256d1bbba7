"""`python -m atcpy`, and the entry point of the `atcpy` command."""

import os
import sys

try:
    import signal
except KeyboardInterrupt:  # nothing handles it yet
    os._exit(130)

# What an interpreter with numpy, protobuf and the compiler takes, of address space and of memory for data.
_ADDRESS_MB, _DATA_MB = 288, 96


def main() -> int:
    """Run the command line; the exit code."""
    # Until its own handlers are there, an interrupt ends the process: where Python raises it in an import, nothing
    # catches it.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    if (needed := _missing_memory()) is not None:
        sys.stderr.write(
            "error[R0001] there is no memory for the libraries that atcpy needs\n"
            f"  help: ulimit allows less than the {needed} MB that they take\n"
        )
        return 6
    # No command waits for a product of numpy's, whose threads take memory, and spin for a while when they begin.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from atcpy.cli.app import main as run

    return run(sys.argv[1:])


def atc() -> int:
    """Run ATC's command line: `atc …` is `atcpy atc …`."""
    sys.argv.insert(1, "atc")
    return main()


def _missing_memory() -> int | None:
    """The megabytes that libraries take, if limits of the process leave less. The BLAS of numpy ends a process with 1,
    or interrupts it, where it finds no memory for itself and its threads, so that nobody could say what happened.
    """
    try:
        import resource
    except ImportError:  # not a POSIX system
        return None
    limits = ((resource.RLIMIT_AS, _ADDRESS_MB), (resource.RLIMIT_DATA, _DATA_MB))
    needed = [size for limit, size in limits if resource.getrlimit(limit)[0] != resource.RLIM_INFINITY]
    if not needed:
        return None
    import mmap

    try:
        mmap.mmap(-1, max(needed) << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
    except OSError:
        return max(needed)
    return None


if __name__ == "__main__":
    sys.exit(main())
