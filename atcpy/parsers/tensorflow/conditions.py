"""Conditions of TensorFlow 1: what lies between Switches and the Merges where both sides meet becomes an If, from the
inside; what lies between those of a lowered Case becomes a Case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from atcpy.errors import AtcError, ModelInvalid, Where, raise_all
from atcpy.parsers.tensorflow.graph import ARGUMENT, SWITCHES, Ref, TfGraph, TfNode, needed
from atcpy.parsers.tensorflow.schema.tensorflow_pb2 import DataType

_RINGS = frozenset({"Enter", "Merge", "Switch", "NextIteration", "Exit"})
_HANDED_ON = frozenset({"Identity", "IdentityN", "StopGradient"})


def kind(node: TfNode | None) -> str:
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
    return source is not None and source.op in SWITCHES


# --- graphs that are cut out ---------------------------------------------------------------------


@dataclass(slots=True)
class Cut:
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
        graph = with_conditions(TfGraph(made, list(arguments), [self._inside(ref) for ref in outputs]))
        problems: list[AtcError] = []
        flat = needed(graph, problems)
        raise_all(problems)
        return flat

    def _inside(self, ref: Ref) -> Ref:
        argument = self.stop(ref)
        return ref if argument is None else Ref(argument, 0)


def free_name(nodes: Mapping[str, TfNode], wanted: str) -> str:
    """A name that no node has yet."""
    name, number = wanted, 0
    while name in nodes:
        number += 1
        name = f"{wanted}.{number}"
    return name


# --- conditions ---


def with_conditions(graph: TfGraph) -> TfGraph:
    """The graph with an If for all Merges of one condition that do not need each other, from the inside."""
    if not any(kind(node) == "Merge" for node in graph.nodes.values()):
        return graph
    conditions = _Conditions(TfGraph(dict(graph.nodes), graph.inputs, list(graph.outputs)))
    conditions.rebuild()
    return conditions.graph


@dataclass(frozen=True, slots=True)
class _Choice:
    """A Merge: its condition, and what it returns for each value of that: false and true, or 0, 1, …"""

    merge: TfNode
    condition: Ref
    sides: tuple[Ref, ...]


class _Conditions:
    """The conditions of a graph without loops of version 1."""

    def __init__(self, graph: TfGraph) -> None:
        self.graph = graph
        self._nodes = graph.nodes
        self._ends = self._unread()
        self._indices: set[Ref] = set()  # the conditions that are numbers of branches

    def rebuild(self) -> None:
        """Rebuilds all; what has no condition stays, for the mapping to refuse it."""
        while True:
            groups: dict[Ref, list[_Choice]] = {}
            for node in self._nodes.values():
                choice = self._choice(node) if kind(node) == "Merge" else None
                if choice is not None:
                    groups.setdefault(choice.condition, []).append(choice)
            ready = {condition: self._independent(choices) for condition, choices in groups.items()}
            if not any(ready.values()):
                break
            for condition, choices in ready.items():
                if choices:
                    self._replace(condition, choices)
        self._drop_what_nobody_reads()

    # --- which --------------------------------------------------------------------------------------

    def _choice(self, merge: TfNode) -> _Choice | None:
        """What a Merge chooses between; None while Merges inside are not rebuilt, or if that cannot be told."""
        found = [self._switched(ref) for ref in merge.inputs]
        count = len(found)
        places = [places for places in found if places is not None]
        if len(places) < count or count < 2:
            return None
        for condition in {condition: None for sides in places for condition, _ in sides}:
            numbers = [{number for other, number in sides if other == condition} for sides in places]
            told = [next(iter(each)) if len(each) == 1 else -1 for each in numbers]
            if count == 2 and [] in places:  # where nothing is told, it is the other side
                told = [number if sides else 1 - max(told) for number, sides in zip(told, places, strict=True)]
            if sorted(told) == list(range(count)):
                by_number = dict(zip(told, merge.inputs, strict=True))
                return _Choice(merge, condition, tuple([by_number[number] for number in range(count)]))
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
            if kind(node) == "Merge":
                return None
            if node.op in SWITCHES:
                condition = origin(self._nodes, node.inputs[1])
                found[condition, ref.output] = None
                if node.op == "_SwitchN":
                    self._indices.add(condition)
            elif node.inputs:
                stack.extend(node.inputs)
            else:  # a constant hangs on its side by a control edge
                stack.extend(Ref(name, 0) for name in node.controls)
        return list(found)

    def _independent(self, choices: Sequence[_Choice]) -> list[_Choice]:
        """Those between as many sides as the first that need none of the others."""
        taken: list[_Choice] = []
        for choice in choices:
            if len(choice.sides) != len(choices[0].sides):
                continue
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

        is_case = condition in self._indices
        count = len(choices[0].sides)
        names = [str(number) for number in range(count)] if is_case else ["else_branch", "then_branch"]
        outputs = {name: [choice.sides[side] for choice in choices] for side, name in enumerate(names)}
        parts = {name: Cut(self._nodes, stop) for name in names}
        for name, part in parts.items():
            part.run(outputs[name])
        bodies = {name: part.graph(list(captured), outputs[name]) for name, part in parts.items()}
        first, op = choices[0].merge, "Case" if is_case else "If"
        name = free_name(self._nodes, f"{first.name}/{op}")
        self._nodes[name] = TfNode(name, op, (condition, *captured.values()), {}, (), bodies, first.called)
        for index, choice in enumerate(choices):
            merge, inputs = choice.merge, [Ref(name, index)]
            if not is_case:
                inputs.append(self._number_of_input(choice))
            self._nodes[merge.name] = TfNode(
                merge.name, "IdentityN", tuple(inputs), {}, merge.controls, called=merge.called
            )

    def _is_switch(self, node: TfNode, condition: Ref) -> bool:
        return node.op in SWITCHES and origin(self._nodes, node.inputs[1]) == condition

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
            elif node.op not in SWITCHES:
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
            name = free_name(self._nodes, f"{choice.merge.name}/not")
            self._nodes[name] = TfNode(name, "LogicalNot", (condition,), {}, called=called)
            condition = Ref(name, 0)
        name = free_name(self._nodes, f"{choice.merge.name}/index")
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
