"""Shape arithmetic whose result is known by names: what exporters write around a Reshape with an open batch.

Reshape(x, Concat(Gather(Shape(x), 0), −1, 8))  →  Reshape(x, [0, −1, 8])
Expand(x, s), where s asks for what x has         →  Expand(x, constant)
two computations of the same sizes                →  one

A size is what symbolic inference says; where it says nothing, or only at run time, all stays.
"""

from __future__ import annotations

from collections.abc import Hashable

from atcpy.ir import Graph, Node, PassRecord, Reject, Rewriter, Sym, Value, erase_dead
from atcpy.ir.shape import Dim
from atcpy.ir.symbolic import same
from atcpy.ops.core.infer import KnownValues, infer_node, propagate
from atcpy.ops.core.shape_values import UNNAMED
from atcpy.options import PrepareOptions
from atcpy.passes.base import graph_pass
from atcpy.passes.layout_chain import has_named_dims, view_step
from atcpy.passes.phase import Phase


@graph_pass("ShapeSubgraphPass", Phase.MOVE, before=("TransposeReshapeMergePass",), repeats=True)
def simplify_sizes(graph: Graph, record: PassRecord, options: PrepareOptions) -> None:
    """Replace shape arithmetic by constants where names of sizes prove it, and do what is left once."""
    known = KnownValues()
    first: dict[Hashable, Value] = {}
    for node in graph.nodes:
        match node.op_type:
            case "Reshape" | "Expand":
                _replace_operand(graph, node, 1, known, record)
            case "Slice":
                _replace_operand(graph, node, 2, known, record)
        if node.op_type == "Const" or not node.outputs or not node.output.desc.dtype.is_int:
            continue
        propagate(node, known)
        elements = known(node.output)
        if not elements or UNNAMED in elements or not any(isinstance(item, Sym) for item in elements):
            continue
        key = (node.output.desc.dtype, node.output.desc.shape, elements)
        twin = first.get(key)
        if twin is None or twin.producer.graph is None:  # nobody reads it any more
            first[key] = node.output
        elif record.may_apply() and all(value.use_count == 0 for value in node.outputs[1:]):
            record.matched += 1
            record.fire([node])
            graph.replace_uses(node.output, twin)
            erase_dead(graph, [node], "folded")


def _replace_operand(graph: Graph, node: Node, index: int, known: KnownValues, record: PassRecord) -> None:
    """Makes the operand that holds sizes a constant."""
    sizes = node.input(index)
    elements = known(sizes)
    if node.domain or sizes is None or sizes.tensor is not None or elements is None:
        return
    dtype = sizes.desc.dtype
    recipe = _recipe(node, elements, 2 ** (dtype.bits - 1) - 1)
    rejects = [Reject("sizes-differ", node.name)] if recipe is None else []
    if not record.accept([node, sizes.producer], *rejects) or recipe is None:
        return
    rw = Rewriter(graph, node, record.name, [node])
    graph.set_input(node, index, rw.const(recipe, dtype, name=f"{node.name}_sizes"))
    node.attrs.pop("allowzero", None)
    node.passes = (*node.passes, record.name)
    declared = node.output.desc
    infer_node(node, known)
    node.output.desc = declared  # sizes that −1 stands for keep their names
    erase_dead(graph, [sizes.producer], "folded")


def _recipe(node: Node, elements: tuple[Dim, ...], largest: int) -> tuple[int, ...] | None:
    """Numbers that ask for the same as elements with names; a Slice to the end is written with the largest."""
    before, after = node.operand(0).desc.shape, node.output.desc.shape
    if before is None or after is None:
        return None
    if node.op_type == "Reshape":
        step = view_step(before, after) if has_named_dims(after) and has_named_dims(before) else None
        return step.numbers if step is not None and step.op_type == "Reshape" else None
    if node.op_type == "Expand":
        aligned = ((1,) * len(elements) + before)[-len(elements) :] if elements else ()
        recipe = [1 if _is_that(item, have) else item for item, have in zip(elements, aligned, strict=True)]
    else:
        axes = known_axes(node, len(elements))
        if axes is None:
            return None
        recipe = [largest if _is_that(item, before[axis]) else item for item, axis in zip(elements, axes, strict=True)]
    numbers = tuple(item for item in recipe if isinstance(item, int))
    return numbers if len(numbers) == len(elements) else None


def _is_that(item: Dim, dim: Dim) -> bool:
    return item != UNNAMED and same(item, dim)


def known_axes(node: Node, count: int) -> tuple[int, ...] | None:
    """The axes of a Slice that goes forwards; None if they or its steps come at run time."""
    axes, steps = node.input(3), node.input(4)
    if any(value is not None and value.tensor is None for value in (axes, steps)):
        return None
    if steps is not None and (steps.array <= 0).any():
        return None
    return tuple(range(count)) if axes is None else tuple(int(axis) for axis in axes.array)
