"""Control flow of TensorFlow 1 → nodes that run graphs: what v2 has from the start.

A loop is a ring of nodes: Enter → Merge → Switch → … → NextIteration → Merge, and Switch → Exit. It becomes a While.
A branch is what lies between Switches of one condition and the Merges where both sides meet. These become an If.
Loops come first, those inside of others before them, then conditions, again from the inside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from atcpy.errors import AtcError, ModelInvalid, Where, raise_all
from atcpy.parsers.tensorflow.graph import ARGUMENT, Ref, TfGraph, TfNode, needed
from atcpy.parsers.tensorflow.schema.tensorflow_pb2 import DataType

_RINGS = frozenset({"Enter", "Merge", "Switch", "NextIteration", "Exit"})
_HANDED_ON = frozenset({"Identity", "IdentityN", "StopGradient"})


def structured(graph: TfGraph) -> TfGraph:
    """The graph with loops and conditions as nodes that have graphs of their own."""
    if not any(_kind(node) in ("Merge", "LoopCond") for node in graph.nodes.values()):
        return graph
    nodes = dict(graph.nodes)
    _rebuild_loops(nodes)
    return _with_conditions(TfGraph(nodes, graph.inputs, graph.outputs))


def _kind(node: TfNode | None) -> str:
    """The op, that of references being the same."""
    if node is None:
        return ""
    plain = node.op.removeprefix("Ref")
    return plain if plain in _RINGS else node.op


def origin(nodes: Mapping[str, TfNode], ref: Ref) -> Ref:
    """Where a value comes from that nodes only hand on."""
    seen = {ref}
    while (node := nodes.get(ref.node)) is not None and node.op in _HANDED_ON and ref.output < len(node.inputs):
        ref = node.inputs[ref.output]
        if ref in seen:
            break
        seen.add(ref)
    return ref


def is_mark(node: TfNode, nodes: Mapping[str, TfNode]) -> bool:
    """Is it one side of a condition, of which only control edges may want something?"""
    source = nodes.get(node.inputs[0].node) if node.op == "Identity" and node.inputs else node
    return _kind(source) == "Switch"


# --- graphs that are cut out ---------------------------------------------------------------------


@dataclass(slots=True)
class _Cut:
    """Collects the nodes that some values need. `stop` says for a reference what stands for it: the name of an
    argument, or None if the node belongs to what is cut out.
    """

    nodes: Mapping[str, TfNode]
    stop: Callable[[Ref], str | None]
    found: dict[str, TfNode] = field(default_factory=dict)

    def run(self, roots: Iterable[Ref]) -> None:
        """Collects."""
        stack = list(roots)
        while stack:
            ref = stack.pop()
            if ref.node in self.found or self.stop(ref) is not None:
                continue
            node = self.nodes.get(ref.node)
            if node is None:
                raise ModelInvalid("E12009", f'nothing makes "{ref.node}"', where=Where(node=ref.node))
            self.found[ref.node] = node
            stack.extend(node.inputs)

    def graph(self, arguments: Sequence[str], outputs: Iterable[Ref]) -> TfGraph:
        """What was collected, as a graph with these arguments."""
        made = {name: TfNode(name, ARGUMENT, (), {"index": index}) for index, name in enumerate(arguments)}
        for node in self.found.values():
            inputs = tuple([self._inside(ref) for ref in node.inputs])
            made[node.name] = TfNode(node.name, node.op, inputs, node.attrs, node.controls, node.bodies, node.called)
        graph = _with_conditions(TfGraph(made, list(arguments), [self._inside(ref) for ref in outputs]))
        problems: list[AtcError] = []
        flat = needed(graph, problems)
        raise_all(problems)
        return flat

    def _inside(self, ref: Ref) -> Ref:
        argument = self.stop(ref)
        return ref if argument is None else Ref(argument, 0)


# --- loops -----------------------------------------------------------------------------------------


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
        self._frames: set[object] = set()
        for node in nodes.values():
            if _kind(node) == "Switch" and len(node.inputs) == 2 and node.inputs[1].node == cond.name:
                self._add(node)
        self.where = Where(node=cond.name, op=cond.op)

    def _add(self, switch: TfNode) -> None:
        merge = self._nodes.get(origin(self._nodes, switch.inputs[0]).node)
        sources = {}
        if merge is not None and _kind(merge) == "Merge":
            sources = {_kind(node): node for ref in merge.inputs if (node := self._nodes.get(ref.node)) is not None}
        if merge is None or "Enter" not in sources or "NextIteration" not in sources:
            where = Where(node=switch.name, op=switch.op)
            raise ModelInvalid("E13014", "a Switch of a loop without Enter, Merge and NextIteration", where=where)
        self._places[switch.name] = merge.name
        if merge.name not in self._switches:
            self._switches[merge.name] = switch
            self._entered.append(sources["Enter"].inputs[0])
            self._next.append(sources["NextIteration"].inputs[0])
            self._frames.add(sources["Enter"].attrs.get("frame_name"))

    def collect(self) -> bool:
        """Finds what belongs to the condition and the body; False while a loop inside is not rebuilt."""
        self._inside = self._reached()
        self._captured.clear()
        self._parts = [_Cut(self._nodes, self._stop), _Cut(self._nodes, self._stop)]
        self._parts[0].run(self._cond.inputs)
        self._parts[1].run(self._next)
        return not any(_kind(node) == "Exit" for part in self._parts for node in part.found.values())

    def _reached(self) -> set[str]:
        """What reads, at any distance, what enters the loop: all that runs in its turns."""
        readers: dict[str, list[str]] = {}
        for node in self._nodes.values():
            for ref in node.inputs:
                readers.setdefault(ref.node, []).append(node.name)
        stack = [
            node.name
            for node in self._nodes.values()
            if _kind(node) == "Enter" and node.attrs.get("frame_name") in self._frames
        ]
        reached: set[str] = set()
        while stack:
            name = stack.pop()
            if name not in reached:
                reached.add(name)
                stack.extend(reader for reader in readers.get(name, ()) if not self._leaves(self._nodes[reader]))
        return reached

    def _leaves(self, node: TfNode) -> bool:
        return _kind(node) == "Exit" and node.inputs[0].node in self._places

    def _stop(self, ref: Ref) -> str | None:
        node = self._nodes.get(ref.node)
        if ref.node in self._places:
            return self._places[ref.node]
        if ref.node in self._switches:
            return ref.node
        if node is None or (ref.node not in self._inside and node.op == "Const"):
            return None
        if _kind(node) == "Enter" and ref.node in self._inside and node.attrs.get("frame_name") in self._frames:
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
        while_name = _free_name(self._nodes, scope)
        inputs = (*self._entered, *self._captured.values())
        self._nodes[while_name] = TfNode(while_name, "While", inputs, {}, (), bodies, self._cond.called)
        order = list(self._switches)
        for name, node in leaving.items():
            index = order.index(self._places[node.inputs[0].node])
            self._nodes[name] = TfNode(name, "Identity", (Ref(while_name, index),), node.attrs, called=node.called)


def _free_name(nodes: Mapping[str, TfNode], wanted: str) -> str:
    name, number = wanted, 0
    while name in nodes:
        number += 1
        name = f"{wanted}.{number}"
    return name


# --- conditions --------------------------------------------------------------------------------------


def _with_conditions(graph: TfGraph) -> TfGraph:
    """The graph with an If for all Merges of one condition that do not need each other, from the inside."""
    if not any(_kind(node) == "Merge" for node in graph.nodes.values()):
        return graph
    conditions = _Conditions(TfGraph(dict(graph.nodes), graph.inputs, list(graph.outputs)))
    conditions.rebuild()
    return conditions.graph


@dataclass(frozen=True, slots=True)
class _Choice:
    """A Merge: its condition, and what it returns if that is false and true."""

    merge: TfNode
    condition: Ref
    sides: tuple[Ref, Ref]


class _Conditions:
    """The conditions of a graph without loops of version 1."""

    def __init__(self, graph: TfGraph) -> None:
        self.graph = graph
        self._nodes = graph.nodes
        self._ends = self._unread()

    def rebuild(self) -> None:
        """Rebuilds all; what has no condition stays, for the mapping to refuse it."""
        while True:
            groups: dict[Ref, list[_Choice]] = {}
            for node in self._nodes.values():
                choice = self._choice(node) if _kind(node) == "Merge" else None
                if choice is not None:
                    groups.setdefault(choice.condition, []).append(choice)
            if not groups:
                break
            for condition, choices in groups.items():
                self._replace(condition, self._independent(choices))
        self._drop_what_nobody_reads()

    # --- which --------------------------------------------------------------------------------------

    def _choice(self, merge: TfNode) -> _Choice | None:
        """What a Merge chooses between; None while Merges inside are not rebuilt, or if that cannot be told."""
        if len(merge.inputs) != 2:
            return None
        found = [self._switched(ref) for ref in merge.inputs]
        if found[0] is None or found[1] is None:
            return None
        first, second = found[0], found[1]
        a, b = merge.inputs
        for condition, output in first or [(condition, 1 - output) for condition, output in second]:
            if not second or (condition, 1 - output) in second:
                return _Choice(merge, condition, (b, a) if output else (a, b))
        return None

    def _switched(self, ref: Ref) -> list[tuple[Ref, int]] | None:
        """The nearest Switches behind a value: their conditions, and on which side it is."""
        found: dict[tuple[Ref, int], None] = {}
        stack, seen = [ref], set[Ref]()
        while stack:
            ref = stack.pop()
            node = self._nodes.get(ref.node)
            if node is None or ref in seen:
                continue
            seen.add(ref)
            kind = _kind(node)
            if kind == "Merge":
                return None
            if kind == "Switch":
                found[origin(self._nodes, node.inputs[1]), ref.output] = None
            elif node.inputs:
                stack.extend(node.inputs)
            else:  # a constant hangs on its side by a control edge
                stack.extend(Ref(name, 0) for name in node.controls)
        return list(found)

    def _independent(self, choices: Sequence[_Choice]) -> list[_Choice]:
        """Those that need none of the others that are taken."""
        taken: list[_Choice] = []
        for choice in choices:
            above = self._ancestors(choice.merge) if len(choices) > 1 else set[str]()
            if not any(other.merge.name in above for other in choices):
                taken.append(choice)
        return taken

    def _ancestors(self, node: TfNode) -> set[str]:
        above: set[str] = set()
        stack = [ref.node for ref in node.inputs]
        while stack:
            name = stack.pop()
            if name not in above and name in self._nodes:
                above.add(name)
                stack.extend(ref.node for ref in self._nodes[name].inputs)
        return above

    # --- what becomes of them -----------------------------------------------------------------------

    def _replace(self, condition: Ref, choices: Sequence[_Choice]) -> None:
        captured: dict[str, Ref] = {}
        roots = [ref for choice in choices for ref in choice.sides]
        switched = set(self._behind_switches(condition, roots))

        def stop(ref: Ref) -> str | None:
            node = self._nodes.get(ref.node)
            if node is not None and self._is_switch(node, condition):
                ref = node.inputs[0]
            elif node is None or ref.node in switched or node.op == "Const":
                return None
            name = f"{ref.node}:{ref.output}"
            captured[name] = ref
            return name

        parts = [_Cut(self._nodes, stop), _Cut(self._nodes, stop)]
        for side, part in enumerate(parts):
            part.run([choice.sides[side] for choice in choices])
        bodies = {
            name: parts[side].graph(list(captured), [choice.sides[side] for choice in choices])
            for side, name in enumerate(("else_branch", "then_branch"))
        }
        first = choices[0].merge
        name = _free_name(self._nodes, f"{first.name}/If")
        inputs = (condition, *captured.values())
        self._nodes[name] = TfNode(name, "If", inputs, {}, (), bodies, first.called)
        for index, choice in enumerate(choices):
            merge = choice.merge
            inputs = (Ref(name, index), self._number_of_input(choice))
            self._nodes[merge.name] = TfNode(merge.name, "IdentityN", inputs, {}, merge.controls, called=merge.called)

    def _is_switch(self, node: TfNode, condition: Ref) -> bool:
        return _kind(node) == "Switch" and origin(self._nodes, node.inputs[1]) == condition

    def _behind_switches(self, condition: Ref, roots: Iterable[Ref]) -> Iterator[str]:
        """The nodes between Switches of a condition and these values."""
        readers: dict[str, set[str]] = {}
        switches: set[str] = set()
        stack, seen = [ref.node for ref in roots], set[str]()
        while stack:
            name = stack.pop()
            node = self._nodes.get(name)
            if node is None or name in seen:
                continue
            seen.add(name)
            if self._is_switch(node, condition):
                switches.add(name)
            elif _kind(node) != "Switch":
                for ref in node.inputs:
                    readers.setdefault(ref.node, set()).add(name)
                    stack.append(ref.node)
        behind: set[str] = set()
        stack = [*switches]
        while stack:
            for name in readers.get(stack.pop(), ()):
                if name not in behind:
                    behind.add(name)
                    stack.append(name)
                    yield name

    def _number_of_input(self, choice: _Choice) -> Ref:
        """Output 1 of a Merge, the number of the input that was there: the condition as a number."""
        called, condition = choice.merge.called, choice.condition
        if choice.sides[0] != choice.merge.inputs[0]:
            name = _free_name(self._nodes, f"{choice.merge.name}/not")
            self._nodes[name] = TfNode(name, "LogicalNot", (condition,), {}, called=called)
            condition = Ref(name, 0)
        name = _free_name(self._nodes, f"{choice.merge.name}/index")
        self._nodes[name] = TfNode(name, "Cast", (condition,), {"DstT": DataType.DT_INT32}, called=called)
        return Ref(name, 0)

    # --- what is left over ----------------------------------------------------------------------------

    def _unread(self) -> set[str]:
        read = {ref.node for node in self._nodes.values() for ref in node.inputs}
        read.update(ref.node for ref in self.graph.outputs)
        return self._nodes.keys() - read - set(self.graph.inputs)

    def _drop_what_nobody_reads(self) -> None:
        """Drops what now stands in bodies alone, and the marks of a side on which only control edges hang."""
        while True:
            unread = self._unread()
            dropped = [name for name in unread if name not in self._ends or is_mark(self._nodes[name], self._nodes)]
            if not dropped:
                return
            for name in dropped:
                del self._nodes[name]
