"""Computing constants before run time: a node whose inputs are all constant becomes a constant, if that pays.

Results beyond the limits stay computed at run time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from atcpy.errors import ModelInvalid
from atcpy.ir import DType, Graph, Node, PassRecord, Reject, Rewriter, Tensor, TensorDesc, Value, erase_dead, is_static
from atcpy.ir.shape import Dim, StaticShape, element_count
from atcpy.ir.symbolic import is_symbolic
from atcpy.ir.tensor import Array
from atcpy.ops import Trait, find_opdef, has_trait
from atcpy.ops.core.half import ROUNDS_BF16
from atcpy.ops.core.infer import KnownValues, infer_node
from atcpy.ops.core.reference import evaluate_node, find_schema
from atcpy.options import PrepareOptions, Stage

NAME = "ConstantFoldingPass"
SMALL_BYTES = 64 * 1024  # always folded: below this no growth is worth a thought
GROWTH_OF_ONE = 4  # a larger result may be so many times its inputs
MAX_FOLD_WORK = 10**9  # element operations a node
# Quantised weights stay what they are until the products that take them as integers have been found.
FOLDED_LATER = "DequantizeLinear"


class Budget:
    """How many bytes folding may still add, net of the constants that it makes superfluous."""

    def __init__(self, graph: Graph, options: PrepareOptions) -> None:
        weights = sum(
            node.output.desc.nbytes for node in graph.nodes if node.op_type == "Const" and _sized(node.output)
        )
        self.left = max(int(weights * max(options.max_growth - 1, 0)), 1 << 20)
        self.largest = options.max_const_bytes

    def objects_to(self, node: Node, shapes: Sequence[StaticShape]) -> Reject | None:
        """None if the results may become constants, else why not."""
        nbytes = sum(
            value.desc.dtype.nbytes(element_count(shape)) for value, shape in zip(node.outputs, shapes, strict=True)
        )
        if _work(node, shapes) > MAX_FOLD_WORK:
            return Reject("folding-too-slow", node.name)
        if nbytes <= SMALL_BYTES:
            return None
        read = sum(value.desc.nbytes for value in node.operands)
        freed = sum(value.desc.nbytes for value in node.operands if value.use_count == 1)
        if nbytes <= freed:
            return None
        if nbytes > self.largest:
            return Reject("constant-too-large", node.name, f"{nbytes} bytes")
        if nbytes > GROWTH_OF_ONE * read or nbytes - freed > self.left:
            return Reject("constant-grows", node.name, f"{nbytes} bytes from {read}")
        self.left -= nbytes - freed
        return None


def _work(node: Node, shapes: Sequence[StaticShape]) -> int:
    """An upper bound of element operations; matrix products and windows are the ones that matter."""
    results = sum(element_count(shape) for shape in shapes)
    opdef = find_opdef(node)
    if opdef is not None and opdef.multiplications is not None:
        return opdef.multiplications(node)
    return results + sum(value.desc.elements for value in node.operands)


def _sized(value: Value) -> bool:
    return value.desc.is_static and value.desc.dtype is not DType.UNDEFINED


def fold(graph: Graph, node: Node, known: KnownValues, budget: Budget, record: PassRecord) -> None:
    """Makes a node's outputs constants if its inputs are, or if its elements are known."""
    elements = known.computed(node.outputs[0]) if len(node.outputs) == 1 else None
    is_known = elements is not None and all(isinstance(item, int) for item in elements)
    if not is_known and not _is_constant(node):
        return  # which is what most nodes do
    if node.is_structural or has_trait(node, Trait.RANDOM) or not all(_sized(value) for value in node.outputs):
        return
    if elements is not None and is_known and any(map(is_symbolic, elements)):
        _replace_by_shape_value(graph, node, elements)
        record.applied += 1
        return
    if is_known:
        arrays: Sequence[Array] = [
            np.array(elements, node.output.desc.dtype.numpy).reshape(node.output.desc.static_shape)
        ]
        record.matched += 1
    else:
        opdef = find_opdef(node)
        if (opdef is None or opdef.evaluate is None) and find_schema(node.op_type, node.domain) is None:
            return
        record.matched += 1
        objection = budget.objects_to(node, [value.desc.static_shape for value in node.outputs])
        if objection is not None:
            record.reject(objection)
            return
        record.deadline.check(f"constant folding of {node.op_type} {node.name}")
        arrays = _evaluate(node)
    _replace_by_constants(graph, node, arrays)
    record.applied += 1


def _is_constant(node: Node) -> bool:
    """True if it reads nothing but constants."""
    for value in node.inputs:  # noqa: SIM110  asked of every node: `all` would take twice as long
        if value is not None and value.producer.op_type != "Const":
            return False
    return True


def _evaluate(node: Node) -> Sequence[Array]:
    inputs = [None if value is None else value.array for value in node.inputs]
    try:
        with np.errstate(all="ignore"):
            return evaluate_node(node, inputs)
    except (ValueError, IndexError, TypeError, ZeroDivisionError, OverflowError, OSError) as error:
        raise ModelInvalid("EZ8888", f"it cannot be computed from its constants: {error}", where=node) from error


