"""What the model of a golden file computes, by an oracle."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from atcpy import InferenceSession
from atcpy.ir.tensor import Array
from tests.ort import open_ort


class Oracle(Protocol):
    """Who knows the right numbers."""

    def run(self, output_names: None, feeds: dict[str, Array], /) -> Any:
        """Return the outputs for some inputs."""


def oracle_of(model: onnx.ModelProto, kind: str) -> Oracle:
    if kind == "reference":
        return ReferenceEvaluator(model)
    if kind == "alone":  # one rank, whose collectives give what they get
        model = onnx.ModelProto.FromString(model.SerializeToString())
        for node in model.graph.node:
            if node.op_type in {"AllReduce", "HcomAllReduce"}:
                node.CopyFrom(onnx.helper.make_node("Identity", node.input, node.output))
    session: Oracle = open_ort(model, optimized=True)
    return session


# Halves are rounded once more than floats on either side. bfloat16 has three bits less than float16.
_HALF_TOLERANCES = {"float16": 2e-3, "bfloat16": 8 * 2e-3}


def check_numbers(
    model: onnx.ModelProto, package: bytes, oracle_kind: str, *, halves: frozenset[str] = frozenset()
) -> None:
    """Check over three seeds that the package gives what the oracle gives. `halves` are types to which it may round
    where the oracle does not.
    """
    session = InferenceSession(package, threads=1)
    oracle = oracle_of(model, oracle_kind)
    sizes: dict[str, int] = {}  # of open dims
    for seed in range(3):
        rng = np.random.default_rng(seed)
        feeds = {}
        for port in session.get_inputs():
            assert port.shape is not None
            shape = [dim if isinstance(dim, int) else sizes.setdefault(dim, 2 + len(sizes)) for dim in port.shape]
            noise = rng.standard_normal(shape) if port.dtype.is_float else rng.integers(0, 4, shape)
            feeds[port.name] = noise.astype(port.dtype.numpy)
        for ours, theirs in zip(session.run(None, feeds), oracle.run(None, feeds), strict=True):
            scale = max(float(np.abs(theirs).max(initial=0)), 1e-6)
            rounded = halves | ({"float16"} if theirs.dtype == np.float16 else set())
            tolerance = max((_HALF_TOLERANCES.get(name, 1e-5) for name in rounded), default=1e-5)
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=tolerance * scale)
