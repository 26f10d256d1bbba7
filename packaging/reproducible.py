"""Proves that builds of one commit give the same bytes, whoever makes them, where and when.

    python packaging/reproducible.py build                 # builds HEAD twice, in different folders and environments
    python packaging/reproducible.py compare A.whl B.whl   # lists the members that differ

Exit code 1 where something differs. `build` takes two minutes on two cores and leaves the repository as it is.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Builder:
    """Somebody who builds: where, and with which settings. `mtime` is the date of the clone's files, if not now."""

    folder: str
    umask: int
    processors: int
    variables: Mapping[str, str] = field(default_factory=dict)
    mtime: int | None = None


BUILDERS = (
    Builder("one", 0o022, 1, {"TZ": "UTC0", "LC_ALL": "C", "PYTHONHASHSEED": "1"}),
    Builder(
        "another/with/a/longer/path",
        0o077,
        2,
        {
            "TZ": "NZST-12", "LC_ALL": "C.UTF-8", "LANG": "de_DE.UTF-8", "PYTHONHASHSEED": "2", "USER": "somebody",
            "HOSTNAME": "elsewhere", "CFLAGS": "-g -O1", "LDFLAGS": "-Wl,--build-id=none", "SOURCE_DATE_EPOCH": "86400",
            "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "tar.umask", "GIT_CONFIG_VALUE_0": "0077",
        },
        mtime=1_000_000_000,
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Member:
    """A file in an archive, and what the archive says of it."""

    digest: str
    mode: int
    date: object
    owner: str


def members(path: Path) -> dict[str, Member]:
    """Return the files of a wheel or an sdist, in their order."""
    if path.suffix == ".whl":
        with ZipFile(path) as wheel:
            return {
                info.filename: Member(_digest(wheel.read(info)), info.external_attr >> 16, info.date_time, "")
                for info in wheel.infolist()
            }
    with tarfile.open(path) as sdist:
        return {
            info.name: Member(
                _digest(file.read() if (file := sdist.extractfile(info)) else b""),
                info.mode,
                info.mtime,
                f"{info.uname}:{info.gname} {info.uid}:{info.gid}",
            )
            for info in sdist
        }


def differences(one: Path, other: Path) -> list[str]:
    """Return what differs between two archives, a line each; none if their bytes are equal."""
    if one.read_bytes() == other.read_bytes():
        return []
    ours, theirs = members(one), members(other)
    found = [f"{name}: only in {one}" for name in ours.keys() - theirs.keys()]
    found += [f"{name}: only in {other}" for name in theirs.keys() - ours.keys()]
    for name in ours.keys() & theirs.keys():
        for what in Member.__dataclass_fields__:
            mine, its = getattr(ours[name], what), getattr(theirs[name], what)
            if mine != its:
                shown = (f"{mine:o}", f"{its:o}") if what == "mode" else (mine, its)
                found.append(f"{name}: {what} {shown[0]} and {shown[1]}")
    if not found and list(ours) != list(theirs):
        found.append("the order of the members")
    return sorted(found) or ["how the same members are compressed: other versions of Python or zlib"]


def build_as(builder: Builder, commit: str, folder: Path) -> Path:
    """Clone a commit into a folder and build it there. Returns where the archives lie."""
    clone = folder / builder.folder / "atcpy"
    clone.parent.mkdir(parents=True)
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    subprocess.run(["git", "checkout", "--quiet", "--detach", commit], cwd=clone, check=True)
    if builder.mtime is not None:
        for path in clone.rglob("*"):
            os.utime(path, (builder.mtime, builder.mtime), follow_symlinks=False)
    temporary = clone.parent / "temporary"
    temporary.mkdir()
    processors = sorted(os.sched_getaffinity(0))[: builder.processors]
    subprocess.run(
        [sys.executable, "packaging/wheels.py", "build/dist"],
        cwd=clone,
        env=os.environ | {"TMPDIR": str(temporary), "HOME": str(temporary), **builder.variables},
        umask=builder.umask,
        preexec_fn=lambda: os.sched_setaffinity(0, processors),
        check=True,
    )
    return clone / "build" / "dist"


def build_twice() -> bool:
    """Build the commit as each builder and compare with the first."""
    commit = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=ROOT, text=True).strip()
    with tempfile.TemporaryDirectory() as folder:
        first, *others = (build_as(builder, commit, Path(folder)) for builder in BUILDERS)
        archives = sorted(path.name for path in first.iterdir())
        for other in others:
            assert sorted(path.name for path in other.iterdir()) == archives
        found = {
            name: [line for other in others for line in differences(first / name, other / name)] for name in archives
        }
        for name in archives:
            print(f"{_digest((first / name).read_bytes())}  {name}")
    _print(line for name in archives for line in found[name])
    print(f"{sum(map(bool, found.values()))} of {len(archives)} archives differ between {len(BUILDERS)} builders")
    return not any(found.values())


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _print(lines: Iterable[str], limit: int = 20) -> None:
    shown = list(lines)
    print("\n".join([*shown[:limit], *([f"… and {len(shown) - limit} more"] if len(shown) > limit else [])]))


def main(arguments: Sequence[str]) -> int:
    """Run a command; 1 if archives differ."""
    match arguments:
        case ["build"]:
            return 0 if build_twice() else 1
        case ["compare", one, other]:
            found = differences(Path(one), Path(other))
            _print(found or ["the bytes are equal"])
            return 1 if found else 0
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
