"""`atcpy check`: everything that keeps a model from converting, at once."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from atcpy.cli.convert import PRECISION_TABLE, read_options
from atcpy.cli.invocation import Invocation
from atcpy.cli.outcome import Outcome
from atcpy.cli.standard_streams import File
from atcpy.errors import Cause, Unsupported, UsageError, Where, causes, count_of, escape, group
from atcpy.report.columns import table
from atcpy.report.record import to_json

if TYPE_CHECKING:
    from atcpy.debug.value_ranges import ValueRange
    from atcpy.options import ConvertOptions
    from atcpy.stages.pipeline import CheckReport

TABLE = (
    "soc", "framework", "custom_ops", "input_shape", "dynamic_batch_size", "dynamic_image_size", "dynamic_dims",
    "out_nodes", "input_format", "insert_op_conf", "signature", "tag_set", "static",
    "fold_default_inputs", *PRECISION_TABLE, "max_const", "max_growth",
)  # fmt: skip
_NODES_SHOWN = 2
_RANGES_SHOWN = 10
_WORD = {"error": "error", "host_cpu": "host", "warning": "warn"}


def check(
    run: Invocation,
    model: Annotated[str, typer.Argument(metavar="M.onnx", help="The model."), File.READ],
    list_ops: Annotated[bool, typer.Option("--list_ops", help="Show each op with its count and engine.")] = False,
    input_data: Annotated[
        str | None,
        typer.Option(
            "--input_data",
            metavar="NPZ",
            help="Inputs by name, in one file: show how near lowered values come to the end of their type.",
        ),
        File.READ,
    ] = None,
    **options: Any,
) -> Outcome:
    """List all problems of a model, what its ops run on, and what a precision mode would lower; nothing is written."""
    from atcpy.stages import pipeline

    read = read_options(run, options)
    report = pipeline.check(Path(model), read)
    ranges = () if input_data is None or report.problems else _ranges(run, model, input_data, read, report)
    problems = [*map(_error_record, causes(report.problems)), *_warning_records(report), *_overflows(read, ranges)]
    ops = [{"op": op, "count": count, "engine": engine} for op, count, engine in report.ops]
    shapes = {"known": report.known_shapes, "unknown": report.unknown_shapes}
    error = group(report.problems) if report.problems else None
    if isinstance(error, UsageError):  # of the command, not of the model
        raise error
    lines = [*_lines(report, problems), *_precision_lines(report, ranges), *(_op_table(report) if list_ops else ())]
    precision = {
        **{name: to_json(getattr(report.precision, name)) for name in ("mode", "lowered", "kept", "clipped")},
        "kept_types": [{"reason": reason, "count": count} for reason, count in report.kept_types],
        "ranges": to_json(ranges),
    }
    result = {"problems": problems, "ops": ops, "shapes": shapes, "nodes": report.nodes, "precision": precision}
    verdict = f"error[{error.code}] {model} cannot be converted: {lines[0]}" if error is not None else ""
    return Outcome(result, lines, error, verdict=verdict)


def _ranges(
    run: Invocation, model: str, input_data: str, options: "ConvertOptions", report: "CheckReport"
) -> tuple["ValueRange", ...]:
    """The ranges of the values of lowered nodes, as ONNX Runtime computes them from the user's inputs."""
    from atcpy.cli import custom_ops
    from atcpy.cli.arrays import load_npz
    from atcpy.debug.submodel import IndexedModel
    from atcpy.debug.value_ranges import value_ranges
    from atcpy.ir import DType
    from atcpy.parsers.onnx import read_model
    from atcpy.stages.parse import names_tensorflow
    from atcpy.verify.model_values import ModelValues

    mode = options.prepare.precision.mode
    if mode.keeps_all:
        hint = "say which mode: --precision_mode_v2=fp16"
        what = f"--input_data shows values of lowered nodes, and the mode {mode.value} lowers none"
        raise UsageError("E10001", what, where=Where(option="input_data"), hint=hint)
    if names_tensorflow(Path(model), options.parse):
        what = "--input_data of a model of TensorFlow is not supported: ONNX Runtime computes the values"
        raise Unsupported("E10055", what, where=Where(option="input_data"), hint="convert it to ONNX: tf2onnx")
    file = read_model(Path(model), allow_hardlinks=run.option("allow_hardlinks"))
    values = ModelValues(
        path=Path(model),
        model=file.model,
        feeds=load_npz(input_data),
        seed=0,
        shapes=options.parse.input_shape,
        oracle=None,
        threads=run.threads,
        custom=custom_ops.load(run.option("custom_ops")),
    )
    dtype = DType[mode.dtype.upper()]
    return value_ranges(IndexedModel(file.model), report.precision.lowered, dtype, values.pass_by)


