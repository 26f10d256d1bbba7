"""Compute cheap values in each graph kernel that reads them, where that costs less than their way through memory.

A(p), B(p) in two kernels, p = Mul(x, 2)  →  p is computed in both
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from atcpy.ir import Node, Reject
from atcpy.ir.order import depth_first_order
from atcpy.ir.symbolic import example
from atcpy.ops.elementwise.graph_kernel import Sources, sources_of
from atcpy.ops.elementwise.graph_program import MAX_SOURCES, MAX_WORDS
from atcpy.passes.optimize.graph_kernel_groups import LAUNCH_COST, Groups, reads, with_views

MAX_COPIED = 6  # nodes that make a value, of its own kernel
MAX_READERS = 16  # kernels, of a value
MIN_GAIN = LAUNCH_COST // 2


@dataclass(eq=False, slots=True)
class Kernel:
    """A future kernel: its own nodes, in topological order, and nodes of others that it computes as well."""

    own: list[Node]
    copied: list[Node] = field(default_factory=list)

    @property
    def nodes(self) -> list[Node]:
        """All, in topological order."""
        return [*self.copied, *self.own]


class Copies:
    """Duplicates cheap nodes into the kernels that read them. Kernels are to be built in the order of `kernels`: each
    one after those that copy its nodes.
    """

    def __init__(self, groups: Groups, kernels: Sequence[Kernel]) -> None:
        self._groups = groups
        self._kernels = dict.fromkeys(kernels)
        self._kernel_of = {node: kernel for kernel in kernels for node in kernel.own}
        self._settled: set[tuple[str, str]] = set()
        self._position = {node: index for index, node in enumerate(groups.parts)}
        for node in groups.parts:
            self._try(node)

    def kernels(self) -> list[Kernel]:
        """Return the kernels that are left."""
        borrowers: dict[Kernel, list[Kernel]] = {}
        for kernel in self._kernels:
            for node in kernel.copied:
                owner = self._kernel_of.get(node)
                if owner is not None:
                    borrowers.setdefault(owner, []).append(kernel)
        return depth_first_order(self._kernels, lambda kernel: borrowers.get(kernel, ()))

    def unsettled(self, rejects: Iterable[Reject]) -> list[Reject]:
        """Return those of the reasons against two nodes in one kernel that copies did not settle."""
        return [reject for reject in rejects if (reject.where, reject.detail) not in self._settled]

    def _try(self, node: Node) -> None:
        """Copy a node, with what it depends on, into all kernels that read it, if that pays."""
        groups, owner = self._groups, self._kernel_of.get(node)
        users = groups.users[node]
        if not users or any(user not in groups.parts for user in users):
            return  # it lies in memory anyhow
        readers = {self._kernel_of.get(user) or Kernel([user]): None for user in dict.fromkeys(users)}
        if owner is not None:
            readers.pop(owner, None)
        if not readers or (owner is None and len(readers) == 1) or len(readers) > MAX_READERS:
            return
        copies = self._backward_slice(node, owner)
        if len(copies) > MAX_COPIED:
            return
        vanishes = owner is None or not self._is_read_elsewhere(owner, node)
        gain = example(node.output.desc.nbytes) + (LAUNCH_COST + self._cost(copies, 1) if vanishes else 0)
        for reader in readers:
            before, after = self._sources(reader, ()), self._sources(reader, copies)
            if before is None or after is None:
                return
            largest = max(example(groups.parts[own].elements) for own in reader.own)
            times = largest // example(groups.parts[node].elements)
            gain += example(_bytes(before)) - example(_bytes(after)) - self._cost(copies, times)
        if example(gain) < MIN_GAIN:
            return
        self._settled |= {(user.name, reads(node)) for user in users}
        for reader in readers:
            self._kernels[reader] = None
            reader.copied = self._copied_with(reader, copies)
            self._kernel_of.update(dict.fromkeys(reader.own, reader))
            for copied in copies:
                groups.users[copied] = [
                    user for user in groups.users[copied] if self._kernel_of.get(user) is not reader
                ]
        for lender in dict.fromkeys(self._kernel_of[copied] for copied in copies if copied in self._kernel_of):
            self._drop_unread(lender)

    def _drop_unread(self, kernel: Kernel) -> None:
        """Remove the nodes of a kernel that nobody reads any more."""
        groups = self._groups
        for node in reversed(kernel.own):
            if groups.users[node]:
                continue
            del self._kernel_of[node]
            for source, *_ in groups.read[node]:
                if self._kernel_of.get(source) is kernel:
                    groups.users[source] = [user for user in groups.users[source] if user is not node]
        kernel.own = [node for node in kernel.own if node in self._kernel_of]
        read = {source for node in kernel.own for source, *_ in groups.read[node]}
        for node in reversed(kernel.copied):
            if node in read:
                read |= {source for source, *_ in groups.read[node]}
        kernel.copied = [node for node in kernel.copied if node in read]
        if not kernel.own or len(kernel.nodes) < 2:
            del self._kernels[kernel]
            for node in kernel.own:
                del self._kernel_of[node]

    def _backward_slice(self, node: Node, owner: Kernel | None) -> list[Node]:
        """A node and what it depends on in its own kernel, in topological order."""
        if owner is None:
            return [node]
        found, inside = {node}, set(owner.nodes)
        for other in reversed(owner.nodes):
            if other in found:
                found |= {source for source, *_ in self._groups.read[other] if source in inside}
        return [other for other in owner.nodes if other in found]

    def _is_read_elsewhere(self, owner: Kernel, node: Node) -> bool:
        """Whether others read results of a kernel besides the node's."""
        own = set(owner.own)
        return any(self._groups.is_read_outside(other, own) for other in owner.own if other is not node)

    def _copied_with(self, reader: Kernel, copies: Sequence[Node]) -> list[Node]:
        return sorted({*reader.copied, *copies}, key=self._position.__getitem__)

    def _cost(self, nodes: Sequence[Node], times: int) -> int:
        parts = self._groups.parts
        return sum(parts[node].cost * parts[node].elements * times for node in nodes)

    def _sources(self, reader: Kernel, copies: Sequence[Node]) -> Sources | None:
        """What a kernel reads if it also computes these nodes; None if it cannot."""
        groups, own = self._groups, set(reader.own)
        nodes = [*self._copied_with(reader, copies), *reader.own]
        results = [node.output for node in reader.own if groups.is_read_outside(node, own)]
        if sum(groups.parts[node].words for node in nodes) > MAX_WORDS:
            return None
        sources = sources_of(with_views(nodes), results, groups.operand_spans)
        return sources if sources is not None and 1 <= len(sources.keys) <= MAX_SOURCES else None


def _bytes(sources: Sources) -> int:
    return sum(value.desc.nbytes for value in {value: None for value, _ in sources.keys})
