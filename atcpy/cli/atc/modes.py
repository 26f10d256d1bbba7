"""What ATC does in each of its modes."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from atcpy.atc_flags import FLAG_BY_NAME, Support
from atcpy.cli.atc.pairs import check_pairs
from atcpy.cli.console import Progress, write_lines
from atcpy.cli.convert import package_path
from atcpy.cli.invocation import Invocation
from atcpy.errors import AtcWarning, Unsupported, UsageError, Where, did_you_mean, group
from atcpy.options import ConvertOptions, convert_options

_VERBOSITY = {"debug": 2, "info": 1}
_CAFFE = "convert the model to ONNX first, with the exporter of its framework, and give --framework=5"
_NO_FRAMEWORK = {"0": "Caffe", "1": "MindSpore"}
# Flags that say what to do, not how to compile.
_OF_THE_COMMAND = frozenset(
    {
        *("mode", "model", "weight", "om", "output", "json", "check_report", "log", "dump_mode", "debug_dir"),
        *("display_model_info", "singleop", "save_original_model"),
    }
)
# Flags whose default is another one than that of `atcpy convert`.
_OWN_DEFAULTS = ("oo_level", "topo_sorting_mode", "export_compile_stat")
# What `save_original_model` leaves out: the model as it was read computes in its own types.
_OF_PRECISION = ("precision_mode", "precision_mode_v2", "keep_dtype", "customize_dtypes", "modify_mixlist")
# Flags of models, which a file of --singleop describes itself.
_OF_MODELS = frozenset({"model", "framework", "insert_op_conf"})


@dataclass(frozen=True, slots=True)
class AtcRun:
    """The flags that are given, read and checked, and where ATC's lines go."""

    values: Mapping[str, str]
    say: Callable[[str], None]

    def text(self, name: str) -> str:
        """The value of a flag, or its default."""
        return self.values.get(name, FLAG_BY_NAME[name].default)

    def require(self, name: str) -> str:
        """The value of a flag that must be given. Raises UsageError (E10054, E10004 as ATC for `om` and `json`)."""
        if name not in self.values:
            code, what = ("E10004", "needs a value") if name in ("om", "json") else ("E10054", "is required")
            raise UsageError(code, f"--{name} {what}", where=Where(option=name))
        return self.values[name]

    def require_file(self, name: str) -> Path:
        """The path of a file that must be there. Raises UsageError (E10054, E10001)."""
        text = self.require(name)
        path = Path(text)
        if not path.exists():
            others = [str(path.parent / other.name) for other in _files_of(path.parent)]
            what = f'--{name}: "{text}" is not a file that exists'
            raise UsageError("E10001", what, where=Where(option=name), hint=did_you_mean(str(path), others))
        return path

    @property
    def invocation(self) -> Invocation:
        """What the other commands need to run: nothing on stdout, the log on stderr."""
        verbosity = _VERBOSITY.get(self.text("log"), 0)
        progress = Progress(verbosity=verbosity, quiet=verbosity == 0)
        return Invocation("atc", quiet=verbosity == 0, verbosity=verbosity, progress=progress)

    def log(self, line: str) -> None:
        """A line of the log, from --log=info on."""
        if self.text("log") in _VERBOSITY:
            write_lines([line], sys.stderr)


def make_package(run: AtcRun) -> Sequence[AtcWarning]:
    """--mode=0: compile a model into a package."""
    from atcpy.cli.watcher import Watcher
    from atcpy.om.atomic import require_writable
    from atcpy.report.compile_stat import CompileStatistics
    from atcpy.stages import pipeline

    model = _source(run)
    target = package_path(str(model), run.require("output"))
    run.require("soc_version")
    options, folder = _conversion(run), _debug_dir(run)
    require_writable(target)
    statistics = CompileStatistics(options.export_compile_stat)
    report = pipeline.convert(model, target, options, Watcher(run.invocation, options.dump, folder))
    statistics.compiled(report)
    if run.text("save_original_model") == "true":
        pipeline.convert(model, _original(target), _unoptimised(run))
    if run.text("display_model_info") == "1":
        _show(target, run)
    statistics.at_end(report)
    return report.warnings


def _original(target: Path) -> Path:
    return target.with_name(target.name.removesuffix(".om") + "_original.om")


def _unoptimised(run: AtcRun) -> ConvertOptions:
    values = {name: value for name, value in run.values.items() if name not in _OF_PRECISION}
    return _conversion(replace(run, values=values), oo_level="O0", export_compile_stat="0")


def make_single_ops(run: AtcRun) -> Sequence[AtcWarning]:
    """--singleop: compile operators into packages of their own, all with the same options."""
    from atcpy.cli.watcher import Watcher
    from atcpy.ge.single_op import read_single_ops
    from atcpy.om.atomic import require_writable
    from atcpy.stages import pipeline

    for name, value in run.values.items():
        is_other = name in _OF_MODELS or (name == "mode" and value != "0")
        if is_other or (name == "display_model_info" and value == "1"):
            what = f"--{name} cannot be used together with --singleop"
            raise UsageError("E10001", what, where=Where(option=name), hint="drop one of them")
    folder, path = Path(run.require("output")), run.require_file("singleop")
    run.require("soc_version")
    options, dumps = _conversion(run), _debug_dir(run)
    warnings: list[AtcWarning] = []
    for op in read_single_ops(path):
        target = package_path("", str(folder / op.name))
        require_writable(target)
        input_format = options.parse.input_format or op.input_format or ""
        own = replace(options, parse=replace(options.parse, input_format=input_format))
        warnings += pipeline.convert(op.model, target, own, Watcher(run.invocation, own.dump, dumps)).warnings
    return warnings


