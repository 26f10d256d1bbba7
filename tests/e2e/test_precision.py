"""Real models in each precision mode, against ONNX Runtime in float32.

The bound comes from the type and the model, not from what atcpy computes. A mode rounds weights, inputs and operands:
each number x moves by u·|x| at most, u being half the epsilon of the type. ONNX Runtime computes the model with every
float that the type cannot hold moved at random by so much, `DRAWS` times. What an output moves by then is what the
rounding of weights and inputs does to it, through all the layers between. Operands that are rounded on the way do as
much again, and a further draw may do more: hence `FACTOR`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

from atcpy import InferenceSession
from atcpy.ir import DType
from atcpy.ir.tensor import Array
from atcpy.om import writer
from atcpy.options import convert_options
from atcpy.stages.pipeline import compile_model
from atcpy.verify.compare import SCALE_SHARE
from tests.e2e.test_real_models import MODELS, SHAPES, each_of, make_feeds, manifest, needs_models

DRAWS = 4
FACTOR = 3
HALVES = {"float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16)}
MODES = {
    "force_fp16": "float16",
    "allow_fp32_to_fp16": "float16",
    "cube_fp16in_fp32out": "float16",
    "allow_mix_precision_fp16": "float16",
    "allow_mix_precision_bf16": "bfloat16",
}
# Models in which force_fp16 finds nothing to lower: their float32 is in bodies or beside integers, or there is none.
NOTHING = {"cntk_scan_lstm", "kws_static_qdq", "mobilenet_edgetpu_qdq_part", "silero_vad", "squeezenet_fp16"}


def moved(array: Array, half: np.dtype[np.generic], rng: np.random.Generator) -> Array:
    """The floats that a type cannot hold, each moved at random by up to half the distance of the type's numbers."""
    with np.errstate(over="ignore"):
        inexact = np.isfinite(array) & (array.astype(half).astype(array.dtype) != array)
    info = ml_dtypes.finfo(half)
    largest = np.maximum(np.abs(array) * (float(info.eps) / 2), float(info.smallest_subnormal) / 2)
    return np.where(inexact, array + rng.uniform(-1, 1, array.shape) * largest, array).astype(array.dtype)


def constants(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if node.op_type == "Constant" and attribute.name == "value":
                yield attribute.t


def run(model: onnx.ModelProto, feeds: dict[str, Array]) -> list[Array]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return [np.asarray(result) for result in session.run(None, feeds)]


@cache
def exact_and_bounds(name: str, half_name: str) -> tuple[dict[str, Array], list[Array], list[float]]:
    """Inputs of a model, its outputs in float32, and by how much each may differ where a type of 16 bits rounds."""
    half, rng = HALVES[half_name], np.random.default_rng(5)
    model = onnx.load(MODELS / f"{name}.onnx")
    unchanged = writer.to_bytes(compile_model(MODELS / f"{name}.onnx", convert_options({}))[0])
    feeds = make_feeds(name, InferenceSession(unchanged), SHAPES.get(name, [{}])[0], seed=0)
    exact = run(model, feeds)
    moves = [0.0 for _ in exact]
    for _ in range(DRAWS):
        other = onnx.ModelProto()
        other.CopyFrom(model)
        for tensor in constants(other.graph):
            if tensor.data_type == onnx.TensorProto.FLOAT:
                tensor.CopyFrom(numpy_helper.from_array(moved(numpy_helper.to_array(tensor), half, rng), tensor.name))
        fed = {key: moved(x, half, rng) if x.dtype == np.float32 else x for key, x in feeds.items()}
        for index, (result, reference) in enumerate(zip(run(other, fed), exact, strict=True)):
            if reference.dtype.kind == "f":
                moves[index] = max(moves[index], float(np.abs(result - reference).max(initial=0)))
    scales = [float(np.abs(a).max(initial=0)) if a.dtype.kind == "f" else 0.0 for a in exact]
    # Where nothing is rounded, two computations in the type of the output may differ as verify allows.
    own = [SCALE_SHARE.get(DType.from_numpy(a.dtype), 0.0) * scale for a, scale in zip(exact, scales, strict=True)]
    return feeds, exact, [share + FACTOR * move for share, move in zip(own, moves, strict=True)]


@needs_models
@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@each_of([*manifest()])
def test_results_are_as_exact_as_the_type_allows(name: str, mode: str) -> None:
    package, report = compile_model(MODELS / f"{name}.onnx", convert_options({"precision_mode": mode}))
    assert mode != "force_fp16" or bool(report.precision.lowered) == (name not in NOTHING)
    assert {op.op for op in report.host_cpu_ops} == set()
    feeds, exact, bounds = exact_and_bounds(name, MODES[mode])
    results = InferenceSession(writer.to_bytes(package), threads=2).run(None, feeds)
    for port, result, reference, bound in zip(package.outputs, map(np.asarray, results), exact, bounds, strict=True):
        assert (result.dtype, result.shape) == (reference.dtype, reference.shape)
        if reference.dtype.kind == "f":
            assert np.abs(result - reference).max(initial=0) <= bound, port.name
