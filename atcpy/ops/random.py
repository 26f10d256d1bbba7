"""Ops that draw random numbers: never folded, never merged, compared by type and shape only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from atcpy.ir import DType, Node
from atcpy.ir.tensor import Array
from atcpy.ops.core.opdef import OpDef, Trait, register_operator


def evaluate_multinomial(node: Node, arrays: Sequence[Array | None]) -> Sequence[Array]:
    """Classes drawn by their unnormalised log-probabilities [batch, classes]; the ONNX reference has no Multinomial."""
    (logits,) = arrays
    assert logits is not None
    wide = logits.astype(np.float64)
    weights = np.exp(wide - wide.max(axis=1, keepdims=True, initial=-np.inf))
    upto = np.cumsum(weights, axis=1)
    seed = int(node.float_attr("seed", 0)) if "seed" in node.attrs else None
    drawn = np.random.default_rng(seed).random((len(wide), node.int_attr("sample_size", 1)))
    classes = (drawn[:, :, None] * upto[:, None, -1:] >= upto[:, None, :]).sum(axis=2)
    return [classes.astype(DType.from_onnx(node.int_attr("dtype", DType.INT32.onnx)).numpy)]


register_operator(OpDef(name="Multinomial", evaluate=evaluate_multinomial, traits=Trait.RANDOM))
for _name in ("Bernoulli", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"):
    register_operator(OpDef(name=_name, traits=Trait.RANDOM))
