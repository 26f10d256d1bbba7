"""Nodes that hand an input through: Identity, Dropout at inference, no-op Cast, Transpose, x·1, Not(Not(x)) …

A neutral element is one to the bit: x + 0 makes +0 of −0, so that only −0 is neutral for the sum of floats. An operand
that would make the result larger or of another type is none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from atcpy.ir import Graph, Node, PassRecord, Reject, Value, erase_dead
from atcpy.ir.shape import element_count
from atcpy.ir.symbolic import same_shape
from atcpy.ops import Trait, all_opdefs, find_opdef
from atcpy.options import PrepareOptions
from atcpy.passes.base import graph_pass
from atcpy.passes.phase import Phase

MAX_NEUTRAL = 1 << 16  # elements of a constant that are looked at
_SAME_TYPE = Trait.CONVERSION | Trait.IDEMPOTENT | Trait.INVOLUTION | Trait.VARIADIC


def handed_through(node: Node) -> Value | None:
    """The value that output 0 always equals in type, shape and elements; None if there is none."""
    if node.op_type not in _CANDIDATES or node.domain or any(value.use_count for value in node.outputs[1:]):
        return None
    value = _candidate(node)
    if value is None:
        return None
    if node.op_type == "Identity":
        return value  # of what, behind an op that nobody knows, is not known, nor need it be
    x, y = value.desc, node.output.desc
    return value if x.dtype is y.dtype and x.shape is not None and same_shape(x.shape, y.shape) else None


def _candidate(node: Node) -> Value | None:
    """An input that output 0 equals if their types and shapes are one."""
    first, opdef = node.input(0), find_opdef(node)
    if first is None or opdef is None:
        return None
    if node.op_type == "Where":
        return _chosen(node)
    if node.op_type in _CHECKS:
        return first if _CHECKS[node.op_type](node) else None
    if opdef.has_any(Trait.CONVERSION) or (opdef.has_any(Trait.VARIADIC) and node.input_count == 1):
        return first
    if opdef.neutral is not None and node.input_count == 2:
        for index in opdef.neutral.inputs:
            if _is_neutral(node.operand(index), opdef.neutral.value):
                return node.operand(1 - index)
    above = first.producer
    is_repeated = above.op_type == node.op_type and not above.domain
    if opdef.has_any(Trait.INVOLUTION):
        return above.input(0) if is_repeated else None
    if not opdef.has_any(Trait.IDEMPOTENT):
        return None
    if opdef.has_any(Trait.REDUCTION) or (is_repeated and node.input_count == 1):
        return first
    return first if node.input_count > 1 and all(value is first for value in node.operands) else None


def _keeps_all(node: Node) -> bool:
    """Is a Dropout not in training mode?"""
    training = node.input(2)
    return training is None or (training.tensor is not None and not training.array.any())


def _keeps_order(node: Node) -> bool:
    axes = range(len(node.operand(0).desc.shape or ()))
    return node.ints_attr("perm", axes[::-1]) == tuple(axes)


def _keeps_size(node: Node) -> bool:
    """Does a Resize neither crop nor scale?"""
    cropped = node.str_attr("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize"
    return not cropped and (node.input(3) is not None or _holds(node.input(2), 1))


# Which nodes give input 0 where type and shape stay, of ops that often do not.
_CHECKS: Mapping[str, Callable[[Node], bool]] = {
    "Clip": lambda node: node.input(1) is None and node.input(2) is None,
    "Dropout": _keeps_all,
    "Pad": lambda node: _holds(node.input(1), 0),
    "Resize": _keeps_size,
    "Slice": lambda node: node.input(4) is None or _holds(node.input(4), 1),
    "Split": lambda node: len(node.outputs) == 1,
    "Transpose": _keeps_order,
}
_CANDIDATES = (
    {opdef.name for opdef in all_opdefs() if opdef.has_any(_SAME_TYPE) or opdef.neutral is not None}
    | _CHECKS.keys()
    | {"Where"}
)


def _chosen(node: Node) -> Value | None:
    condition, yes, no = (node.operand(index) for index in range(3))
    if yes is no or _holds(condition, 1):
        return yes
    return no if _holds(condition, 0) else None


def _holds(value: Value | None, number: float) -> bool:
    """Is it a constant, not too large to look at, whose elements all are this number?"""
    tensor = None if value is None else value.tensor
    if tensor is None or element_count(tensor.shape) > MAX_NEUTRAL:
        return False
    array = tensor.array
    if array.dtype.kind not in "biuf":
        return False
    return not array.size or (array.item(0) == number and bool((array == number).all()))


def _is_neutral(value: Value, neutral: float) -> bool:
    """Is it a constant of this number, to the bit: zeros of floats have a sign?"""
    if not _holds(value, neutral):
        return False
    is_float = value.array.dtype.kind == "f"
    return neutral != 0 or not is_float or bool((np.signbit(value.array) == np.signbit(neutral)).all())


@graph_pass("IdentityPass", Phase.CLEAN_UP, repeats=True)
def remove_identity(graph: Graph, record: PassRecord, options: PrepareOptions) -> None:
    """Remove nodes that change nothing."""
    for node in graph.nodes:
        value = handed_through(node)
        if value is not None:
            if not record.may_apply():
                break
            record.matched += 1
            record.fire([node])
            graph.replace_uses(node.output, value)
            erase_dead(graph, [node], "identity")
        elif node.op_type == "Add" and any(_holds(addend, 0) for addend in node.operands):
            record.matched += 1
            record.reject(Reject("negative-zero", node.name))
