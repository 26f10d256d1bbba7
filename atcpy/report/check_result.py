"""`check_result.json`: what ATC's --mode=3 finds wrong with a model, operator by operator."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from atcpy.errors import AtcError
from atcpy.om.atomic import atomic_write

if TYPE_CHECKING:
    from atcpy.stages.pipeline import CheckReport

NAME = "check_result.json"


def write_check_result(report: CheckReport, model: Path, path: str | None) -> Path:
    """Write the report to `path`, or to the directory that ASCEND_WORK_PATH names, or to the working directory."""
    target = Path(path) if path is not None else Path(os.environ.get("ASCEND_WORK_PATH") or ".") / NAME
    atomic_write(target, [json.dumps(check_result(report, model), indent=4, ensure_ascii=False).encode() + b"\n"])
    return target


def check_result(report: CheckReport, model: Path) -> dict[str, Any]:
    """ATC's keys, and the domain of each operator and a hint. `op` lists those with a problem."""
    ops: dict[str, dict[str, Any]] = {}
    for problem in report.problems:
        where = problem.where
        entry = ops.setdefault(
            where.node or str(where),
            {
                "name": where.node,
                "type": where.op,
                "domain": where.domain or "ai.onnx",
                "result": "failed",
                "cause": [],
            },
        )
        entry["cause"].append(_cause(problem))
    total = max(report.nodes, len(ops))
    return {
        "name": str(model),
        "result": "failed" if ops else "success",
        "total": total,
        "pass": total - len(ops),
        "fail": len(ops),
        "op": list(ops.values()),
    }


def _cause(problem: AtcError) -> dict[str, Any]:
    why = f": {problem.why}" if problem.why else ""
    return {"code": 1, "message": f"{problem.code}: {problem.what}{why}", "hint": problem.hint}
