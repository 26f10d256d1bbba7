"""Loops of TensorFlow 1 → nodes that run graphs: what v2 has from the start.

A loop is a ring of nodes: Enter → Merge → Switch → … → NextIteration → Merge, and Switch → Exit. It becomes a While.
Loops come first, those inside of others before them, then conditions (`conditions.py`).
"""

from __future__ import annotations

from atcpy.errors import ModelInvalid, Where
from atcpy.parsers.tensorflow.conditions import Cut, free_name, kind, origin, with_conditions
from atcpy.parsers.tensorflow.graph import Ref, TfGraph, TfNode

# How many inputs the parts of rings have at least.
_INPUTS = {"Switch": 2, "_SwitchN": 2, "Merge": 1, "Enter": 1, "Exit": 1, "NextIteration": 1, "LoopCond": 1}


def structured(graph: TfGraph) -> TfGraph:
    """The graph with loops and conditions as nodes that have graphs of their own."""
    if not any(kind(node) in ("Merge", "LoopCond") for node in graph.nodes.values()):
        return graph
    nodes = dict(graph.nodes)
    for node in nodes.values():
        if len(node.inputs) < _INPUTS.get(kind(node), 0):
            what = f"it has {len(node.inputs)} inputs, {_INPUTS[kind(node)]} are needed"
            raise ModelInvalid("E12009", what, where=Where(node=node.name, op=node.op))
    _rebuild_loops(nodes)
    return with_conditions(TfGraph(nodes, graph.inputs, graph.outputs))


def _rebuild_loops(nodes: dict[str, TfNode]) -> None:
    """Puts a While in the place of each loop, the inner ones first."""
    waiting = [_Loop(nodes, node) for node in nodes.values() if node.op == "LoopCond"]
    while waiting:
        ready = [loop for loop in waiting if loop.collect()]
        if not ready:
            raise ModelInvalid("E13014", "its loop has no end", where=waiting[0].where)
        for loop in ready:
            loop.replace()
        waiting = [loop for loop in waiting if loop not in ready]


class _Loop:
    """The loop of one LoopCond."""

    def __init__(self, nodes: dict[str, TfNode], cond: TfNode) -> None:
        self._nodes = nodes
        self._cond = cond
        self._switches: dict[str, TfNode] = {}  # by the name of their Merge
        self._places: dict[str, str] = {}  # the Merge of a Switch
        self._entered: list[Ref] = []
        self._next: list[Ref] = []
        self._captured: dict[str, Ref] = {}
        self._frames: set[bytes] = set()
        for node in nodes.values():
            if kind(node) == "Switch" and len(node.inputs) == 2 and node.inputs[1].node == cond.name:
                self._add(node)
        self.where = Where(node=cond.name, op=cond.op)

    def _add(self, switch: TfNode) -> None:
        merge = self._nodes.get(origin(self._nodes, switch.inputs[0]).node)
        sources = {}
        if merge is not None and kind(merge) == "Merge":
            sources = {kind(node): node for ref in merge.inputs if (node := self._nodes.get(ref.node)) is not None}
        if merge is None or "Enter" not in sources or "NextIteration" not in sources:
            where = Where(node=switch.name, op=switch.op)
            raise ModelInvalid("E13014", "a Switch of a loop without Enter, Merge and NextIteration", where=where)
        self._places[switch.name] = merge.name
        if merge.name not in self._switches:
            self._switches[merge.name] = switch
            self._entered.append(sources["Enter"].inputs[0])
            self._next.append(sources["NextIteration"].inputs[0])
            self._frames.add(_frame(sources["Enter"]))

    def collect(self) -> bool:
        """Finds what belongs to the condition and the body; False while a loop inside is not rebuilt."""
        self._inside = self._reached()
        self._captured.clear()
        self._parts = [Cut(self._nodes, self._stop), Cut(self._nodes, self._stop)]
        self._parts[0].run(self._cond.inputs)
        self._parts[1].run(self._next)
        return not any(kind(node) == "Exit" for part in self._parts for node in part.found.values())

    def _reached(self) -> set[str]:
        """What reads, at any distance, what enters the loop: all that runs in its turns."""
        readers: dict[str, list[str]] = {}
        for node in self._nodes.values():
            for ref in node.inputs:
                readers.setdefault(ref.node, []).append(node.name)
        stack = [node.name for node in self._nodes.values() if kind(node) == "Enter" and _frame(node) in self._frames]
        reached: set[str] = set()
        while stack:
            name = stack.pop()
            if name not in reached:
                reached.add(name)
                stack.extend(reader for reader in readers.get(name, ()) if not self._leaves(self._nodes[reader]))
        return reached

    def _leaves(self, node: TfNode) -> bool:
        return kind(node) == "Exit" and node.inputs[0].node in self._places

    def _stop(self, ref: Ref) -> str | None:
        node = self._nodes.get(ref.node)
        if ref.node in self._places:
            return self._places[ref.node]
        if ref.node in self._switches:
            return ref.node
        if node is None or (ref.node not in self._inside and node.op == "Const"):
            return None
        if kind(node) == "Enter" and ref.node in self._inside and _frame(node) in self._frames:
            return self._capture(node.inputs[0])
        return None if ref.node in self._inside else self._capture(ref)

    def _capture(self, ref: Ref) -> str:
        name = f"{ref.node}:{ref.output}"
        self._captured[name] = ref
        return name

    def replace(self) -> None:
        """Puts a While in the place of the nodes of the loop."""
        arguments = [*self._switches, *self._captured]
        cond, body = self._parts
        handed_on = [Ref(name, 0) for name in self._captured]
        bodies = {
            "cond": cond.graph(arguments, self._cond.inputs[:1]),
            "body": body.graph(arguments, [*self._next, *handed_on]),
        }
        leaving = {node.name: node for node in self._nodes.values() if self._leaves(node)}
        for name in self._inside - leaving.keys():
            self._nodes.pop(name, None)
        scope = self._cond.name.rpartition("/")[0] or self._cond.name
        while_name = free_name(self._nodes, scope)
        inputs = (*self._entered, *self._captured.values())
        self._nodes[while_name] = TfNode(while_name, "While", inputs, {}, (), bodies, self._cond.called)
        order = list(self._switches)
        for name, node in leaving.items():
            index = order.index(self._places[node.inputs[0].node])
            self._nodes[name] = TfNode(name, "Identity", (Ref(while_name, index),), node.attrs, called=node.called)


def _frame(enter: TfNode) -> bytes:
    """The name of the loop that an Enter belongs to."""
    name = enter.attrs.get("frame_name")
    return name if isinstance(name, bytes) else b""
