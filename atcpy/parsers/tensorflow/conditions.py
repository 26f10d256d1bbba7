"""Conditions of TensorFlow 1: the nodes between Switches and the Merges of their branches become an If, inner
conditions first; those of a lowered Case become a Case.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from atcpy.errors import AtcError, ModelInvalid, Where, raise_all
from atcpy.parsers.tensorflow.graph import ARGUMENT, SWITCHES, Ref, TfGraph, TfNode, find_pivots, needed
from atcpy.parsers.tensorflow.schema.tensorflow_pb2 import DataType

_IDENTITIES = frozenset({"Identity", "IdentityN", "StopGradient"})


def origin(nodes: Mapping[str, TfNode], ref: Ref) -> Ref:
    """Return the value that a chain of Identity nodes begins with."""
    seen = {ref}
    while (node := nodes.get(ref.node)) is not None and node.op in _IDENTITIES and ref.output < len(node.inputs):
        ref = node.inputs[ref.output]
        if ref in seen:
            break
        seen.add(ref)
    return ref


# --- extraction of bodies ------------------------------------------------------------------------


@dataclass(slots=True)
class Cut:
    """Collects the nodes of a body: those that some values depend on. `stop` returns the name of the argument that
    replaces a reference, or None if its node belongs to the body. Constants with control edges from `pivots` depend on
    these.
    """

    nodes: Mapping[str, TfNode]
    stop: Callable[[Ref], str | None]
    pivots: Collection[str] = ()
    found: dict[str, TfNode] = field(default_factory=dict)

    def run(self, roots: Iterable[Ref]) -> None:
        """Collect all that these values depend on."""
        stack = list(roots)
        while stack:
            ref = stack.pop()
            if ref.node in self.found or self.stop(ref) is not None:
                continue
            node = self.nodes.get(ref.node)
            if node is None:
                raise ModelInvalid("E12009", f'no node is named "{ref.node}"', where=Where(node=ref.node))
            self.found[ref.node] = node
            stack.extend(node.inputs or [Ref(name, 0) for name in node.controls if name in self.pivots])

    def graph(self, arguments: Sequence[str], outputs: Iterable[Ref]) -> TfGraph:
        """Return the collected nodes as a graph with these arguments."""
        nodes = {name: TfNode(name, ARGUMENT, (), {"index": index}) for index, name in enumerate(arguments)}
        for node in self.found.values():
            inputs = tuple([self._inside(ref) for ref in node.inputs])
            nodes[node.name] = TfNode(node.name, node.op, inputs, node.attrs, node.controls, node.bodies, node.called)
        graph = with_conditions(TfGraph(nodes, list(arguments), [self._inside(ref) for ref in outputs]))
        problems: list[AtcError] = []
        flat = needed(graph, problems)
        raise_all(problems)
        return flat

    def _inside(self, ref: Ref) -> Ref:
        argument = self.stop(ref)
        return ref if argument is None else Ref(argument, 0)


def free_name(nodes: Mapping[str, TfNode], stem: str) -> str:
    """Return a name that no node has yet."""
    name, number = stem, 0
    while name in nodes:
        number += 1
        name = f"{stem}.{number}"
    return name


# --- conditions ---


def with_conditions(graph: TfGraph) -> TfGraph:
    """Return the graph with one If for all Merges of a condition that do not depend on each other."""
    if not any(node.op == "Merge" for node in graph.nodes.values()):
        return graph
    conditions = _Conditions(TfGraph(dict(graph.nodes), graph.inputs, list(graph.outputs)))
    conditions.rebuild()
    return conditions.graph


@dataclass(frozen=True, slots=True)
class _Choice:
    """A Merge: its condition, and its input for each value of that: false and true, or 0, 1, …"""

    merge: TfNode
    condition: Ref
    sides: tuple[Ref, ...]


_Side = tuple[Ref, int]  # a condition, and the value for which a node runs


class _Conditions:
    """The conditions of a graph without frames.

    Each node is visited once, after its inputs. A Merge waits until no other node can be visited: then the waiting
    Merges of one condition become one If, inner conditions first.
    """

    def __init__(self, graph: TfGraph) -> None:
        self.graph = graph
        self._nodes = graph.nodes
        self._kept = {*graph.inputs, *(ref.node for ref in graph.outputs)}
        self._ends = self._unread()
        self._readers: dict[str, list[str]] = {}
        self._missing: dict[str, int] = {}  # the number of inputs that are not visited yet
        self._sides: dict[str, tuple[_Side, ...]] = {}  # of the nearest Switches that a node depends on
        self._conditions: dict[str, Ref] = {}  # by Switch
        self._around: dict[Ref, dict[Ref, None]] = {}  # the conditions around the Switches of one
        self._indices: set[Ref] = set()  # conditions that are branch indices

    def rebuild(self) -> None:
        """Rebuild all conditions. A Merge without one stays, and its mapping refuses it."""
        waiting = self._begin()
        pending: dict[tuple[Ref, int], list[_Choice]] = {}
        while waiting or pending:
            while waiting:
                node = self._nodes[waiting.pop()]
                choice = self._choice(node) if node.op == "Merge" else None
                if choice is None:
                    waiting.extend(self._visit(node))
                else:
                    pending.setdefault((choice.condition, len(choice.sides)), []).append(choice)
            for key in self._innermost(pending):
                choices = pending.pop(key)
                self._replace(key[0], choices)
                for choice in choices:
                    waiting.extend(self._released(choice.merge.name))
        self._remove_unread()

    # --- order of visits ----------------------------------------------------------------------------

    def _begin(self) -> list[str]:
        """The nodes without inputs; a constant comes after the nodes that it has control edges from."""
        for node in self._nodes.values():
            above = [ref.node for ref in node.inputs] or list(node.controls)
            above = [name for name in above if name in self._nodes]
            self._missing[node.name] = len(above)
            for name in above:
                self._readers.setdefault(name, []).append(node.name)
        return [name for name, count in reversed(self._missing.items()) if not count]

    def _released(self, name: str) -> Iterator[str]:
        """Yield the nodes that waited for this one last."""
        for reader in self._readers.get(name, ()):
            self._missing[reader] -= 1
            if not self._missing[reader]:
                yield reader

    def _visit(self, node: TfNode) -> Iterator[str]:
        """Record the sides of conditions that a node is on; return the nodes that can be visited now."""
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

    def _innermost(self, pending: Mapping[tuple[Ref, int], object]) -> list[tuple[Ref, int]]:
        """The keys of conditions that have no other inside; all of them if each has one."""
        around: set[Ref] = set()
        stack = [outer for condition, _ in pending for outer in self._around.get(condition, ())]
        while stack:
            condition = stack.pop()
            if condition not in around:
                around.add(condition)
                stack.extend(self._around.get(condition, ()))
        return [key for key in pending if key[0] not in around] or list(pending)

    def _choice(self, merge: TfNode) -> _Choice | None:
        """The choice of a Merge; None if its inputs cannot be assigned to values of one condition."""
        by_input = [self._behind(ref) for ref in merge.inputs]
        count = len(by_input)
        if count < 2:
            return None
        for condition in {condition: None for sides in by_input for condition, _ in sides}:
            numbers = [{number for other, number in sides if other == condition} for sides in by_input]
            values = [next(iter(each)) if len(each) == 1 else -1 for each in numbers]
            if count == 2 and () in by_input:  # an input without a Switch is the other side
                values = [value if sides else 1 - max(values) for value, sides in zip(values, by_input, strict=True)]
            if sorted(values) == list(range(count)):
                by_value = dict(zip(values, merge.inputs, strict=True))
                return _Choice(merge, condition, tuple([by_value[value] for value in range(count)]))
        return None

    # --- replacement --------------------------------------------------------------------------------

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
        """Output 1 of a Merge, `value_index`: the condition as a number."""
        called, condition = choice.merge.called, choice.condition
        if choice.sides[0] != choice.merge.inputs[0]:
            name = free_name(self._nodes, f"{choice.merge.name}/not")
            self._put(TfNode(name, "LogicalNot", (condition,), {}, called=called), self._behind(condition))
            condition = Ref(name, 0)
        name = free_name(self._nodes, f"{choice.merge.name}/index")
        attrs = {"DstT": DataType.DT_INT32}
        self._put(TfNode(name, "Cast", (condition,), attrs, called=called), self._behind(condition))
        return Ref(name, 0)

    # --- removal -------------------------------------------------------------------------------------

    def _unread(self) -> set[str]:
        return self._nodes.keys() - {ref.node for node in self._nodes.values() for ref in node.inputs} - self._kept

    def _remove_unread(self) -> None:
        """Remove nodes that only bodies need, and pivots that have only control edges."""
        nodes, pivots = self._nodes, find_pivots(self._nodes)
        readers = Counter(ref.node for node in nodes.values() for ref in node.inputs)
        waiting = list(self._unread())
        while waiting:
            name = waiting.pop()
            if name in nodes and (name not in self._ends or name in pivots):
                for ref in nodes.pop(name).inputs:
                    readers[ref.node] -= 1
                    if not readers[ref.node] and ref.node not in self._kept:
                        waiting.append(ref.node)
