"""Builds the sdist of the commit that is checked out, and from it the wheels of atcpy and of its runtime.

    python packaging/wheels.py FOLDER [-Csetup-args=-Doptimization=0 …]

Every build of a commit gives the same bytes: dates are that of the commit, file modes do not follow the umask, and the
compiler's flags come from meson.build alone. `reproducible.py` proves it. What is not committed is left out.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_FLAGS = ("CFLAGS", "CPPFLAGS", "LDFLAGS")
# `git archive` takes modes and line ends from the configuration of whoever calls it.
_GIT_CONFIG = (("tar.umask", "0022"), ("core.autocrlf", "false"))


def build_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which builds of this commit give the same bytes."""
    fixed = {name: value for name, value in environment.items() if name not in _FLAGS}
    first = int(fixed.get("GIT_CONFIG_COUNT", "0"))
    for number, (key, value) in enumerate(_GIT_CONFIG, first):
        fixed |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    fixed["GIT_CONFIG_COUNT"] = str(first + len(_GIT_CONFIG))
    fixed["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{fixed['PATH']}"  # meson and ninja
    fixed["SOURCE_DATE_EPOCH"] = subprocess.check_output(
        ["git", "show", "--no-show-signature", "--no-patch", "--format=%ct", "HEAD"], cwd=ROOT, text=True
    ).strip()
    return fixed


def build(folder: Path, options: Sequence[str]) -> None:
    """Build the sdist and the wheels into a folder. `options` are those of `pip wheel`."""
    os.umask(0o022)  # of files that are unpacked, whose modes the wheel has
    environment = build_environment(os.environ)
    folder.mkdir(parents=True, exist_ok=True)

    def run(*arguments: str) -> None:
        subprocess.run([sys.executable, *arguments], cwd=ROOT, env=environment, check=True)

    run("-c", "import sys, mesonpy; mesonpy.build_sdist(sys.argv[1])", str(folder))
    [sdist] = folder.glob("atcpy-*.tar.gz")
    wheel = ("-m", "pip", "wheel", "--quiet", "--no-index", "--no-deps", "--no-build-isolation")
    run(*wheel, *options, "--wheel-dir", str(folder), str(sdist))
    run(str(ROOT / "packaging" / "runtime_wheel.py"), "make", str(folder))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    build(Path(sys.argv[1]).resolve(), sys.argv[2:])
