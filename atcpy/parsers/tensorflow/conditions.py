"""Conditions of TensorFlow 1: what lies between Switches and the Merges where both sides meet becomes an If, from the
inside; what lies between those of a lowered Case becomes a Case.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from atcpy.errors import AtcError, ModelInvalid, Where, raise_all
from atcpy.parsers.tensorflow.graph import ARGUMENT, SWITCHES, Ref, TfGraph, TfNode, find_marks, needed
from atcpy.parsers.tensorflow.schema.tensorflow_pb2 import DataType

_HANDED_ON = frozenset({"Identity", "IdentityN", "StopGradient"})


def origin(nodes: Mapping[str, TfNode], ref: Ref) -> Ref:
    """Where a value comes from that nodes only hand on."""
    seen = {ref}
    while (node := nodes.get(ref.node)) is not None and node.op in _HANDED_ON and ref.output < len(node.inputs):
        ref = node.inputs[ref.output]
        if ref in seen:
            break
        seen.add(ref)
    return ref


# --- graphs that are cut out ---------------------------------------------------------------------


@dataclass(slots=True)
class Cut:
    """Collects the nodes that some values need, and the `marks` on which constants among them hang by control edges.
    `stop` says for a reference what stands for it: the name of an argument, or None if the node belongs to what is cut
    out.
    """

    nodes: Mapping[str, TfNode]
    stop: Callable[[Ref], str | None]
    marks: Collection[str] = ()
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
            stack.extend(node.inputs or [Ref(name, 0) for name in node.controls if name in self.marks])

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
    if not any(node.op == "Merge" for node in graph.nodes.values()):
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


_Side = tuple[Ref, int]  # a condition, and for which of its values something is there


class _Conditions:
    """The conditions of a graph without loops of version 1.

    Each node is looked at once, after what it reads. A Merge waits until nothing else can be looked at: then Merges of
    one condition that wait become one If, those of conditions inside of others first.
    """

    def __init__(self, graph: TfGraph) -> None:
        self.graph = graph
        self._nodes = graph.nodes
        self._kept = {*graph.inputs, *(ref.node for ref in graph.outputs)}
        self._ends = self._unread()
        self._readers: dict[str, list[str]] = {}
        self._missing: dict[str, int] = {}  # how many of what a node reads are not looked at yet
        self._sides: dict[str, tuple[_Side, ...]] = {}  # of the nearest Switches behind a node
        self._conditions: dict[str, Ref] = {}  # by Switch
        self._around: dict[Ref, dict[Ref, None]] = {}  # the conditions around the Switches of one
        self._indices: set[Ref] = set()  # the conditions that are numbers of branches

    def rebuild(self) -> None:
        """Rebuilds all; what has no condition stays, for the mapping to refuse it."""
        waiting = self._begin()
        held: dict[tuple[Ref, int], list[_Choice]] = {}
        while waiting or held:
            while waiting:
                node = self._nodes[waiting.pop()]
                choice = self._choice(node) if node.op == "Merge" else None
                if choice is None:
                    waiting.extend(self._look_at(node))
                else:
                    held.setdefault((choice.condition, len(choice.sides)), []).append(choice)
            for key in self._innermost(held):
                choices = held.pop(key)
                self._replace(key[0], choices)
                for choice in choices:
                    waiting.extend(self._released(choice.merge.name))
        self._drop_what_nobody_reads()

    # --- in which order -----------------------------------------------------------------------------

    def _begin(self) -> list[str]:
        """The nodes that read nothing; a constant comes after what it hangs on by control edges."""
        for node in self._nodes.values():
            above = [ref.node for ref in node.inputs] or list(node.controls)
            above = [name for name in above if name in self._nodes]
            self._missing[node.name] = len(above)
            for name in above:
                self._readers.setdefault(name, []).append(node.name)
        return [name for name, count in reversed(self._missing.items()) if not count]

    def _released(self, name: str) -> Iterator[str]:
        """The nodes that waited for nothing else."""
        for reader in self._readers.get(name, ()):
            self._missing[reader] -= 1
            if not self._missing[reader]:
                yield reader

    def _look_at(self, node: TfNode) -> Iterator[str]:
        """Notes on which sides of conditions a node is; the nodes that waited for it."""
        self._sides[node.name] = self._union(self._behind(ref) for ref in node.inputs)
        if node.op in SWITCHES:
            condition = origin(self._nodes, node.inputs[1])
            self._conditions[node.name] = condition
            around = self._around.setdefault(condition, {})
            around.update((outer, None) for outer, _ in self._sides[node.name])
            if node.op == "_SwitchN":
                self._indices.add(condition)
        elif not node.inputs:
            self._sides[node.name] = self._union(self._sides.get(name, ()) for name in node.controls)
        return self._released(node.name)

    def _behind(self, ref: Ref) -> tuple[_Side, ...]:
        condition = self._conditions.get(ref.node)
        return self._sides.get(ref.node, ()) if condition is None else ((condition, ref.output),)

    @staticmethod
    def _union(parts: Iterable[tuple[_Side, ...]]) -> tuple[_Side, ...]:
        different = list(dict.fromkeys(part for part in parts if part))
        return different[0] if len(different) == 1 else tuple(dict.fromkeys(chain.from_iterable(different)))

    def _innermost(self, held: Mapping[tuple[Ref, int], object]) -> list[tuple[Ref, int]]:
        """The Merges of those conditions that are around no other; all of them if each is around one."""
        around: set[Ref] = set()
        stack = [outer for condition, _ in held for outer in self._around.get(condition, ())]
        while stack:
            condition = stack.pop()
            if condition not in around:
                around.add(condition)
                stack.extend(self._around.get(condition, ()))
        return [key for key in held if key[0] not in around] or list(held)

    def _choice(self, merge: TfNode) -> _Choice | None:
        """What a Merge chooses between; None if that cannot be told."""
        places = [self._behind(ref) for ref in merge.inputs]
        count = len(places)
        if count < 2:
            return None
        for condition in {condition: None for sides in places for condition, _ in sides}:
            numbers = [{number for other, number in sides if other == condition} for sides in places]
            told = [next(iter(each)) if len(each) == 1 else -1 for each in numbers]
            if count == 2 and () in places:  # where nothing is told, it is the other side
                told = [number if sides else 1 - max(told) for number, sides in zip(told, places, strict=True)]
            if sorted(told) == list(range(count)):
                by_number = dict(zip(told, merge.inputs, strict=True))
                return _Choice(merge, condition, tuple([by_number[number] for number in range(count)]))
        return None

    # --- what becomes of them -----------------------------------------------------------------------

    def _replace(self, condition: Ref, choices: Sequence[_Choice]) -> None:
        captured: dict[str, Ref] = {}

        def stop(ref: Ref) -> str | None:
            node = self._nodes.get(ref.node)
            if self._conditions.get(ref.node) == condition:
                ref = self._nodes[ref.node].inputs[0]
            elif node is None or node.op == "Const" or any(own == condition for own, _ in self._behind(ref)):
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
        reads = (condition, *captured.values())
        sides = self._union(self._behind(ref) for ref in reads)
        self._put(TfNode(name, op, reads, {}, (), bodies, first.called), sides)
        for index, choice in enumerate(choices):
            merge, inputs = choice.merge, [Ref(name, index)]
            if not is_case:
                inputs.append(self._number_of_input(choice))
            self._put(TfNode(merge.name, "IdentityN", tuple(inputs), {}, merge.controls, called=merge.called), sides)

    def _put(self, node: TfNode, sides: tuple[_Side, ...]) -> None:
        self._nodes[node.name] = node
        self._sides[node.name] = sides

    def _number_of_input(self, choice: _Choice) -> Ref:
        """Output 1 of a Merge, the number of the input that was there: the condition as a number."""
        called, condition = choice.merge.called, choice.condition
        if choice.sides[0] != choice.merge.inputs[0]:
            name = free_name(self._nodes, f"{choice.merge.name}/not")
            self._put(TfNode(name, "LogicalNot", (condition,), {}, called=called), self._behind(condition))
            condition = Ref(name, 0)
        name = free_name(self._nodes, f"{choice.merge.name}/index")
        attrs = {"DstT": DataType.DT_INT32}
        self._put(TfNode(name, "Cast", (condition,), attrs, called=called), self._behind(condition))
        return Ref(name, 0)

    # --- what is left over ----------------------------------------------------------------------------

    def _unread(self) -> set[str]:
        return self._nodes.keys() - {ref.node for node in self._nodes.values() for ref in node.inputs} - self._kept

    def _drop_what_nobody_reads(self) -> None:
        """Drops what now stands in bodies alone, and the marks of a side on which only control edges hang."""
        nodes, marks = self._nodes, find_marks(self._nodes)
        readers = Counter(ref.node for node in nodes.values() for ref in node.inputs)
        waiting = list(self._unread())
        while waiting:
            name = waiting.pop()
            if name in nodes and (name not in self._ends or name in marks):
                for ref in nodes.pop(name).inputs:
                    readers[ref.node] -= 1
                    if not readers[ref.node] and ref.node not in self._kept:
                        waiting.append(ref.node)
