"""Compute cheap values in each graph kernel that reads them, where that costs less than their way through memory.

A(p), B(p) in two kernels, p = Mul(x, 2)  →  p is computed in both
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from atcpy.ir import Node, Reject
from atcpy.ops.elementwise.graph_kernel import Sources, sources_of
from atcpy.ops.elementwise.graph_program import MAX_SOURCES, MAX_WORDS
from atcpy.passes.optimize.graph_kernel_groups import LAUNCH_COST, Groups, reads, with_views

MAX_COPIED = 6  # nodes that make a value, of its own kernel
MAX_READERS = 16  # kernels, of a value
MIN_GAIN = LAUNCH_COST // 2


@dataclass(eq=False, slots=True)
class Kernel:
    """What will be one kernel: its own nodes, in topological order, and those of others that it computes, too."""

    own: list[Node]
    copied: list[Node] = field(default_factory=list)

    @property
    def nodes(self) -> list[Node]:
        """All, in topological order."""
        return [*self.copied, *self.own]


class Copies:
    """Has kernels compute what others make, too. What is left is to be made in the order of `kernels`: a kernel is
    there behind those that copy its nodes.
    """

    def __init__(self, groups: Groups, kernels: Sequence[Kernel]) -> None:
        self._groups = groups
        self._kernels = dict.fromkeys(kernels)
        self._home = {node: kernel for kernel in kernels for node in kernel.own}
        self._settled: set[tuple[str, str]] = set()
        self._place = {node: place for place, node in enumerate(groups.parts)}
        for node in groups.parts:
            self._try(node)

    def kernels(self) -> list[Kernel]:
        """The kernels that there are now."""
        borrowers: dict[Kernel, list[Kernel]] = {}
        for kernel in self._kernels:
            for node in kernel.copied:
                home = self._home.get(node)
                if home is not None:
                    borrowers.setdefault(home, []).append(kernel)
        found: dict[Kernel, None] = {}
        for start in self._kernels:
            pending = [start]
            while pending:
                waiting = [kernel for kernel in borrowers.get(pending[-1], ()) if kernel not in found]
                if waiting:
                    pending.append(waiting[0])
                else:
                    found[pending.pop()] = None
        return list(found)

    def unsettled(self, rejects: Iterable[Reject]) -> list[Reject]:
        """Those of the reasons against two nodes in one kernel that hold still."""
        return [reject for reject in rejects if (reject.where, reject.detail) not in self._settled]

    def _try(self, node: Node) -> None:
        """Copies what makes a node's result into all kernels that read it, if that pays."""
        groups, home = self._groups, self._home.get(node)
        users = groups.users[node]
        if not users or any(user not in groups.parts for user in users):
            return  # it lies in memory anyhow
        readers = {self._home.get(user) or Kernel([user]): None for user in dict.fromkeys(users)}
        if home is not None:
            readers.pop(home, None)
        if not readers or (home is None and len(readers) == 1) or len(readers) > MAX_READERS:
            return
        made = self._what_makes(node, home)
        if len(made) > MAX_COPIED:
            return
        vanishes = home is None or not self._is_read_elsewhere(home, node)
        gain = node.output.desc.nbytes + (LAUNCH_COST + self._cost(made, 1) if vanishes else 0)
        for reader in readers:
            before, after = self._sources(reader, ()), self._sources(reader, made)
            if before is None or after is None:
                return
            largest = max(groups.parts[own].elements for own in reader.own)
            gain += _bytes(before) - _bytes(after) - self._cost(made, largest // groups.parts[node].elements)
        if gain < MIN_GAIN:
            return
        self._settled |= {(user.name, reads(node)) for user in users}
        for reader in readers:
            self._kernels[reader] = None
            reader.copied = self._copied_with(reader, made)
            self._home.update(dict.fromkeys(reader.own, reader))
            for copied in made:
                groups.users[copied] = [user for user in groups.users[copied] if self._home.get(user) is not reader]
        for lender in dict.fromkeys(self._home[copied] for copied in made if copied in self._home):
            self._drop_unread(lender)

    def _drop_unread(self, kernel: Kernel) -> None:
        """Leaves out of a kernel what nobody reads there any more."""
        groups = self._groups
        for node in reversed(kernel.own):
            if groups.users[node]:
                continue
            del self._home[node]
            for source, *_ in groups.read[node]:
                if self._home.get(source) is kernel:
                    groups.users[source] = [user for user in groups.users[source] if user is not node]
        kernel.own = [node for node in kernel.own if node in self._home]
        read = {source for node in kernel.own for source, *_ in groups.read[node]}
        for node in reversed(kernel.copied):
            if node in read:
                read |= {source for source, *_ in groups.read[node]}
        kernel.copied = [node for node in kernel.copied if node in read]
        if not kernel.own or len(kernel.nodes) < 2:
            del self._kernels[kernel]
            for node in kernel.own:
                del self._home[node]

    def _what_makes(self, node: Node, home: Kernel | None) -> list[Node]:
        """A node and what it depends on in its own kernel, in topological order."""
        if home is None:
            return [node]
        found, inside = {node}, set(home.nodes)
        for other in reversed(home.nodes):
            if other in found:
                found |= {source for source, *_ in self._groups.read[other] if source in inside}
        return [other for other in home.nodes if other in found]

    def _is_read_elsewhere(self, home: Kernel, node: Node) -> bool:
        """True if a kernel makes more than a node's result."""
        own = set(home.own)
        return any(self._groups.is_read_outside(other, own) for other in home.own if other is not node)

    def _copied_with(self, reader: Kernel, made: Sequence[Node]) -> list[Node]:
        return sorted({*reader.copied, *made}, key=self._place.__getitem__)

    def _cost(self, nodes: Sequence[Node], times: int) -> int:
        parts = self._groups.parts
        return sum(parts[node].cost * parts[node].elements * times for node in nodes)

    def _sources(self, reader: Kernel, made: Sequence[Node]) -> Sources | None:
        """What a kernel reads if it computes these nodes, too; None if it cannot."""
        groups, own = self._groups, set(reader.own)
        nodes = [*self._copied_with(reader, made), *reader.own]
        results = [node.output for node in reader.own if groups.is_read_outside(node, own)]
        if sum(groups.parts[node].words for node in nodes) > MAX_WORDS:
            return None
        sources = sources_of(with_views(nodes), results, groups.operand_spans)
        return sources if sources is not None and 1 <= len(sources.keys) <= MAX_SOURCES else None


def _bytes(sources: Sources) -> int:
    return sum(value.desc.nbytes for value in {value: None for value, _ in sources.keys})
