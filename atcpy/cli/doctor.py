"""`atcpy doctor`: is this machine fit, and does every kernel compute what it should?"""

import json
import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from atcpy import __version__
from atcpy.cli.config import VARIABLES, Setting, settings_in_effect
from atcpy.cli.invocation import DEFAULTS, Invocation
from atcpy.cli.outcome import Outcome
from atcpy.cli.standard_streams import File
from atcpy.errors import AtcWarning, InternalError, ResourceLimit, Unsupported, count_of
from atcpy.kernels.cpu import cpu_model, cpuinfo
from atcpy.options import MIB, OPTIONS, default_memory_bytes, default_threads
from atcpy.report.columns import table
from atcpy.report.units import duration, size
from atcpy.threads import cpu_quota

if TYPE_CHECKING:
    from atcpy.verify.selftest import CaseReport

_PACKAGES = ("numpy", "onnx", "ml_dtypes", "protobuf", "typer", "rich", "xxhash", "pillow")
_MAX_SECONDS = 60.0  # for timing between ranks, without --timeout
_EXTRAS = {"verify": "onnxruntime", "dist": "mpi4py", "sign": "cryptography", "tf": "tensorflow"}
_FEATURES = (
    *("sse2", "avx2", "fma", "f16c", "avx_vnni"),
    *("avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16", "amx_int8"),
    *("asimd", "asimddp", "asimdhp", "bf16", "i8mm"),  # as Linux names those of Arm; asimd is NEON
)


def doctor(
    run: Invocation,
    ranks: Annotated[
        int,
        typer.Option(
            "--ranks", min=1, max=1024, metavar="N", help="Only time allreduces between so many ranks of MPI."
        ),
    ] = 1,
    config: Annotated[
        bool, typer.Option("--config", help="Only show the settings of environment and files, and where they are from.")
    ] = False,
    bundle: Annotated[
        str | None,
        typer.Option("--bundle", metavar="F.zip", help="Write what a bug report needs of this machine, too."),
        File.WRITTEN,
    ] = None,
) -> Outcome:
    """Describe this machine and test every kernel family on it."""
    from atcpy.verify import selftest
    from atcpy.verify.selftest import run_cases, untested_families

    if config:
        return _show_settings()
    if ranks > 1:
        return _measure(run, ranks)

    warnings = list(_missing_onnxruntime())
    reports = []
    for report in run_cases(has_onnxruntime=not warnings):
        reports.append(report)
        of_all = "" if warnings else f" of {len(selftest.CASES) + 2}"
        run.progress.step(f"testing {report.ops}  {len(reports)}{of_all}")
    untested = untested_families(reports)
    failed = [report for report in reports if report.problem]
    result = {
        "version": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: _version(name) for name in _PACKAGES},
        "extras": {extra: _version(name) for extra, name in _EXTRAS.items()},
        "cpu": cpu(),
        "memory_limit": default_memory_bytes(),
        "environment": {k: v for k, v in sorted(os.environ.items()) if k.startswith("ATCPY_")},
        "kernels": kernels(),
        "selftest": {"cases": len(reports), "failed": [_record(r) for r in failed], "untested": untested},
    }
    lines = list(_lines(result, reports))
    if bundle is not None:
        _write_bundle(Path(bundle), result, lines)
        lines.append(f"{bundle}: attach it to a report, with the command and its output with --debug")
    if not failed:
        return Outcome(result, lines, warnings=warnings)
    # A kernel that computes wrong is a bug of ours, whatever the machine.
    what = f"the self-test of {failed[0].ops} fails: {failed[0].problem}"
    return Outcome(result, lines, InternalError(what), warnings)


def _missing_onnxruntime() -> Iterator[AtcWarning]:
    """Warn that the self-test cannot run most of its cases."""
    from atcpy.verify.ort import load_onnxruntime

    try:
        load_onnxruntime()
    except Unsupported as error:
        what = f"the self-test runs only the cases that are compared with numpy; for the others: {error.hint}"
        yield AtcWarning("W0044", what)


def _write_bundle(path: Path, result: dict[str, Any], lines: list[str]) -> None:
    """Write the findings as text and as JSON, and the settings in effect, into one file."""
    import io
    import zipfile

    from atcpy.om.atomic import atomic_write
    from atcpy.report.record import dumps

    files = {
        "doctor.txt": "".join(f"{line}\n" for line in lines),
        "doctor.json": dumps(result),
        "settings.json": dumps([setting._asdict() for setting in settings_in_effect()]),
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name), text)  # without the time, as all that is written
    atomic_write(path, [buffer.getbuffer()])