def _overflows(options: "ConvertOptions", ranges: "tuple[ValueRange, ...]") -> Iterator[dict[str, Any]]:
    beyond = [each for each in ranges if each.overflows]
    if beyond:
        dtype = options.prepare.precision.mode.dtype
        yield {
            "level": "warning",
            "code": "W0021",
            "op": "",
            "count": len(beyond),
            "nodes": list(dict.fromkeys(each.node for each in beyond)),
            "message": f"values are beyond the range of {dtype} on these inputs",
            "hint": f"--keep-fp32 {beyond[0].node}",
        }


def _precision_lines(report: "CheckReport", ranges: "tuple[ValueRange, ...]") -> Iterator[str]:
    precision = report.precision
    if report.problems or not (precision.lowered or report.kept_types):
        return
    verb = "raised" if precision.mode == "force_fp32" else "lowered"
    yield ""
    yield f"{precision.mode}: {count_of(len(precision.lowered), 'node')} would be {verb}"
    for reason, count in report.kept_types:
        yield f"  {count_of(count, 'node')} kept: {reason}"
    if ranges:
        rows = [
            (escape(each.value), escape(each.node), f"{each.largest:.3g}", f"{100 * each.share:.3g} %")
            for each in ranges[:_RANGES_SHOWN]
        ]
        yield ""
        yield from table(("value", "node", "largest", "of the range"), rows, right=(2, 3))
        if len(ranges) > _RANGES_SHOWN:
            yield f"{len(ranges) - _RANGES_SHOWN} more below; --json has all"


def _error_record(cause: Cause) -> dict[str, Any]:
    nodes = [where.node for where in cause.wheres if where.node]
    return {
        "level": "error",
        "code": cause.error.code,
        "op": cause.wheres[0].op,
        "count": len(cause.wheres),
        "nodes": nodes,
        "message": cause.error.what + (f": {cause.error.why}" if cause.error.why else ""),
        "hint": cause.error.hint,
    }


def _warning_records(report: "CheckReport") -> Iterator[dict[str, Any]]:
    on_host = {op: count for op, count, engine in report.ops if engine == "HOST_CPU"}
    for warning in report.warnings:
        op = warning.where.op
        is_host = warning.code == "W0020"
        yield {
            "level": "host_cpu" if is_host else "warning",
            "code": warning.code,
            "op": op,
            "count": on_host.get(op, 1) if is_host else 1,
            "nodes": [warning.where.node] if warning.where.node else [],
            "message": "runs on HOST_CPU, many times slower than a kernel" if is_host else warning.message,
            "hint": "",
        }


def _lines(report: "CheckReport", problems: list[dict[str, Any]]) -> Iterator[str]:
    errors = sum(p["count"] for p in problems if p["level"] == "error")
    warnings = len(problems) - sum(p["level"] == "error" for p in problems)
    found = ", ".join(count_of(n, word) for n, word in ((errors, "error"), (warnings, "warning")) if n)
    groups = f"; {count_of(len(problems), 'cause')}" if found else ""
    size = f"; {count_of(len({op for op, _, _ in report.ops}), 'op type')}, {count_of(report.nodes, 'node')}"
    yield f"{found or 'no problems'}{groups}{size if report.ops else ''}"
    rows = [(_WORD[p["level"]], p["code"], _what(p), p["message"], _nodes(p)) for p in problems]
    for line in table(("", "", "", "", ""), [[escape(cell) for cell in row] for row in rows])[1:]:
        yield " " + line


def _what(problem: dict[str, Any]) -> str:
    return f"{problem['op'] or 'model'} ×{problem['count']}"


def _nodes(problem: dict[str, Any]) -> str:
    nodes = problem["nodes"]
    more = ", …" if len(nodes) > _NODES_SHOWN else ""
    hint = f"  → {problem['hint']}" if problem["hint"] else ""
    return ", ".join(nodes[:_NODES_SHOWN]) + more + hint


def _op_table(report: "CheckReport") -> list[str]:
    rows = sorted(report.ops, key=lambda row: (-row[1], row[0]))
    return ["", *table(("op", "count", "engine"), rows, right=(1,))]
