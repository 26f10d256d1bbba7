"""The smallest part of a model that still shows a fault.

    the nodes of the match and what lies around them, farther and farther, until the fault shows
    (without a match: the shortest beginning of the model, then the shortest end of that)
    → leave out halves, quarters … single nodes, as long as it shows (delta debugging)

What a part reads from outside becomes its inputs, with the arrays that the whole model computes there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from atcpy.debug.bisect import first_that
from atcpy.debug.submodel import IndexedModel

MAX_TRIALS = 300
_LARGE = 24  # more nodes are cut from their ends first

Shows = Callable[[Sequence[int]], bool]


class _Budget(Exception):
    """So many parts were tried that the smallest one so far must do."""


def reduce(source: IndexedModel, start: Sequence[int], shows: Shows) -> list[int]:
    """The nodes of a part that shows the fault; no single one of them can be left out, unless MOST_TRIALS end it.
    No nodes if neither those of the match, nor what lies around them, nor all show it.
    """
    return _Reduction(source, shows).run(list(start))


class _Reduction:
    def __init__(self, source: IndexedModel, shows: Shows) -> None:
        self._source = source
        self._ask = shows
        self._known: dict[tuple[int, ...], bool] = {}
        self._smallest: list[int] = list(range(len(source.nodes)))

    def run(self, start: list[int]) -> list[int]:
        try:
            self._from_around(start)
            if not self._shows(self._smallest):
                return []
            if len(self._smallest) > _LARGE:
                self._from_ends()
            self._one_by_one()
        except _Budget:
            pass
        return self._smallest

    def _shows(self, nodes: Sequence[int]) -> bool:
        key = tuple(nodes)
        if key not in self._known:
            if len(self._known) == MAX_TRIALS:
                raise _Budget
            self._known[key] = bool(nodes) and self._ask(nodes)
        if self._known[key] and len(nodes) < len(self._smallest):
            self._smallest = list(nodes)
        return self._known[key]

    def _from_around(self, start: list[int]) -> None:
        distance = 0
        nodes = start
        while nodes and not self._shows(nodes):
            distance = 2 * distance or 1
            wider = self._source.around(start, distance)
            if len(wider) in (len(nodes), len(self._source.nodes)):
                return
            nodes = wider

    def _from_ends(self) -> None:
        nodes = self._smallest
        end = first_that(lambda count: self._shows(nodes[:count]), 1, len(nodes))
        nodes = nodes[:end]
        length = first_that(lambda count: self._shows(nodes[-count:]), 1, len(nodes))
        self._shows(nodes[-length:])

    def _one_by_one(self) -> None:
        """Delta debugging: chunks are left out, then chunks of half the size."""
        size = max(1, len(self._smallest) // 2)
        while True:
            before = len(self._smallest)
            at = 0
            while at < len(self._smallest):
                nodes = self._smallest
                if not self._shows([*nodes[:at], *nodes[at + size :]]):
                    at += size
            if size == 1 and len(self._smallest) == before:
                return
            size = max(1, size // 2)
