"""`atcpy check`: everything that keeps a model from converting, at once."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from atcpy.cli.convert import read_options
from atcpy.cli.invocation import Invocation
from atcpy.cli.outcome import Outcome
from atcpy.errors import Cause, UsageError, causes, escape, group
from atcpy.report.columns import table
from atcpy.report.units import count_of

if TYPE_CHECKING:
    from atcpy.stages.pipeline import CheckReport

TABLE = (
    "soc", "framework", "custom_ops", "input_shape", "dynamic_batch_size", "dynamic_image_size", "dynamic_dims",
    "out_nodes", "input_format", "insert_op_conf", "signature", "tag_set", "static",
    "fold_default_inputs", "max_const", "max_growth",
)  # fmt: skip
_NODES_SHOWN = 2
_WORD = {"error": "error", "host_cpu": "host", "warning": "warn"}


def check(
    run: Invocation,
    model: Annotated[str, typer.Argument(metavar="M.onnx", help="The model.")],
    list_ops: Annotated[bool, typer.Option("--list_ops", help="Show each op with its count and engine.")] = False,
    **options: Any,
) -> Outcome:
    """List all problems of a model, and what its ops run on; nothing is written."""
    from atcpy.stages import pipeline

    report = pipeline.check(Path(model), read_options(run, options))
    problems = [*map(_error_record, causes(report.problems)), *_warning_records(report)]
    ops = [{"op": op, "count": count, "engine": engine} for op, count, engine in report.ops]
    shapes = {"known": report.known_shapes, "unknown": report.unknown_shapes}
    error = group(report.problems) if report.problems else None
    if isinstance(error, UsageError):  # of the command, not of the model
        raise error
    lines = [*_lines(report, problems), *(_op_table(report) if list_ops else ())]
    result = {"problems": problems, "ops": ops, "shapes": shapes, "nodes": report.nodes}
    verdict = f"error[{error.code}] {model} cannot be converted: {lines[0]}" if error is not None else ""
    return Outcome(result, lines, error, verdict=verdict)


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
