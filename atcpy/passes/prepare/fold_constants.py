"""Shapes, small values and constants in one sweep over the nodes in topological order.

When a node is reached, everything that it reads is final; so one visit each is the fixed point.
A node whose inputs are all constant becomes a constant, if that pays: results beyond the limits
stay computed at run time.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from atcpy.errors import AtcError, InternalError, ModelInvalid, raise_all
from atcpy.ir import DType, Graph, Node, PassRecord, Reject, Tensor, Value, is_static
from atcpy.ir.shape import StaticShape, element_count
from atcpy.ir.tensor import Array
from atcpy.ops import find_opdef
from atcpy.ops.reference import EVALUATION_ERRORS, evaluate_by_onnx, find_schema
from atcpy.options import OoLevel, PrepareOptions, Stage
from atcpy.passes.base import graph_pass
from atcpy.passes.infer import KnownValues, infer_node
from atcpy.passes.prepare.control_flow import branch, infer_through_bodies, inline

SMALL_BYTES = 64 * 1024  # always folded: below this no growth is worth a thought
GROWTH_OF_ONE = 4  # a larger result may be so many times its inputs
MAX_FOLD_WORK = 10**9  # element operations a node

NAME = "ConstantFoldingPass"
NEVER_FOLDED = frozenset({"Data", "Const", "NetOutput", "PlaceHolder", "End"})
# Quantised weights stay what they are until the products that take them as integers have been found.
FOLDED_LATER = NEVER_FOLDED | {"DequantizeLinear"}


@graph_pass(NAME, Stage.PREPARE, required=True)
def fold_constants(graph: Graph, record: PassRecord, options: PrepareOptions) -> None:
    """Infer shapes, propagate small values and fold constants."""
    _Sweep(record, options, _Budget(graph, options), FOLDED_LATER).run(graph)


@graph_pass(
    "DequantizedConstantFoldingPass",
    Stage.PREPARE,
    after=("QGemmFusionPass", "QLinearBinaryFusionPass", "QLinearConvFusionPass", "QLinearMatMulFusionPass"),
    is_neutral=False,
)
def fold_dequantized(graph: Graph, record: PassRecord, options: PrepareOptions) -> None:
    """Fold what depends on quantised constants that no integer kernel took."""
    if any(_may_have_dequantized(node) for node in graph.nodes):
        _Sweep(record, options, _Budget(graph, options), NEVER_FOLDED).run(graph)


def _may_have_dequantized(node: Node) -> bool:
    if any(True for _ in node.subgraphs):
        return True
    return node.op_type == "DequantizeLinear" and node.operand(0).tensor is not None


class _Sweep:
    """One walk over a graph and, as it comes to them, the bodies in it."""

    def __init__(self, record: PassRecord, options: PrepareOptions, budget: _Budget, kept: frozenset[str]) -> None:
        self._record = record
        self._options = options
        self._budget = budget
        self._kept = kept
        self._known = KnownValues()
        self._depth = -1  # of the graph that is swept: in how many bodies it is

    def run(self, graph: Graph) -> None:
        """Every problem of the graph in one error."""
        problems: list[AtcError] = []
        unknown: set[Value] = set()  # of nodes with an error, and of what reads them: one error is enough
        self._depth += 1
        for node in graph.nodes:
            self._visit(graph, node, problems, unknown)
        self._depth -= 1
        raise_all(problems)

    def _visit(self, graph: Graph, node: Node, problems: list[AtcError], unknown: set[Value]) -> None:
        if problems and any(value in unknown for value in node.operands):
            unknown.update(node.outputs)
            return
        try:
            if any(True for _ in node.subgraphs):
                chosen = _chosen_branch(node) if self._options.level >= OoLevel.O1 else None
                if chosen is None:
                    infer_through_bodies(node, self._known, self.run, self._depth)
                    return
                self._record.matched += 1
                self._record.applied += 1
                for inner in inline(node, chosen):
                    self._visit(graph, inner, problems, unknown)
                return
            infer_node(node, self._known)
            if node.op_type not in self._kept and self._options.level >= OoLevel.O1:
                _fold(graph, node, self._known, self._budget, self._record)
        except AtcError as error:
            problems.append(error)
            unknown.update(node.outputs)
        except EVALUATION_ERRORS as error:
            raise InternalError(f"{type(error).__name__}: {error}", where=node) from error


def _chosen_branch(node: Node) -> Graph | None:
    """The body of an If whose condition is constant."""
    condition = node.operand(0).tensor if node.op_type == "If" else None
    if condition is None or condition.array.size != 1:
        return None
    return branch(node, bool(condition.array.reshape(-1)[0]))


class _Budget:
    """How many bytes folding may still add, net of the constants that it makes superfluous."""

    def __init__(self, graph: Graph, options: PrepareOptions) -> None:
        weights = sum(
            node.output.desc.nbytes for node in graph.nodes if node.op_type == "Const" and _sized(node.output)
        )
        self.left = max(int(weights * max(options.max_growth - 1, 0)), 1 << 20)
        self.largest = options.max_const_bytes

    def objects_to(self, node: Node, shapes: Sequence[StaticShape]) -> Reject | None:
        """None if the results may become constants, else why not."""
        made = sum(
            value.desc.dtype.nbytes(element_count(shape)) for value, shape in zip(node.outputs, shapes, strict=True)
        )
        if _work(node, shapes) > MAX_FOLD_WORK:
            return Reject("folding-too-slow", node.name)
        if made <= SMALL_BYTES:
            return None
        read = sum(value.desc.nbytes for value in node.operands)
        freed = sum(value.desc.nbytes for value in node.operands if value.use_count == 1)
        if made > self.largest:
            return Reject("constant-too-large", node.name, f"{made} bytes")
        if made > GROWTH_OF_ONE * read or made - freed > self.left:
            return Reject("constant-grows", node.name, f"{made} bytes from {read}")
        self.left -= max(made - freed, 0)
        return None


def _work(node: Node, shapes: Sequence[StaticShape]) -> int:
    """An upper bound of element operations; matrix products and windows are the ones that matter."""
    results = sum(element_count(shape) for shape in shapes)
    if node.op_type in {"MatMul", "Gemm"}:
        a = node.operand(0).desc.static_shape
        return results * (a[0] if node.attrs.get("transA") else a[-1])
    if node.op_type == "Conv":
        return results * element_count(node.operand(1).desc.static_shape[1:])
    if node.op_type in {"Einsum", "ConvTranspose"}:
        return results * max((value.desc.elements for value in node.operands), default=1)
    return results + sum(value.desc.elements for value in node.operands)


def _sized(value: Value) -> bool:
    return value.desc.is_static and value.desc.dtype is not DType.UNDEFINED


def _fold(graph: Graph, node: Node, known: KnownValues, budget: _Budget, record: PassRecord) -> None:
    opdef = find_opdef(node)
    if opdef is not None and opdef.is_random:
        return
    if not all(_sized(value) for value in node.outputs):
        return
    elements = known(node.output) if len(node.outputs) == 1 else None
    if elements is not None and all(isinstance(item, int) for item in elements):
        arrays: Sequence[Array] = [
            np.array(elements, node.output.desc.dtype.numpy).reshape(node.output.desc.static_shape)
        ]
        record.matched += 1
    else:
        if any(value.tensor is None for value in node.operands):
            return
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


def _evaluate(node: Node) -> Sequence[Array]:
    opdef = find_opdef(node)
    evaluate = evaluate_by_onnx if opdef is None or opdef.evaluate is None else opdef.evaluate
    inputs = [None if value is None else value.array for value in node.inputs]
    try:
        with np.errstate(all="ignore"):
            return evaluate(node, inputs)
    except (ValueError, IndexError, TypeError, ZeroDivisionError, OverflowError) as error:
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
