"""Shapes, small values and constants in one sweep over the nodes in topological order.

When a node is reached, everything that it reads is final; so one visit each is the fixed point. Ops that the standard
lacks are written in ops that it has when they are reached, with the types of their inputs known.
A node whose inputs are all constant becomes a constant: `passes/folding.py`. What the parser inferred
is not inferred again, unless folding showed more about a node's inputs since.
"""

from __future__ import annotations

from atcpy.errors import AtcError, InternalError, raise_all
from atcpy.ir import Graph, Node, PassRecord, Sym, Value
from atcpy.ir.inferred import Inferred
from atcpy.ops.core.infer import KnownValues, check_declared, infer_node
from atcpy.ops.core.reference import EVALUATION_ERRORS
from atcpy.options import OoLevel, PrepareOptions, Stage
from atcpy.passes.base import graph_pass
from atcpy.passes.folding import FOLDED_LATER, NAME, Budget, fold
from atcpy.passes.phase import Phase
from atcpy.passes.prepare.fold import contrib
from atcpy.passes.prepare.fold.control_flow import branch, infer_through_bodies, inline


@graph_pass(NAME, Phase.INFER, required=True)
def fold_constants(graph: Graph, record: PassRecord, options: PrepareOptions) -> None:
    """Infer shapes, propagate small values and fold constants."""
    inferred, graph.inferred = graph.inferred or Inferred(), None
    expansions = graph.decisions.begin(contrib.NAME, Stage.PREPARE.value)
    _Sweep(record, options, Budget(graph, options), inferred, kept=FOLDED_LATER, expansions=expansions).run(graph)


@graph_pass(
    "DequantizedConstantFoldingPass",
    Phase.QUANTISE,
    after=("QGemmFusionPass", "QLinearBinaryFusionPass", "QLinearConvFusionPass", "QLinearMatMulFusionPass"),
    is_neutral=False,
)
def fold_dequantized(graph: Graph, record: PassRecord, options: PrepareOptions) -> None:
    """Fold what depends on quantised constants that no integer kernel took."""
    if any(_may_have_dequantized(node) for node in graph.nodes):
        _Sweep(record, options, Budget(graph, options), Inferred()).run(graph)


def _may_have_dequantized(node: Node) -> bool:
    if node.has_subgraphs:
        return True
    return node.op_type == "DequantizeLinear" and node.operand(0).tensor is not None


class _Sweep:
    """One walk over a graph and, as it comes to them, the bodies in it. Nodes of the op `kept` are not folded. Ops
    that the standard lacks are expanded where there is a record of `expansions`.
    """

    def __init__(
        self,
        record: PassRecord,
        options: PrepareOptions,
        budget: Budget,
        inferred: Inferred,
        kept: str = "",
        expansions: PassRecord | None = None,
    ) -> None:
        self._record = record
        self._expansions = expansions
        self._options = options
        self._budget = budget
        self._kept = kept
        self._inferred = inferred.nodes
        self._declared = inferred.declared
        self._changed: set[Value] = set()  # whose type is another now than when their readers were inferred
        self._known = KnownValues(inferred.elements)
        self._depth = -1  # of the graph that is swept: in how many bodies it is

    @property
    def _removes_branches(self) -> bool:
        return self._options.level >= OoLevel.O1 and self._options.remove_dead_branches

    def run(self, graph: Graph) -> None:
        """Every problem of the graph in one error."""
        problems: list[AtcError] = []
        unknown: set[Value] = set()  # of nodes with an error, and of what reads them: one error is enough
        self._depth += 1
        for node in graph.nodes:
            if node.op_type != "Const":  # whose type was set when it was created
                self._visit(graph, node, problems, unknown)
        self._depth -= 1
        raise_all(problems)

    def _visit(self, graph: Graph, node: Node, problems: list[AtcError], unknown: set[Value]) -> None:
        if problems and any(value in unknown for value in node.operands):
            unknown.update(node.outputs)
            return
        try:
            if node.has_subgraphs:
                chosen = self._chosen_branch(node) if self._removes_branches else None
                if chosen is None:
                    infer_through_bodies(node, self._known, self.run, self._depth)
                    self._changed.update(node.outputs)
                    self._check_declared(node)
                    return
                self._record.matched += 1
                self._record.applied += 1
                for value, result in zip(node.outputs, chosen.outputs, strict=True):
                    if value in self._declared:
                        self._declared.setdefault(result, self._declared[value])
                for inner in inline(node, chosen):
                    self._visit(graph, inner, problems, unknown)
                return
            if self._expansions is not None and contrib.is_contrib(node):
                self._check_declared(node)
                self._expand(graph, node, self._expansions, problems, unknown)
                return
            self._infer(node)
            self._check_declared(node)
            if node.op_type != self._kept and self._options.level >= OoLevel.O1 and self._options.fold_constants:
                fold(graph, node, self._known, self._budget, self._record)
        except AtcError as error:
            problems.append(error)
            unknown.update(node.outputs)
        except EVALUATION_ERRORS as error:
            raise InternalError(f"{type(error).__name__}: {error}", where=node) from error

    def _chosen_branch(self, node: Node) -> Graph | None:
        """The body of an If whose condition is constant, or a symbol that a plan is made for."""
        if node.op_type != "If":
            return None
        value = node.operand(0)
        elements = self._known(value) if value.tensor is None else value.tensor.array.reshape(-1).tolist()
        if elements is None or len(elements) != 1 or isinstance(elements[0], Sym):
            return None
        return branch(node, bool(elements[0]))

    def _expand(
        self, graph: Graph, node: Node, record: PassRecord, problems: list[AtcError], unknown: set[Value]
    ) -> None:
        """Visit what a node expands to, in its place."""
        inferred = self._inferred
        for created in contrib.expand_contrib(graph, node, self._known, record):
            if not created.has_subgraphs:
                inferred[created] = created.inputs
            if created.op_type != "Const":
                self._visit(graph, created, problems, unknown)

    def _check_declared(self, node: Node) -> None:
        for value in node.outputs if self._declared else ():
            if value in self._declared:
                check_declared(value, self._declared[value])

    def _infer(self, node: Node) -> None:
        if not self._inferred:
            infer_node(node, self._known)
            return
        inputs = self._inferred.get(node)
        if inputs is None or inputs != node.inputs or (self._changed and not self._changed.isdisjoint(inputs)):
            before = [(value.desc, self._known.computed(value)) for value in node.outputs]
            infer_node(node, self._known)
            after = [(value.desc, self._known.computed(value)) for value in node.outputs]
            self._changed.update(v for v, old, new in zip(node.outputs, before, after, strict=True) if old != new)
