"""Errors of packages and of ONNX Runtime against the same model in float64.

    python benchmarks/float64_errors.py models/generated/resnet50.onnx … [--feeds DIR]

Prints a table in Markdown with the largest error of each model's outputs, relative to the largest magnitude of the
output: of a package as `convert` makes it, of one of --op_select_implmode=high_precision, and of ONNX Runtime. Exit
status 1 if the default is off by more than 1e-4, or high_precision by more than 4 times ONNX Runtime's error and more
than the last digit of the largest result. Results in float16 may lose what their type does on top of 1e-4.

In float64, the ONNX reference computes the model with each float widened, node by node; models with bodies, whose nodes
it cannot walk, are rewritten to float64 and run by the reference evaluator. Outputs of integers are not compared.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import numpy as np
import onnx
import onnxruntime as ort
import typer
from bounds import end_with_bounds
from feeds import Array, Feeds, load_feeds, relative_error
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

import atcpy
from atcpy.errors import AtcError
from atcpy.verify.float64 import ORACLE_ERRORS, evaluate_in_float64

BOUND: Final = 1e-4  # of the default, relative to an output's scale
LAST_DIGIT: Final = float(np.finfo(np.float32).eps)  # of the largest result
FLOAT16, FLOAT, DOUBLE = onnx.TensorProto.FLOAT16, onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE


@dataclass(frozen=True)
class Errors:
    """The errors of a model; `theirs` is None where ONNX Runtime does not run it. `rounding` is what the type of the
    outputs loses if it is of 16 bits.
    """

    model: str
    default: float
    high_precision: float
    theirs: float | None
    rounding: float = 0.0

    @property
    def misses(self) -> list[str]:
        """Which bounds are not kept."""
        missed = []
        if self.default > BOUND + self.rounding:
            missed.append("default")
        if self.theirs is not None and self.high_precision > max(ORACLE_ERRORS * self.theirs, LAST_DIGIT):
            missed.append("high_precision")
        return missed


def measure(model: Path, feeds: Feeds, threads: int) -> Errors | None:
    """The errors of a model; None if nobody computes it in float64. Raises AtcError if it does not convert."""
    exact = evaluate_exactly(onnx.load(model), feeds)
    if exact is None:
        return None
    names = [name for name, array in exact.items() if np.issubdtype(array.dtype, np.floating)]

    def error(outputs: Sequence[Array]) -> float:
        return relative_error(outputs, [exact[name] for name in names])

    ours = []
    for options in ({}, {"op_select_implmode": "high_precision"}):
        with tempfile.TemporaryDirectory() as folder:
            atcpy.convert(model, Path(folder) / "m.om", **options)
            with atcpy.InferenceSession(Path(folder) / "m.om", threads=threads) as session:
                outputs = session.run(names, feeds)
        ours.append(error(outputs))
    rounding = 2.0**-11 if any(array.dtype == np.float16 for array in outputs) else 0.0
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    try:
        theirs = error(ort.InferenceSession(model, options, ["CPUExecutionProvider"]).run(names, feeds))
    except Exception:  # noqa: BLE001 (its errors have no common base)
        theirs = None
    return Errors(model.stem, *ours, theirs, rounding)


def evaluate_exactly(model: onnx.ModelProto, feeds: Feeds) -> Mapping[str, Array] | None:
    """The outputs in float64, by name; None if nobody computes them."""
    if any(value.type.tensor_type.elem_type == FLOAT16 for value in model.graph.output):
        _retype(model.graph, FLOAT16, FLOAT)
        feeds = {
            name: array.astype(np.float32) if array.dtype == np.float16 else array for name, array in feeds.items()
        }
    exact = evaluate_in_float64(model, feeds)
    if exact is not None or not any(attr.HasField("g") for node in model.graph.node for attr in node.attribute):
        return exact
    _retype(model.graph, FLOAT, DOUBLE)
    try:
        evaluator = ReferenceEvaluator(model)
        wide = {name: array.astype(np.float64) if array.dtype == np.float32 else array for name, array in feeds.items()}
        with np.errstate(all="ignore"):
            results = evaluator.run(None, wide)
    except Exception:  # noqa: BLE001 (what the reference raises for ops and types that it lacks, has no common base)
        return None
    return dict(zip(evaluator.output_names, map(np.asarray, results), strict=True))


def _retype(graph: onnx.GraphProto, old: int, new: int) -> None:
    """Make another type of each tensor of one type in a graph and its bodies."""
    tensors = list(graph.initializer)
    for value in (*graph.input, *graph.output, *graph.value_info):
        if value.type.tensor_type.elem_type == old:
            value.type.tensor_type.elem_type = new
    for node in graph.node:
        for attr in node.attribute:
            if attr.type == onnx.AttributeProto.GRAPH:
                _retype(attr.g, old, new)
            elif attr.type == onnx.AttributeProto.TENSOR:
                tensors.append(attr.t)
            elif attr.name in {"to", "dtype"} and attr.i == old:
                attr.i = new
    for tensor in tensors:
        if tensor.data_type == old:
            array = numpy_helper.to_array(tensor).astype(onnx.helper.tensor_dtype_to_np_dtype(new))
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def table(rows: Sequence[Errors]) -> Iterator[str]:
    """The rows in Markdown."""
    yield "| model | default | high_precision | ONNX Runtime | default / ORT | high_precision / ORT | missed |"
    yield "| --- |" + " ---: |" * 5 + " --- |"
    for row in rows:
        theirs = row.theirs
        ratios = ("-", "-") if not theirs else (f"{row.default / theirs:.2f}", f"{row.high_precision / theirs:.2f}")
        errors = (f"{row.default:.1e}", f"{row.high_precision:.1e}", "-" if theirs is None else f"{theirs:.1e}")
        yield f"| `{row.model}` | {' | '.join((*errors, *ratios))} | {', '.join(row.misses)} |"


def main(
    models: Annotated[list[Path], typer.Argument(metavar="MODEL.onnx...", exists=True, dir_okay=False)],
    feeds: Annotated[Path | None, typer.Option(help="folder of inputs: MODEL.npz, or MODEL.*.npz with in/NAME")] = None,
    threads: Annotated[int, typer.Option(min=1, help="threads of the sessions")] = 1,
    json_file: Annotated[Path | None, typer.Option("--json", help="write the figures to this file")] = None,
) -> None:
    """Prints the errors of each model against float64."""
    rows: list[Errors] = []
    print("\n".join(table([])))
    for model in models:
        try:
            row = measure(model, load_feeds(model, feeds), threads)
        except AtcError as error:
            print(f"{model.stem}: {error.code} {error.what}", file=sys.stderr)
            continue
        if row is None:
            print(f"{model.stem}: not computed in float64", file=sys.stderr)
            continue
        rows.append(row)
        print(list(table([row]))[-1], flush=True)
    end_with_bounds(rows, json_file)


if __name__ == "__main__":
    typer.run(main)
