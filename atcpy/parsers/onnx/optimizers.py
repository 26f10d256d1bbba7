"""Optimizers of ai.onnx.preview.training: one node for each tensor that they update."""

from atcpy.ir import Value
from atcpy.parsers.onnx.upgrade import Upgrade, normalizes

_DOMAIN = "ai.onnx.preview.training"
# How many lists of tensors stand behind the rate R and the count T, and how many lists of results.
_OPTIMIZERS = {"Adagrad": (3, 2), "Adam": (4, 3), "Momentum": (3, 2)}


def split_by_tensor(up: Upgrade) -> None:
    """(R, T, X1, X2, G1, G2, …) is (R, T, X1, G1, …) and (R, T, X2, G2, …)."""
    lists, results = _OPTIMIZERS[up.node.op_type]
    rate, count, *tensors = up.node.inputs
    number = len(tensors) // lists
    if number * lists != len(tensors) or number * results != len(up.node.outputs):
        raise up.invalid(f"has {len(tensors)} tensors and {len(up.node.outputs)} results, it wants {lists} : {results}")
    if number < 2:
        return
    updates: list[list[Value]] = []
    for index in range(number):
        own = [rate, count, *tensors[index::number]]
        updates.append(up.ops(f"{_DOMAIN}::{up.node.op_type}", *own, outputs=results, **up.attrs))
    up.replace_by(*[outputs[output_index] for output_index in range(results) for outputs in updates])


for _name in _OPTIMIZERS:
    normalizes(f"{_DOMAIN}::{_name}")(split_by_tensor)
