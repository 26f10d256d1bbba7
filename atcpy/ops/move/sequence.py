"""ReverseSequence: one launch of `reverse_sequence`."""

from __future__ import annotations

import math
from collections.abc import Iterable

from atcpy.errors import ModelInvalid
from atcpy.ir import Engine, Node, Reject
from atcpy.ops.core.opdef import KernelCall, OpDef, ParamValue, register_operator
from atcpy.ops.core.strided import item_bytes, rejects_value
from atcpy.ops.core.structural import same_as_input


def _batch_first(node: Node) -> bool:
    batch, time = node.int_attr("batch_axis", 1), node.int_attr("time_axis", 0)
    if {batch, time} != {0, 1}:
        raise ModelInvalid("E13014", where=node, what=f"batch_axis = {batch}, time_axis = {time} are not 0 and 1")
    return batch == 0


def supports_reverse_sequence(node: Node) -> Iterable[Reject]:
    """Known shapes, elements of whole bytes, a length for each batch."""
    x, lens = node.operand(0).desc, node.operand(1).desc
    for desc in (x, lens):
        yield from rejects_value(node, desc)
    if x.is_static and lens.is_static and lens.static_shape != (x.static_shape[not _batch_first(node)],):
        what = f"sequence_lens is {lens}, needs one for each batch of {x}"
        raise ModelInvalid("EZ8888", where=node, what=what)


def lower_reverse_sequence(node: Node) -> Iterable[KernelCall]:
    """One launch."""
    x = node.operand(0)
    first, second, *rest = x.desc.static_shape
    batch_first = _batch_first(node)
    batches, steps = (first, second) if batch_first else (second, first)
    params: dict[str, ParamValue] = {
        "steps": steps, "batches": batches, "inner": math.prod(rest), "item": item_bytes(x.desc.dtype),
        "batch_first": int(batch_first),
    }  # fmt: skip
    if x.desc.elements:
        yield KernelCall("reverse_sequence", (x, node.operand(1)), (node.output,), params)


register_operator(
    OpDef(
        name="ReverseSequence",
        infer=same_as_input,
        engines={Engine.AICPU: supports_reverse_sequence},
        lower=lower_reverse_sequence,
    )
)
