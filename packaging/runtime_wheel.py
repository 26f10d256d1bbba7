"""Makes the wheel of `atcpy-runtime` from that of `atcpy`: the modules that run packages, and what they depend on.

    python packaging/runtime_wheel.py make DIST               # DIST/atcpy-*.whl -> DIST/atcpy_runtime-*.whl
    python packaging/runtime_wheel.py link WHEEL SITE         # the dependencies that WHEEL declares, linked into SITE

`link` stands for an installation from an index: what the wheel does not declare is not there.
"""

from __future__ import annotations

import base64
import hashlib
import re
import sys
from collections.abc import Iterable, Mapping
from importlib.metadata import Distribution, distribution
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from sbom import bill_of_materials

NAME = "atcpy_runtime"
# `tests/test_layers.py` proves that these import nothing else of atcpy, and only these packages.
PARTS = frozenset(
    {
        *("__init__", "py", "aipp", "config_files", "deadline", "discovery", "errors", "files", "formats", "ir"),
        *("kernels", "om", "ops", "options", "precision_options", "runtime", "sizes", "threads"),
    }
)
LEFT_OUT = frozenset({"atcpy/om/writer.py", "atcpy/om/weight_placement.py"})
DEPENDENCIES = frozenset({"ml_dtypes", "numpy", "protobuf", "xxhash"})
_FILE = 0o100644 << 16  # an ordinary file that all may read
_SUMMARY = "Run packages of atcpy: the runtime without the compiler"


def make_wheel(source: Path) -> Path:
    """Write the wheel of the runtime beside that of atcpy."""
    with ZipFile(source) as whole:
        files = {name: whole.read(name) for name in sorted(whole.namelist()) if not name.endswith("/")}
        infos = {info.filename: info for info in whole.infolist()}
    stem = "-".join(source.name.split("-")[:2])
    version = stem.partition("-")[2]
    info = f"{NAME}-{version}.dist-info"
    kept = {name: raw for name, raw in files.items() if _runs_packages(name)}
    kept[f"{info}/METADATA"] = _metadata(files[f"{stem}.dist-info/METADATA"].decode()).encode()
    kept[f"{info}/WHEEL"] = files[f"{stem}.dist-info/WHEEL"]
    for name, raw in files.items():
        if name.startswith(f"{stem}.dist-info/licenses/"):
            kept[name.replace(f"{stem}.dist-info", info)] = raw
    kept[f"{info}/sboms/{NAME.replace('_', '-')}.cdx.json"] = _bill(kept, f"{info}/METADATA").encode()
    kept[f"{info}/RECORD"] = "".join([*map(_record, kept, kept.values()), f"{info}/RECORD,,\n"]).encode()
    target = source.with_name(source.name.replace(stem, f"{NAME}-{version}", 1))
    date = infos[f"{stem}.dist-info/WHEEL"].date_time  # the clock would make each build another
    with ZipFile(target, "w", ZIP_DEFLATED) as wheel:
        for name, raw in kept.items():
            member = ZipInfo(name, date)
            member.compress_type = ZIP_DEFLATED
            member.external_attr = infos[name].external_attr if name in infos else _FILE
            wheel.writestr(member, raw)
    return target


def _runs_packages(name: str) -> bool:
    root, _, rest = name.partition("/")
    return root == "atcpy" and re.split(r"[./]", rest)[0] in PARTS and name not in LEFT_OUT


def _metadata(whole: str) -> str:
    """The head of atcpy's metadata, with the name and the dependencies of the runtime."""
    head = whole.partition("\n\n")[0].splitlines()
    kept = [line for line in head if line.split(":")[0] in ("Metadata-Version", "Version", "Requires-Python")]
    kept += [line for line in head if line.split(":")[0] in ("License-Expression", "License-File")]
    requirements = [line for line in head if line.startswith("Requires-Dist:") and "extra ==" not in line]
    kept += [line for line in requirements if _name(line.partition(": ")[2]) in DEPENDENCIES]
    return "\n".join([kept[0], f"Name: {NAME.replace('_', '-')}", f"Summary: {_SUMMARY}", *kept[1:], ""])


def _bill(kept: Mapping[str, bytes], metadata: str) -> str:
    """The bill of materials of the wheel, from its metadata."""
    lines = [line.partition(": ") for line in kept[metadata].decode().splitlines()]
    fields = {key: value for key, _, value in lines}
    project = {key.lower(): fields[key] for key in ("Name", "Version")}
    project |= {"license": fields["License-Expression"], "description": fields["Summary"]}
    return bill_of_materials(project, [value for key, _, value in lines if key == "Requires-Dist"], (), kept)


def _name(requirement: str) -> str:
    return re.split(r"[^\w.-]", requirement)[0].replace("-", "_")


def _record(name: str, raw: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(raw).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(raw)}\n"


def link_dependencies(wheel: Path, site: Path) -> None:
    """Link the installed dependencies that a wheel declares into another environment."""
    with ZipFile(wheel) as opened:
        [metadata] = [name for name in opened.namelist() if name.endswith(".dist-info/METADATA")]
        lines = opened.read(metadata).decode().splitlines()
    for line in lines:
        if line.startswith("Requires-Dist:"):
            found = distribution(_name(line.partition(": ")[2]))
            for path in _top_level(found):
                (site / path.name).symlink_to(path)


def _top_level(found: Distribution) -> Iterable[Path]:
    """The folders and modules of a distribution in its site-packages."""
    root = Path(str(found.locate_file("")))
    names = {file.parts[0] for file in found.files or () if file.parts[0] not in ("..", "__pycache__")}
    return [root / name for name in sorted(names)]


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["make", folder]:
            [source] = Path(folder).glob("atcpy-*.whl")
            made = make_wheel(source)
            print(f"{made.name}: {made.stat().st_size / 1e6:.1f} MB")
        case ["link", wheel, site]:
            link_dependencies(Path(wheel), Path(site))
        case _:
            sys.exit(__doc__)