def _replace_by_constants(graph: Graph, node: Node, arrays: Sequence[Array]) -> None:
    for value, array in zip(node.outputs, arrays, strict=True):
        if value.use_count == 0:
            continue
        desc = value.desc
        const = graph.add_const(Tensor.of(array, desc.dtype), value.name, before=node)
        graph.take_name(const, value)
        if is_static(desc.shape) and const.desc.shape != desc.shape:
            raise ModelInvalid(
                "EZ8888", f"its constant result is {const.desc.shape}, inferred {desc.shape}", where=node
            )
        const.producer.sources, const.producer.passes = node.sources, (*node.passes, NAME)
        graph.replace_uses(value, const)
    for source in node.sources:
        graph.decisions.removed.setdefault(source, "folded")
    graph.erase(node)


def _replace_by_shape_value(graph: Graph, node: Node, elements: tuple[Dim, ...]) -> None:
    if node.op_type == "ShapeValue":
        return
    value = node.output
    # Its type is part of it, as of a Const: equal elements of another type are another value.
    attrs = {"elements": elements, "dtype": value.desc.dtype.name, "is_scalar": int(value.desc.shape == ())}
    new = graph.append("ShapeValue", (), attrs, name=value.name, before=node)
    new.output.desc = value.desc
    graph.take_name(new.output, value)
    new.sources, new.passes = node.sources, (*node.passes, NAME)
    graph.replace_uses(value, new.output)
    graph.erase(node)


class Finisher:
    """Counts the matches of a pass and ends its rewrites: types and readers of what was created, constants that result,
    and the end of what was replaced.
    """

    def __init__(self, graph: Graph, record: PassRecord, options: object) -> None:
        self._graph = graph
        self._record = record
        self._options = options
        self._budget: Budget | None = None

    def match(self, *nodes: Node, rejects: Iterable[Reject] = (), anchor: Node | None = None) -> Rewriter | None:
        """Count a match of these nodes, and return the rewriter that replaces them, in front of `anchor` (the first of
        them by default); None where a reason stands against it, or the pass has reached its limit.
        """
        if not self._record.accept(nodes, *rejects):
            return None
        return Rewriter(self._graph, anchor or nodes[0], self._record.name, nodes)

    def finish(self, rw: Rewriter, replaced: Iterable[tuple[Value, Value]], dead: Iterable[Node]) -> None:
        """Puts the new value of each pair in the place of the old one. What turned out to be constant is folded, and
        so are its readers; those of `dead` go that nobody reads any more.
        """
        known = KnownValues()
        for created in rw.created:
            if created.op_type != "Const":  # whose type was set when it was created
                infer_node(created, known)
        for old, new in replaced:
            if new.producer in rw.created:
                _keep_sizes(new, old)
                _keep_rounding(new, old)
            rw.replace(old, new)
        self._fold(rw.created)
        erase_dead(self._graph, dead)

    def _fold(self, nodes: Iterable[Node]) -> None:
        waiting = (
            [node for node in nodes if _reads_constants(node)] if isinstance(self._options, PrepareOptions) else []
        )
        record = PassRecord(NAME, Stage.PREPARE.value, deadline=self._record.deadline)
        while waiting:
            node = waiting.pop()
            if node.graph is not self._graph or not _reads_constants(node):
                continue
            users = [user for value in node.outputs for user in value.users]
            infer_node(node, KnownValues())
            fold(self._graph, node, KnownValues(), self._get_budget(), record)
            waiting += users

    def _get_budget(self) -> Budget:
        assert isinstance(self._options, PrepareOptions)
        if self._budget is None:
            self._budget = Budget(self._graph, self._options)
        return self._budget


def _keep_sizes(new: Value, old: Value) -> None:
    """Call the sizes of what stands for a value as that called them: they are the same."""
    if new.desc.shape is None or old.desc.shape is None or is_static(new.desc.shape):
        return
    if len(new.desc.shape) == len(old.desc.shape):
        sizes = zip(new.desc.shape, old.desc.shape, strict=True)
        new.desc = TensorDesc.plain(new.desc.dtype, tuple(a if isinstance(a, int) else b for a, b in sizes))


def _keep_rounding(new: Value, old: Value) -> None:
    """Note of what stands for a value whether that is bfloat16 in the model; the new node has attributes of others."""
    new.producer.attrs.pop(ROUNDS_BF16, None)
    if (new.index, old.index) == (0, 0) and old.producer.attrs.get(ROUNDS_BF16):
        new.producer.attrs[ROUNDS_BF16] = 1


def _reads_constants(node: Node) -> bool:
    """True if nothing but constants goes into a node that may become one."""
    return node.op_type != FOLDED_LATER and _is_constant(node) and bool(node.operands) and not node.has_subgraphs
