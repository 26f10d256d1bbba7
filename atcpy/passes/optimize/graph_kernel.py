"""Fuse what is left of elementwise ops into graph kernels: one pass over memory for a whole subgraph.

Add(Mul(x, 2), 1)  →  GraphKernel(x) {body: Add(Mul(x, 2), 1)}

Groups that belong together, then cuts where a group is too large; docs/graph-kernels.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from atcpy.ir import Engine, Graph, Node, PassRecord, Reject, Value, erase_dead
from atcpy.ir.order import sort_nodes
from atcpy.ir.rewriter import merge_names
from atcpy.ops.elementwise.graph_kernel import BODY, sources_of
from atcpy.ops.elementwise.graph_kernel import NAME as OP_TYPE
from atcpy.ops.elementwise.graph_program import MAX_RESULTS, MAX_SOURCES, MAX_WORDS
from atcpy.options import OoLevel, OptimizeOptions
from atcpy.passes.base import graph_pass
from atcpy.passes.optimize.graph_kernel_copies import Copies, Kernel
from atcpy.passes.optimize.graph_kernel_groups import Groups, reads, with_views
from atcpy.passes.phase import Phase

NAME = "GraphKernelFusionPass"


@graph_pass(NAME, Phase.FUSE, level=OoLevel.O1, is_neutral=False)
def fuse_graph_kernels(graph: Graph, record: PassRecord, options: OptimizeOptions) -> None:
    """Fuse what is left of elementwise ops into graph kernels."""
    if not options.graph_kernel:
        return
    groups = Groups(graph)
    copies = Copies(groups, [kernel for group in groups.find() for kernel in _Cuts(groups, group).kernels()])
    kernels, rejects = copies.kernels(), copies.unsettled(groups.rejects)
    record.reject(*rejects)
    record.matched += len(kernels) + len(rejects)
    for kernel in kernels:
        if not record.may_apply():
            break
        record.fire(reversed(kernel.nodes))
        _replace(graph, groups, kernel)
    if kernels:  # which read what all their nodes read, and stand where the last of them stood
        sort_nodes(graph)


class _Cuts:
    """Cuts a group into parts that kernels can have, where the fewest bytes cross in the second half of what fits."""

    def __init__(self, groups: Groups, nodes: Sequence[Node]) -> None:
        self._groups = groups
        self._nodes = nodes

    def kernels(self) -> list[Kernel]:
        """The parts of two nodes and more."""
        found: list[Kernel] = []
        start = 0
        while start < len(self._nodes):
            end = self._end(start)
            if end - start > 1:
                found.append(Kernel(list(self._nodes[start:end])))
            start = end
        return found

    def _end(self, start: int) -> int:
        """Where the part that begins at `start` ends best."""
        ends, is_full = self._ends(start)
        last = ends[-1][0] if ends else start + 1
        if last == len(self._nodes) and self._is_kernel(start, last):
            return last
        # The whole rest at no cost, else where few bytes cross; far from the start, else nearer.
        ends.sort(key=lambda item: (2 * (item[0] - start) < last - start, item[1], -item[0]))
        end = next((end for end, _ in ends if end - start > 1 and self._is_kernel(start, end)), start + 1)
        self._note_cut(start, end, is_full)
        return end

    def _note_cut(self, start: int, end: int, is_full: bool) -> None:
        if end == len(self._nodes):
            return
        after, before = self._nodes[end], set(self._nodes[start:end])
        source = next((source for source, *_ in self._groups.read[after] if source in before), None)
        if source is None:
            return
        if is_full:
            self._groups.rejects.append(Reject("too-many-instructions", after.name, reads(source)))
        else:
            self._groups.rejects.append(Reject("too-many-operands", after.name, reads(source)))

    def _ends(self, start: int) -> tuple[list[tuple[int, int]], bool]:
        """Ends that may make a kernel of all from `start` on, with the bytes that cross there; whether the list ends
        because instructions do.
        """
        groups = self._groups
        words = 0
        sources: set[tuple[Value, object]] = set()
        computed: set[Node] = set()
        unread: dict[Node, int] = {}  # how often what was computed is read behind the end
        found: list[tuple[int, int]] = []
        for end in range(start, len(self._nodes)):
            node = self._nodes[end]
            words += groups.parts[node].words
            for source, value, spans in groups.outer_reads(node):
                if source not in computed:
                    sources.add((value, spans))
                elif unread[source] > 1:
                    unread[source] -= 1
                else:
                    del unread[source]
            computed.add(node)
            if groups.users[node]:
                unread[node] = len(groups.users[node])
            if words > MAX_WORDS or len(sources) > MAX_SOURCES:
                return found, words > MAX_WORDS
            if len(unread) <= MAX_RESULTS and groups.is_alike(unread):
                found.append((end + 1, sum(result.output.desc.nbytes for result in unread)))
        return found, False

    def _is_kernel(self, start: int, end: int) -> bool:
        part = self._nodes[start:end]
        members = set(part)
        results = [node.output for node in part if self._groups.is_read_outside(node, members)]
        sources = sources_of(with_views(part), results, self._groups.operand_spans)
        return sources is not None and 1 <= len(sources.keys) <= MAX_SOURCES


def _replace(graph: Graph, groups: Groups, kernel: Kernel) -> None:
    """Makes one GraphKernel, whose results go by their names as before."""
    nodes = with_views(kernel.nodes)
    inside = {node.output for node in nodes}
    moved = set(kernel.own)
    results = [node.output for node in kernel.own if groups.is_read_outside(node, moved)]
    reads = (value for node in nodes for value, _ in groups.operand_spans(node) if value not in inside)
    operands = list(dict.fromkeys(reads))
    last = kernel.own[-1]
    body = Graph(last.name, names=graph.names)
    names = [value.name for value in results]
    fused = graph.append(OP_TYPE, operands, {BODY: body}, name=last.name, outputs=names, before=last)
    fused.sources = merge_names(*(node.sources for node in kernel.nodes))
    fused.passes = merge_names(*(node.passes for node in kernel.nodes), (NAME,))
    fused.engine = Engine.VECTOR
    known: dict[Value, Value] = {}
    for index, value in enumerate(operands):
        data = body.append("Data", (), {"index": index}, name=value.name, outputs=(value.name,))
        data.output.desc = value.desc
        known[value] = data.output
    left: list[Node] = []
    for node in nodes:
        left += [value.producer for value in node.operands]
        _bring_constants(body, node, known)
        _bring(body, node, known, keep=node not in moved)
    for value, result in zip(results, fused.outputs, strict=True):
        result.desc = value.desc
        for user, index in value.uses:
            if user.graph is not body:
                graph.set_input(user, index, result)
        graph.take_name(result, value)
    body.append("NetOutput", results, name="NetOutput", outputs=())
    erase_dead(graph, [node for node in left if node.graph is graph])
    # Views that nobody else reads are in the kernel alone.
    fused.sources = merge_names(fused.sources, *(node.sources for node in nodes if node.graph is not graph))


def _bring_constants(body: Graph, node: Node, known: dict[Value, Value]) -> None:
    for value in node.operands:
        if value not in known and value.tensor is not None:
            const = body.append("Const", (), {"value": value.tensor}, name=value.name, outputs=(value.name,))
            const.output.desc, const.sources = value.desc, value.producer.sources
            known[value] = const.output


def _bring(body: Graph, node: Node, known: dict[Value, Value], *, keep: bool) -> None:
    """Moves a node into the body, or a copy of it."""
    inputs = [None if value is None else known[value] for value in node.inputs]
    if not keep:
        body.adopt(node)
        body.set_inputs(node, inputs)
        known[node.output] = node.output
        return
    copy = body.append(node.op_type, inputs, node.attrs, name=node.name, outputs=(node.output.name,))
    copy.output.desc, copy.engine, copy.sources, copy.passes = node.output.desc, node.engine, node.sources, node.passes
    known[node.output] = copy.output
