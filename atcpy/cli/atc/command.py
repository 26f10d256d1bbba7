"""`atcpy atc`: ATC's modes, lines and failure block over the same stages as all other commands."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from atcpy.atc_flags import FLAG_BY_NAME, FLAGS, FlagKind, Support, read_flags
from atcpy.cli.atc.arguments import ArgumentError, read_arguments
from atcpy.cli.atc.modes import AtcRun, check, dump_to_json, make_package, make_single_ops, show_package, to_json
from atcpy.cli.atc.pairs import pair_warnings
from atcpy.cli.console import write_lines
from atcpy.cli.signals import announce_interrupt
from atcpy.errors import (
    INTERRUPTED,
    TERMINATED,
    AtcError,
    AtcWarning,
    InternalError,
    Terminated,
    Unsupported,
    Where,
    as_known_error,
    causes,
    escape,
)

_MODES: Mapping[str, Callable[[AtcRun], Sequence[AtcWarning]]] = {
    "0": make_package,
    "1": to_json,
    "3": check,
    "5": dump_to_json,
    "6": show_package,
}
_NO_MODES = {"7": "it makes source packages of OM2", "30": "it makes firmware for chips without a file system"}
_USAGE = 2


def atc(words: Sequence[str]) -> int:
    """Run ATC's command line; its status: 0, or the code of the error (255 where ATCPY_ATC_STATUS says so)."""
    _say("ATC start working now, please wait for a moment.")
    try:
        code = _run(words)
    except KeyboardInterrupt:
        announce_interrupt()
        code = INTERRUPTED
    except Terminated:
        code = TERMINATED
    return 255 if code and os.environ.get("ATCPY_ATC_STATUS") == "255" else code


def _run(words: Sequence[str]) -> int:
    try:
        texts = read_arguments(words)
    except ArgumentError as error:
        hint = [f"  help: {error.hint}"] if error.hint else []
        write_lines([str(error), *hint], sys.stderr)
        _say_failed()
        return _USAGE
    try:
        if "help" in texts or "h" in texts:
            write_lines(_usage(), sys.stdout)
            return 0
        values, ignored = _values(texts)
        run = AtcRun(values, _say)
        warnings = [*ignored, *_mode(run)(run), *_warnings(values)]
    except (KeyboardInterrupt, Terminated, BrokenPipeError):
        raise
    except Exception as error:  # noqa: BLE001  each has its lines
        return _fail(as_known_error(error))
    _say("...")
    _say("ATC run success, welcome to the next use.")
    write_lines([f"{warning.code}: {warning.message}" for warning in warnings], sys.stdout)
    return 0


def _values(texts: Mapping[str, str]) -> tuple[dict[str, str], list[AtcWarning]]:
    """The values of all flags, and warnings for what is ignored in a file of them."""
    values = read_flags(texts)
    if not any(name.startswith("raw_ge_options") for name in values):
        return values, []
    from atcpy.cli.atc.raw_options import with_raw_options

    return with_raw_options(values)


def _mode(run: AtcRun) -> Callable[[AtcRun], Sequence[AtcWarning]]:
    if "singleop" in run.values:
        return make_single_ops
    mode = run.text("mode")
    if mode in _NO_MODES:
        raise Unsupported("E10055", f"--mode={mode} is not supported: {_NO_MODES[mode]}", where=Where(option="mode"))
    return _MODES[mode]


def _warnings(values: Mapping[str, str]) -> list[AtcWarning]:
    warnings = [
        AtcWarning("W0030", f"--{name} is deprecated: {FLAG_BY_NAME[name].note}", Where(option=name))
        for name in values
        if FLAG_BY_NAME[name].is_deprecated
    ]
    if "weight" in values:
        what = "--weight is ignored: the model holds its weights"
        warnings.append(AtcWarning("W0012", what, Where(option="weight")))
    return [*warnings, *pair_warnings(values)]


def _fail(error: AtcError | InternalError) -> int:
    _say("...")
    _say_failed()
    now = datetime.now()
    stamp = f"[PID: {os.getpid()}] {now:%Y-%m-%d-%H:%M:%S}.{now.microsecond // 1000:03}.{now.microsecond % 1000:03}"
    problems = [error] if isinstance(error, InternalError) else [cause.error for cause in causes(error.problems)]
    for problem in problems:
        why = getattr(problem, "why", "")
        place = str(problem.where)
        write_lines([f"{problem.code}: {stamp} {escape(problem.what)}{f': {why}' if why else ''}"], sys.stdout)
        if place:
            write_lines([f"        Where: {place}"], sys.stdout)
        if problem.hint:
            write_lines([f"        Solution: {problem.hint}"], sys.stdout)
    return error.exit_code


def _say_failed() -> None:
    _say("ATC run failed, Please check the detail log, Try 'atc --help' for more information")


def _say(line: str) -> None:
    write_lines([line], sys.stdout)


def _usage() -> list[str]:
    lines = ["usage: atc <args>", "generate offline model example:"]
    lines.append("atc --model=./resnet50.onnx --framework=5 --output=./resnet50 --soc_version=Ascend310P3")
    group = None
    for flag in FLAGS:
        if flag.group is not group:
            group = flag.group
            lines += ["", f"[{group.value}]"]
        value = "" if flag.kind is FlagKind.BOOL else " " + ("|".join(flag.choices) or "VALUE")
        notes = [flag.note]
        if flag.default:
            notes.append(f"default: {flag.default}")
        if flag.support is Support.RECORDED:
            notes.append("recorded, without effect on a CPU")
        if flag.support is Support.REFUSED:
            notes.append("refused")
        lines.append(f"  --{flag.name}{value}")
        lines.append(f"      {'; '.join(notes)}")
    return lines