def check(run: AtcRun) -> Sequence[AtcWarning]:
    """--mode=3: read a model and write what is wrong with it to check_result.json."""
    from atcpy.report.check_result import write_check_result
    from atcpy.stages import pipeline

    model = _source(run)
    run.require("soc_version")
    report = pipeline.check(model, _conversion(run))
    write_check_result(report, model, run.values.get("check_report"))
    if report.problems:
        raise group(report.problems)
    return report.warnings


def to_json(run: AtcRun) -> Sequence[AtcWarning]:
    """--mode=1: write a package, or a model, as JSON."""
    from atcpy.om.atomic import atomic_write
    from atcpy.report.model_json import graph_json, package_json

    source, target = run.require_file("om"), Path(run.require("json"))
    text = package_json(source) if run.text("framework") == "-1" else graph_json(source, _conversion(run))
    atomic_write(target, [text.encode()])
    return ()


def dump_to_json(run: AtcRun) -> Sequence[AtcWarning]:
    """--mode=5: write GE's text dump of a graph as JSON."""
    from atcpy.om.atomic import atomic_write
    from atcpy.report.model_json import dump_json

    source, target = run.require_file("om"), Path(run.require("json"))
    if source.suffix != ".txt":
        what = f'--om: "{source}" is not a dump of GE, whose name ends in .txt'
        raise UsageError("E10001", what, where=Where(option="om"))
    atomic_write(target, [dump_json(source).encode()])
    return ()


def show_package(run: AtcRun) -> Sequence[AtcWarning]:
    """--mode=6: show what a package says of itself."""
    if "framework" in run.values:
        what = "--framework is not used with --mode=6, which reads packages"
        raise UsageError("E10057", what, where=Where(option="framework"), hint="drop it")
    _show(run.require_file("om"), run)
    return ()


def _show(path: Path, run: AtcRun) -> None:
    from atcpy.report.package import NOT_FOR_CANN, PackageView

    for line in (*PackageView(path).info_block(), NOT_FOR_CANN):
        run.say(line)


def _source(run: AtcRun) -> Path:
    framework = run.text("framework")
    if framework in _NO_FRAMEWORK:
        what = f"--framework={framework}: {_NO_FRAMEWORK[framework]} is not supported"
        raise Unsupported("E10055", what, where=Where(option="framework"), hint=_CAFFE)
    if framework == "-1":
        hint = "5 for ONNX, 3 for TensorFlow"
        raise UsageError("E10007", "--framework is required", where=Where(option="framework"), hint=hint)
    return run.require_file("model")


def _debug_dir(run: AtcRun) -> Path:
    """The folder of --debug_dir, or the working directory. Raises UsageError (E10001) if it is none."""
    folder = Path(run.text("debug_dir") or ".")
    if not folder.is_dir():
        what = f'--debug_dir: "{folder}" is not a folder that exists'
        raise UsageError("E10001", what, where=Where(option="debug_dir"))
    return folder


def _conversion(run: AtcRun, **replaced: str) -> ConvertOptions:
    values: dict[str, Any] = {name: run.text(name) for name in _OWN_DEFAULTS}
    recorded: dict[str, str] = {}
    for name, text in run.values.items():
        if FLAG_BY_NAME[name].support is Support.RECORDED:
            run.log(f"--{name}: no effect on a CPU: {FLAG_BY_NAME[name].note}")
            if text != FLAG_BY_NAME[name].default:
                recorded[name] = text
        elif name not in _OF_THE_COMMAND:
            values[name] = text
    check_pairs(run.values)
    if "input_shape_range" in values:
        values["input_shape"] = _shape_of_range("input_shape_range", values.pop("input_shape_range"))
    elif "[" in values.get("input_shape", ""):  # as command lines of ModelZoo have it
        values["input_shape"] = _shape_of_range("input_shape", values["input_shape"])
    if unshared := os.environ.get("OP_NO_REUSE_MEM"):
        values["no_reuse_mem"] = unshared
    return convert_options({**values, **replaced}, recorded=recorded)


def _shape_of_range(option: str, text: str) -> str:
    """`x:[1~8,3];y:[2]` as --input_shape has it."""
    named = re.fullmatch(r"[^\[\]]+:\[[^\[\]]*\](;[^\[\]]+:\[[^\[\]]*\])*;?", text)
    if named is None:
        what = f'--{option}: "{text}" does not name each input'
        hint = '--input_shape="x:1~8,3;y:2"'
        raise UsageError("E10002", what, where=Where(option=option), hint=hint)
    return text.replace("[", "").replace("]", "")


def _files_of(folder: Path) -> list[Path]:
    try:
        return [path for path in folder.iterdir() if path.is_file()]
    except OSError:
        return []