def _show_settings() -> Outcome:
    """Each setting with its source; of those for the same option the first is in effect."""
    settings = list(settings_in_effect())
    named = {setting.option for setting in settings if not setting.command}
    settings += [Setting("", name, _default(name), "default") for name in VARIABLES if name not in named]
    seen: set[tuple[str, str]] = set()
    records = []
    for setting in settings:
        key = (setting.command, setting.option)
        records.append({**setting._asdict(), "overridden": key in seen or ("", setting.option) in seen})
        seen.add(key)
    rows = [
        (f"[{r['command']}] {r['option']}" if r["command"] else r["option"], _shown(r["value"]), _source(r))
        for r in records
    ]
    return Outcome({"settings": records}, table(("setting", "value", "from"), rows))


def _default(option: str) -> object:
    if option == "threads":
        return default_threads()
    return OPTIONS[option].default if option in OPTIONS else DEFAULTS[option]


def _shown(value: object) -> str:
    if isinstance(value, dict):
        value = [f"{key}={each}" for key, each in value.items()]
    return "none" if value is None else ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _source(record: dict[str, Any]) -> str:
    return f"{record['source']}{' (overridden)' if record['overridden'] else ''}"


def _measure(run: Invocation, ranks: int) -> Outcome:
    """What the model of costs calculates with, as it is between ranks of this machine."""
    from atcpy.runtime.distributed.launch import oversubscribed
    from atcpy.runtime.distributed.mpiexec import run_module

    ran = run_module("atcpy.runtime.distributed.network", ranks, run.option("timeout") or _MAX_SECONDS)
    if ran.returncode:
        if run.debug:
            sys.stderr.write(ran.stderr)
        raise ResourceLimit("EI0007", f"the ranks that were timed ended with code {ran.returncode}")
    numbers = json.loads(ran.stdout.splitlines()[-1])
    text = ",".join(f"{name}={number:.3g}" for name, number in numbers.items())
    times = [duration(seconds) for seconds in (numbers["alpha"], numbers["beta"] * MIB, numbers["gamma"] * MIB)]
    lines = [
        f"{times[0]} to start a message, {times[1]} to send a MB, {times[2]} to add one",
        f"--allreduce_cost={text}",
    ]
    return Outcome({"allreduce_cost": numbers}, lines, warnings=oversubscribed(ranks))


def cpu() -> dict[str, Any]:
    """What this CPU has, and what is used of it."""
    from atcpy.kernels import _kernels

    isa, l1, l2 = _kernels.cpu()
    flags = set(_flags())
    return {
        "model": cpu_model(),
        "isa": isa,
        "features": [feature for feature in _FEATURES if feature in flags],
        "l1_bytes": l1,
        "l2_bytes": l2,
        "affinity": sorted(os.sched_getaffinity(0)),
        "quota": cpu_quota(),
        "threads": default_threads(),
    }


def _flags() -> list[str]:

    return next((line.partition(":")[2].split() for line in cpuinfo() if line.startswith(("flags", "Features"))), [])


def kernels() -> list[dict[str, Any]]:
    """Each family with the best kernels that this CPU runs, by element type."""
    from atcpy.kernels.table import families
    from atcpy.report.package import rows_of_this_cpu

    chosen = rows_of_this_cpu()
    return [
        {
            "family": family,
            "kernels": sorted(name for (of, _), names in chosen.items() if of == family for name in names),
        }
        for family in families()
    ]


def _version(name: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _record(report: "CaseReport") -> dict[str, Any]:
    return {"ops": report.ops, "families": list(report.families), "problem": report.problem}


def _lines(result: dict[str, Any], reports: "list[CaseReport]") -> Iterator[str]:
    found, cores = result["cpu"], len(result["cpu"]["affinity"])
    yield f"atcpy {result['version']}   Python {result['python']}   {result['platform']}"
    yield f"cpu       {found['model']}"
    yield f"          kernels for {found['isa']}; it has {' '.join(found['features']) or 'no vector extensions'}"
    quota = "" if found["quota"] is None else f", {found['quota']} at a time"
    yield f"threads   {found['threads']} by default, {count_of(cores, 'CPU')} may be used{quota}"
    yield f"memory    {size(result['memory_limit'])} by default"
    yield "packages  " + ", ".join(f"{name} {text or 'missing'}" for name, text in result["packages"].items())
    yield "extras    " + ", ".join(f"{name} {text or 'not installed'}" for name, text in result["extras"].items())
    for name, value in result["environment"].items():
        yield f"setting   {name}={value}"
    yield ""
    yield from table(("family", "kernels"), [(k["family"], " ".join(k["kernels"])) for k in result["kernels"]])
    yield ""
    for report in reports:
        if report.problem:
            yield f"self-test {report.ops}: {report.problem}"
    passed = [report for report in reports if not report.problem]
    untested = result["selftest"]["untested"]
    note = f"; no case reaches {', '.join(untested)}" if untested else ""
    worst = max((report.max_abs for report in passed), default=0.0)
    yield f"self-test {len(passed)} of {count_of(len(reports), 'case')} ok, worst error {worst:.1e}{note}"
