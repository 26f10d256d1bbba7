"""HOST_CPU: nodes in numpy, by their own records or by the ONNX reference implementation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from atcpy.errors import AtcError, CustomOpError, ModelInvalid, ResourceLimit, Unsupported, Where
from atcpy.ir import Graph, Node, Tensor
from atcpy.ir.tensor import Array
from atcpy.ops import Trait, find_opdef
from atcpy.ops.core.infer import KnownValues, infer_node
from atcpy.ops.core.reference import EVALUATION_ERRORS, evaluate_node
from atcpy.options import default_memory_bytes
from atcpy.sizes import MemoryLimit

# An array, a list for a sequence, a dict for a map, None for an empty optional.
RuntimeValue = Any


def evaluate(node: Node, values: Sequence[RuntimeValue], out: Sequence[Array] | None = None) -> Sequence[RuntimeValue]:
    """Compute the outputs of a node, in the arrays `out` if the implementation can write there.

    Raises ModelInvalid (D0001) for values that it cannot process, ResourceLimit if there is no memory, CustomOpError if
    a user's operator fails, Unsupported (E10055) if the op is one of the ONNX reference implementation alone and `onnx`
    is not installed.
    """
    opdef = find_opdef(node)
    try:
        with np.errstate(all="ignore"):
            if opdef is not None and opdef.compute is not None:
                return opdef.compute(node, values, out)
            if opdef is None or not opdef.has_any(Trait.EAGER):  # which only move data, as numpy does at once
                _check_results(node, values)
            return evaluate_node(node, values)
    except (CustomOpError, ResourceLimit):
        raise
    except AtcError as error:
        raise ModelInvalid("D0001", error.what, where=node) from error
    except EVALUATION_ERRORS as error:
        raise ModelInvalid("D0001", f"{type(error).__name__}: {error}", where=node) from error
    except MemoryError as error:
        raise ResourceLimit("R0001", "no memory for its results", where=node) from error
    except ModuleNotFoundError as error:
        what = f"the host runs {node.op_type} by the reference implementation of ONNX, which is not installed: {error}"
        raise Unsupported("E10055", what, where=node, hint="pip install onnx") from error


def _check_results(node: Node, values: Sequence[RuntimeValue]) -> None:
    """Raise what inference says of a node of unknown results, with the elements of its operands known; ResourceLimit if
    the results would take more than the memory: the reference implementation builds them piece by piece.
    """
    if all(value.desc.is_static for value in node.outputs) or any(isinstance(value, list | dict) for value in values):
        return
    graph = Graph(node.name)
    inputs = [None if value is None else graph.add_const(Tensor.of(np.asarray(value)), "") for value in values]
    names = [value.name for value in node.outputs]
    twin = graph.append(node.op_type, inputs, node.attrs, name=node.name, outputs=names, domain=node.domain)
    infer_node(twin, KnownValues())
    needed = sum(value.desc.nbytes for value in twin.outputs if value.desc.is_static)
    MemoryLimit(default_memory_bytes()).check(needed, f"{node.op_type} {node.name}", where=Where(node=node.name))


def as_arrays(results: Sequence[RuntimeValue]) -> list[RuntimeValue]:
    """Make arrays of numpy's scalars, and all arrays contiguous."""
    return [
        np.asarray(result, order="C") if isinstance(result, np.ndarray | np.generic) else result for result in results
    ]


def evaluate_static(node: Node, arrays: Sequence[Array | None], out: Sequence[Array] | None = None) -> list[Array]:
    """Compute the outputs of a node whose types are planned; they may be the arrays `out` or others."""
    results: list[Array] = []
    for value, result in zip(node.outputs, evaluate(node, arrays, out), strict=True):
        expected = value.desc.static_shape
        if result.shape != expected:
            raise ModelInvalid("D0001", f"its result is {result.shape}, planned {expected}", where=node)
        results.append(np.ascontiguousarray(result, value.desc.dtype.numpy).reshape(expected))
    return results
