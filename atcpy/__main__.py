"""`python -m atcpy`, and the entry point of the `atcpy` command."""

import sys


def main() -> int:
    """Run the command line; the exit code."""
    try:
        from atcpy.cli.app import main as run  # an interrupt during these imports is an interrupt like any other

        return run(sys.argv[1:])
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return 130


if __name__ == "__main__":
    sys.exit(main())
