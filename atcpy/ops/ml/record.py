"""Records of ONNX-ML ops: how their nodes look, and the ops that they are written in."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from atcpy.ir import DType, Value
from atcpy.ir.tensor import Array, Tensor
from atcpy.ops.contrib.expansion import Expansion
from atcpy.ops.contrib.record import Expand, contrib

DOMAIN = "ai.onnx.ml"

# Registers how nodes of an op are expanded, as `contrib` does; the standard's schema checks their attributes.
ml: Callable[..., Callable[[Expand], Expand]] = partial(contrib, domain=DOMAIN)


def features(e: Expansion) -> Value:
    """Return the input as rows of features: a list of features is one row."""
    x = e.operand("X")
    if x.desc.shape is None or len(x.desc.shape) == 2:
        return x
    if len(x.desc.shape) != 1:
        raise e.invalid(f"the features have rank {len(x.desc.shape)}, not 1 or 2")
    return e.reshape(x, (1, -1))


def float_features(e: Expansion) -> Value:
    """Return the rows of features in float32."""
    return e.cast(features(e), DType.FLOAT32)


def floats(e: Expansion, name: str, dtype: DType = DType.FLOAT32) -> Array:
    """Return a list of numbers: the attribute of this name, or its twin that is a tensor; empty if neither is given."""
    tensor = e.node.attrs.get(f"{name}_as_tensor")
    if isinstance(tensor, Tensor):
        return tensor.array.reshape(-1).astype(dtype.numpy)
    return np.asarray(e.node.attrs.get(name, ()), dtype.numpy)


def ints(e: Expansion, name: str) -> Array:
    """Return an attribute that is a list of integers, empty if it is not given."""
    return np.asarray(e.node.attrs.get(name, ()), np.int64)


def texts(e: Expansion, name: str) -> tuple[str, ...]:
    """Return an attribute that is a list of texts, empty if it is not given."""
    value = e.node.attrs.get(name, ())
    assert isinstance(value, tuple)
    return value
