"""Loops of TensorFlow 1, written in frames, become While nodes as in TensorFlow 2.

Each loop variable is a cycle Enter → Merge → Switch → … → NextIteration → Merge, left by Switch → Exit. Loops are
rebuilt first, inner ones before outer ones, then conditions (`conditions.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from atcpy.errors import ModelInvalid, Where
from atcpy.parsers.tensorflow.conditions import Cut, free_name, origin, with_conditions
from atcpy.parsers.tensorflow.graph import Ref, TfGraph, TfNode, find_pivots

# The inputs that the ops of frames have at least.
_MIN_INPUTS = {"Switch": 2, "_SwitchN": 2, "Merge": 1, "Enter": 1, "Exit": 1, "NextIteration": 1, "LoopCond": 1}


def structured(graph: TfGraph) -> TfGraph:
    """Return the graph with loops and conditions as functional nodes, which have bodies."""
    if not any(node.op in ("Merge", "LoopCond") for node in graph.nodes.values()):
        return graph
    nodes = dict(graph.nodes)
    for node in nodes.values():
        if len(node.inputs) < _MIN_INPUTS.get(node.op, 0):
            what = f"it has {len(node.inputs)} inputs, {_MIN_INPUTS[node.op]} are needed"
            raise ModelInvalid("E12009", what, where=Where(node=node.name, op=node.op))
    _rebuild_loops(_Frames(nodes))
    return with_conditions(TfGraph(nodes, graph.inputs, graph.outputs))


class _Frames:
    """The loops of a graph, the readers of each node, and the loop that each Enter belongs to."""

    def __init__(self, nodes: dict[str, TfNode]) -> None:
        self.nodes = nodes
        self.pivots = find_pivots(nodes)
        self.controlled: dict[str, list[str]] = {}  # constants with control edges from a pivot, by its name
        self.readers: dict[str, list[str]] = {}  # of nodes that were replaced, too
        self.switches: dict[str, list[TfNode]] = {}  # by the name of their predicate
        self.loops: list[_Loop] = []
        self.loop_of: dict[str, _Loop] = {}  # by the name of an Enter
        enters: dict[bytes, list[TfNode]] = {}
        for node in nodes.values():
            for ref in node.inputs:
                self.readers.setdefault(ref.node, []).append(node.name)
            for name in () if node.inputs else node.controls:
                if name in self.pivots:
                    self.controlled.setdefault(name, []).append(node.name)
            if node.op == "Enter":
                enters.setdefault(_frame(node), []).append(node)
            elif node.op == "Switch":
                self.switches.setdefault(node.inputs[1].node, []).append(node)
        by_frame: dict[bytes, list[_Loop]] = {}
        for node in nodes.values():
            if node.op == "LoopCond" and node.name in self.switches:
                loop = _Loop(self, node)
                self.loops.append(loop)
                by_frame.setdefault(loop.frame, []).append(loop)
        for frame, loops in by_frame.items():
            for loop in loops:
                self.loop_of.update(dict.fromkeys(loop.enters, loop))
            for enter in enters[frame]:
                if enter.name in self.loop_of:
                    continue
                if len(loops) == 1:
                    loops[0].add_enter(enter)
                    self.loop_of[enter.name] = loops[0]
                else:  # a graph that was imported twice: a loop invariant can as well be read from outside
                    nodes[enter.name] = replace(enter, op="Identity")

    def read_by(self, name: str) -> Iterator[TfNode]:
        """Yield the readers of a node, and those that are added in the meantime."""
        for reader in self.readers.get(name, ()):
            if reader in self.nodes:
                yield self.nodes[reader]

    def put(self, node: TfNode) -> None:
        """Add a node, or replace one that read only loops."""
        self.nodes[node.name] = node
        for ref in node.inputs:
            self.readers.setdefault(ref.node, []).append(node.name)


def _rebuild_loops(frames: _Frames) -> None:
    """Replace each loop by a While, inner loops first."""
    for outermost in frames.loops:
        path = {} if outermost.is_done else {outermost: outermost.find()}
        while path:
            loop, search = next(reversed(path.items()))
            inner = next(search, None)
            if inner is None:
                loop.replace()
                del path[loop]
            elif inner in path:
                raise ModelInvalid("E13014", "its loop runs inside itself", where=inner.where)
            else:
                path[inner] = inner.find()


class _Loop:
    """The loop of one LoopCond."""

    def __init__(self, frames: _Frames, cond: TfNode) -> None:
        self._frames = frames
        self._nodes = frames.nodes
        self._cond = cond
        self.frame = b""
        self.enters: list[str] = []  # those of loop variables first
        self.is_done = False
        self._switches: dict[str, TfNode] = {}  # by their Merge, which stands for a Switch that was pruned
        self._merges: dict[str, str] = {}  # by Switch
        self._entered: list[Ref] = []
        self._next: list[Ref] = []
        self._inside: set[str] = set()
        self._captured: dict[str, Ref] = {}
        self.where = Where(node=cond.name, op=cond.op)
        for switch in frames.switches[cond.name]:
            self._add(switch)

    def add_enter(self, enter: TfNode) -> None:
        """Add an Enter without a Switch: of a loop invariant, or of a variable that only the condition reads."""
        for merge in self._frames.read_by(enter.name):
            sources = self._sources(merge)
            if "NextIteration" in sources:
                self._switches[merge.name] = merge
                self._entered.append(enter.inputs[0])
                self._next.append(sources["NextIteration"].inputs[0])
        self.enters.append(enter.name)

    def _sources(self, merge: TfNode | None) -> dict[str, TfNode]:
        """The nodes that a Merge reads, by their ops."""
        if merge is None or merge.op != "Merge":
            return {}
        return {node.op: node for ref in merge.inputs if (node := self._nodes.get(ref.node)) is not None}

    def _add(self, switch: TfNode) -> None:
        merge = self._nodes.get(origin(self._nodes, switch.inputs[0]).node)
        sources = self._sources(merge)
        where = Where(node=switch.name, op=switch.op)
        if merge is None or "Enter" not in sources or "NextIteration" not in sources:
            raise ModelInvalid("E13014", "a Switch of a loop without Enter, Merge and NextIteration", where=where)
        frame = _frame(sources["Enter"])
        if self.enters and frame != self.frame:
            names = " and ".join(f'"{name.decode("utf-8", "replace")}"' for name in (self.frame, frame))
            raise ModelInvalid("E13014", f"a Switch of two loops: {names}", where=where)
        self.frame = frame
        self._merges[switch.name] = merge.name
        if merge.name not in self._switches:
            self._switches[merge.name] = switch
            self.enters.append(sources["Enter"].name)
            self._entered.append(sources["Enter"].inputs[0])
            self._next.append(sources["NextIteration"].inputs[0])

    def find(self) -> Iterator[_Loop]:
        """Find the nodes of the body and the condition: all that depend on an Enter, by data or control edges. Yields
        each inner loop, which must have been replaced when the search goes on.
        """
        stack = list(self.enters)
        while stack:
            name = stack.pop()
            if name in self._inside:
                continue
            self._inside.add(name)
            stack.extend(self._frames.controlled.get(name, ()))
            for reader in self._frames.read_by(name):
                inner = self._frames.loop_of.get(reader.name)
                if inner is not None and inner is not self:
                    yield inner
                elif not self._leaves(reader):
                    stack.append(reader.name)

    def _leaves(self, node: TfNode) -> bool:
        return node.op == "Exit" and node.inputs[0].node in self._merges

    def _stop(self, ref: Ref) -> str | None:
        node = self._nodes.get(ref.node)
        if ref.node in self._merges:
            return self._merges[ref.node]
        if ref.node in self._switches:
            return ref.node
        if node is None or (ref.node not in self._inside and node.op == "Const"):
            return None
        if self._frames.loop_of.get(ref.node) is self:
            return self._capture(node.inputs[0])
        return None if ref.node in self._inside else self._capture(ref)

    def _capture(self, ref: Ref) -> str:
        name = f"{ref.node}:{ref.output}"
        self._captured[name] = ref
        return name

    def replace(self) -> None:
        """Replace the nodes of the loop by a While."""
        pivots = self._frames.pivots & self._inside
        cond, body = Cut(self._nodes, self._stop, pivots), Cut(self._nodes, self._stop, pivots)
        cond.run(self._cond.inputs[:1])
        body.run(self._next)
        if any(node.op == "Exit" for part in (cond, body) for node in part.found.values()):
            raise ModelInvalid("E13014", "its loop has no end", where=self.where)
        arguments = [*self._switches, *self._captured]
        invariants = [Ref(name, 0) for name in self._captured]
        bodies = {
            "cond": cond.graph(arguments, self._cond.inputs[:1]),
            "body": body.graph(arguments, [*self._next, *invariants]),
        }
        leaving = [(node, merge) for switch, merge in self._merges.items() for node in self._frames.read_by(switch)]
        for name in self._inside:
            self._nodes.pop(name, None)
        self.is_done = True
        scope = self._cond.name.rpartition("/")[0]
        name = free_name(self._nodes, self._cond.name if scope in self._nodes else scope or self._cond.name)
        inputs = (*self._entered, *self._captured.values())
        self._frames.put(TfNode(name, "While", inputs, {}, (), bodies, self._cond.called))
        order = {merge: index for index, merge in enumerate(self._switches)}
        for node, merge in leaving:
            if self._leaves(node):
                result = (Ref(name, order[merge]),)
                self._frames.put(TfNode(node.name, "Identity", result, node.attrs, called=node.called))


def _frame(enter: TfNode) -> bytes:
    """The name of the frame of an Enter."""
    name = enter.attrs.get("frame_name")
    return name if isinstance(name, bytes) else b""
