"""HOST_CPU: nodes in numpy, by their own records or by the ONNX reference implementation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from atcpy.errors import AtcError, CustomOpError, ModelInvalid, ResourceLimit
from atcpy.ir import Node
from atcpy.ir.tensor import Array
from atcpy.ops import find_opdef
from atcpy.ops.reference import EVALUATION_ERRORS, evaluate_by_onnx

# An array, the list that a sequence is, the dict of a map, None for an optional that is empty.
RuntimeValue = Any


def evaluate(node: Node, values: Sequence[RuntimeValue], room: Sequence[Array] | None = None) -> Sequence[RuntimeValue]:
    """The outputs of a node, in the arrays `room` if whoever computes them can write there.

    Raises ModelInvalid (D0001) for values that it cannot work with, ResourceLimit for want of memory, CustomOpError for
    what a user's operator does.
    """
    opdef = find_opdef(node)
    try:
        with np.errstate(all="ignore"):
            if opdef is not None and opdef.compute is not None:
                return opdef.compute(node, values, room)
            return (evaluate_by_onnx if opdef is None or opdef.evaluate is None else opdef.evaluate)(node, values)
    except CustomOpError:
        raise
    except AtcError as error:
        raise ModelInvalid("D0001", error.what, where=node) from error
    except EVALUATION_ERRORS as error:
        raise ModelInvalid("D0001", f"{type(error).__name__}: {error}", where=node) from error
    except MemoryError as error:
        raise ResourceLimit("R0001", "no memory for its results", where=node) from error


def evaluate_static(node: Node, arrays: Sequence[Array | None], room: Sequence[Array] | None = None) -> list[Array]:
    """The outputs of a node whose types are planned: arrays of these types, those of `room` or others."""
    results: list[Array] = []
    for value, result in zip(node.outputs, evaluate(node, arrays, room), strict=True):
        expected = value.desc.static_shape
        if result.shape != expected:
            raise ModelInvalid("D0001", f"its result is {result.shape}, planned {expected}", where=node)
        results.append(np.ascontiguousarray(result, value.desc.dtype.numpy).reshape(expected))
    return results
