"""Flattening: the launches of a graph in one list, with those of bodies behind the If or Loop that runs them.

    If      a launch that reads the condition; then_branch; a border; else_branch; a border
    Loop    a launch that counts; the body, copies of what is carried on; a border

No value is handed over: a body works on memory of the graph around it. What it captures is an operand of its node, what
branches return is an output of it. A value that a Loop carries has one buffer: the body reads it there, and the new
one is copied there at the end of each iteration, or written there at once where the old one is not read any more, as
compilers coalesce the operands of φ-functions (Briggs et al., "Practical Improvements to the Construction and
Destruction of Static Single Assignment Form", 1998).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from atcpy.ir import Engine, Graph, Node, Value
from atcpy.ir.closure import captured_value
from atcpy.ops import KernelCall, is_view
from atcpy.ops.core.plan_loop import PlanLoop
from atcpy.ops.core.strided import copy_bytes
from atcpy.passes.compile.lower import Border, Launch, copies_whole, lower_node, overwritten


@dataclass(frozen=True, slots=True)
class FlatGraph:
    """Launches in order, and the value that owns the memory of each value that has none of its own."""

    launches: list[Launch]
    roots: dict[Value, Value]


def flatten(graph: Graph) -> FlatGraph:
    """Return the launches of a graph whose formats are chosen. Values that need memory of their own are copied."""
    flattening = _Flattening({})
    flattening.share_memory(graph, frozenset())
    launches = flattening.launches(graph)
    return FlatGraph(launches, {value: flattening.root(value) for value in list(flattening.roots)})


@dataclass(frozen=True, slots=True)
class _Accesses:
    """Where the launches of a body write and read the memory of each value that owns some, and which copies need not
    run, for source and destination are one.
    """

    body: list[Launch]
    first_write: dict[Value, int]
    last_read: dict[Value, int]
    needless: set[int]

    def merge(self, own: Value, old: Value) -> None:
        """Note that `own` has the memory of `old` from now on."""
        for index, choose in ((self.first_write, min), (self.last_read, max)):
            if own in index:
                index[old] = choose(index[own], index.get(old, index[own]))


@dataclass(frozen=True, slots=True)
class _Flattening:
    """`roots` maps a value to another whose memory it has, which may have that of a third."""

    roots: dict[Value, Value]

    def root(self, value: Value) -> Value:
        """Return the value that owns the memory of another."""
        passed: list[Value] = []
        while (owner := self.roots.get(value)) is not None:
            passed.append(value)
            value = owner
        for each in passed:  # chains of views are walked once
            self.roots[each] = value
        return value

    def share_memory(self, graph: Graph, in_place: frozenset[int]) -> None:
        """Map views, and what passes the borders of bodies. Outputs get memory of their own, unless their index is in
        `in_place`: they are where they have to be already.
        """
        for node in list(graph.nodes):
            if is_view(node):
                self.roots[node.output] = node.operand(0)
            elif node.op_type == "If":
                self._share_with_branches(node)
            elif node.op_type == "Loop":
                self._share_with_iterations(PlanLoop(node))
        self._copy_shared_outputs(graph, in_place)

    def _share_with_branches(self, node: Node) -> None:
        for body in node.subgraphs:
            self._share_captured(node, body)
            self.share_memory(body, frozenset())
            for result, output in zip(body.outputs, node.outputs, strict=True):
                self.roots[self.root(result)] = output

    def _share_with_iterations(self, loop: PlanLoop) -> None:
        node = loop.node
        self._share_captured(node, loop.body)
        for carried in loop.carried:
            value = node.operand(carried.operand)
            if value.use_count > 1 or value in self.roots or value.producer.is_source:
                assert node.graph is not None
                node.graph.set_input(node, carried.operand, _copy(value, node))
            if carried.data is not None:
                self.roots[carried.data] = node.operand(carried.operand)
            if carried.output is not None:
                self.roots[carried.output] = node.operand(carried.operand)
        self.share_memory(loop.body, loop.kept_results)

    def _share_captured(self, node: Node, body: Graph) -> None:
        for data in body.inputs:
            if "captured" in data.attrs:
                self.roots[data.output] = captured_value(node, data)

    def _copy_shared_outputs(self, graph: Graph, in_place: frozenset[int]) -> None:
        """Copy each output that is an input, a constant, a view of another size, or an output already."""
        taken: set[Value] = set()
        net_output = graph.net_output
        for index, value in enumerate(net_output.operands):
            if index in in_place:
                continue
            root = self.root(value)
            is_own = root.producer.graph is graph and not root.producer.is_source
            if is_own and root not in taken and root.desc.nbytes == value.desc.nbytes:
                taken.add(root)
            else:
                graph.set_input(net_output, index, _copy(value, net_output))

    def launches(self, graph: Graph) -> list[Launch]:
        """Return the launches of a graph and its bodies, in whose order memory is planned."""
        launches: list[Launch] = []
        for node in graph.nodes:
            if node.op_type == "If":
                launches += self._launch_branches(node)
            elif node.op_type == "Loop":
                launches += self._launch_iterations(PlanLoop(node))
            else:
                launches += lower_node(node)
        return launches

    def _launch_branches(self, node: Node) -> Iterator[Launch]:
        yield Launch(node, KernelCall("if", (node.operand(0),), (), {}))
        for name, border in (("then_branch", Border.ELSE), ("else_branch", Border.END)):
            body = node.attrs[name]
            assert isinstance(body, Graph)
            yield from self.launches(body)
            yield _border(node, border, ())

    def _launch_iterations(self, loop: PlanLoop) -> list[Launch]:
        node = loop.node
        body = self.launches(loop.body)
        accesses = self._accesses(body)
        copies: list[Launch] = []
        for carried in loop.carried:
            if carried.is_kept:
                continue
            result, target = loop.body.outputs[carried.result], node.operand(carried.operand)
            if not self._coalesce(accesses, result, target):
                copies.append(Launch(node, copy_bytes(result, self.root(target))))
        body = [launch for number, launch in enumerate(body) if number not in accesses.needless]
        condition = node.operand(1) if loop.has_condition else None
        begin = KernelCall("loop", (loop.trip_count, condition), (loop.counter,), {"trip_count": loop.known_count})
        # What an iteration reads before it writes it, the next one reads again: it lives until the last.
        read_first = dict.fromkeys(self._read_first([Launch(node, begin), *body, *copies]))
        return [Launch(node, begin), *body, *copies, _border(node, Border.END, tuple(read_first))]

    def _accesses(self, body: list[Launch]) -> _Accesses:
        accesses = _Accesses(body, {}, {}, set())
        for number, launch in enumerate(body):
            for value in launch.call.dst:
                accesses.first_write.setdefault(self.root(value), number)
            for source in launch.call.src:
                if source is not None:
                    accesses.last_read[self.root(source)] = number
        return accesses

    def _coalesce(self, accesses: _Accesses, result: Value, target: Value) -> bool:
        """Let a result of an iteration have the memory of the value that it replaces, if nothing reads that after the
        result is written.
        """
        own, old = self.root(result), self.root(target)
        written, read = accesses.first_write.get(own, -1), accesses.last_read.get(old, -1)
        if written < 0 or written < read:
            return False
        if written == read:
            launch = accesses.body[written]
            reads = sum(1 for value in launch.call.src if value is not None and self.root(value) is old)
            if copies_whole(launch):
                accesses.needless.add(written)
            elif reads > 1 or not any(self.root(source) is old for source in overwritten(launch, result)):
                return False
        self.roots[own] = old
        accesses.merge(own, old)
        return True

    def _read_first(self, launches: list[Launch]) -> Iterator[Value]:
        written: set[Value] = set()
        for launch in launches:
            sources = (self.root(value) for value in launch.call.src if value is not None)
            yield from (value for value in sources if value not in written)
            written.update(map(self.root, launch.call.dst))


def _border(node: Node, border: Border, read: tuple[Value, ...]) -> Launch:
    return Launch(node, KernelCall("", read, (), {}), border=border)


def _copy(value: Value, before: Node) -> Value:
    """Copy a value by a node in front of the one that reads it."""
    assert before.graph is not None
    move = before.graph.append("TensorMove", [value], name=f"{value.name}_copy", before=before)
    move.output.desc = value.desc
    move.passes, move.engine = ("OutputCopyPass",), Engine.VECTOR
    return move.output
