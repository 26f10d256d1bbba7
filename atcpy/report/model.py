"""An ONNX model as `inspect` shows it."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import onnx

from atcpy.errors import count_of
from atcpy.ir import DType
from atcpy.parsers.onnx import read_model
from atcpy.report.columns import table
from atcpy.report.units import counts, shape


def model_record(path: Path, *, allow_hardlinks: bool = False) -> dict[str, Any]:
    """Inputs, outputs, ops and origin of a model."""
    file = read_model(path, allow_hardlinks=allow_hardlinks)
    graph = file.model.graph
    weights = {tensor.name for tensor in graph.initializer}
    ops = Counter(node.op_type if not node.domain else f"{node.domain}::{node.op_type}" for node in graph.node)
    return {
        "model": str(path),
        "bytes": path.stat().st_size,
        "source": {
            "sha256": file.source.sha256,
            "framework": file.source.framework,
            "opsets": dict(file.source.opsets),
            "producer": file.source.producer,
        },
        "ir_version": file.model.ir_version,
        "inputs": _values(value for value in graph.input if value.name not in weights),
        "outputs": _values(graph.output),
        "nodes_before": len(graph.node),
        "weights": len(weights),
        "ops": [{"op": op, "count": count} for op, count in sorted(ops.items(), key=lambda item: (-item[1], item[0]))],
    }


def _values(values: Iterable[onnx.ValueInfoProto]) -> list[dict[str, Any]]:
    return [
        {
            "name": value.name,
            "dtype": DType.from_onnx(value.type.tensor_type.elem_type).long
            if value.type.HasField("tensor_type")
            else (value.type.WhichOneof("value") or "unknown"),
            "shape": [_dim(dim) for dim in value.type.tensor_type.shape.dim]
            if value.type.tensor_type.HasField("shape")
            else None,
        }
        for value in values
    ]


def _dim(dim: onnx.TensorShapeProto.Dimension) -> int | str:
    return dim.dim_value if dim.HasField("dim_value") else dim.dim_param or "?"


def model_lines(record: dict[str, Any], *, nodes: bool) -> list[str]:
    """The record as text; `nodes` adds the table of ops."""
    opsets = " ".join(f"{domain} {version}" for domain, version in record["source"]["opsets"].items())
    lines = [f"{record['model']}  an ONNX model, not yet converted: atcpy convert --model {record['model']}"]
    lines.append(
        f"  from       {record['source']['producer'] or 'unknown producer'} ({opsets}, IR {record['ir_version']})"
    )
    for kind in ("inputs", "outputs"):
        for i, value in enumerate(record[kind]):
            lines.append(f"  {kind if i == 0 else '':<10} {value['name']} {value['dtype']} {shape(value['shape'])}")
    lines.append(f"  size       {count_of(record['nodes_before'], 'node')}, {count_of(record['weights'], 'weight')}")
    lines.append(f"  ops        {counts({op['op']: op['count'] for op in record['ops'][:8]})}")
    if nodes:
        lines += ["", *table(("op", "count"), [(op["op"], op["count"]) for op in record["ops"]], right=(1,))]
    return lines
