"""Which sizes a cluster gets variants for: those that its general plan leaves out, the most frequent first."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product

from atcpy.ir.symbolic import Guard, Question, Tracer
from atcpy.stages.symbols import Case, Symbols, Untraceable

_MAX_SPECIAL_DIMS = 4
_LAST_RANK = 100  # added to the ranks of cases that hardly have plans


class Cases:
    """The cases to trace a graph for: dims of 1 and 0, then what is beyond the guards of each plan that was found."""

    def __init__(self, general: Symbols) -> None:
        self._general = general
        self._pending: list[tuple[int, int, Question | None, Case]] = []
        self._count = 0
        self._tried: list[Case] = []
        self._rules: set[Question] = set()  # what must be so, or the model is wrong
        self._refused: list[Case] = []
        self._failed: list[tuple[Tracer, list[Guard]]] = []  # where the guards of a trace that failed answer otherwise
        for case, rank in _special_dims(general):
            self._add([(None, case)], rank)
        self.add_beyond(general)

    def add_beyond(self, symbols: Symbols) -> None:
        """Add the cases beyond the guards of a trace."""
        self._add(symbols.beyond())

    def _add(self, cases: Iterable[tuple[Question | None, Case]], least_rank: int = 0) -> None:
        for question, case in cases:
            empty = [name for name in self._general.open_dims if case.fixed.get(name) == 0]
            # One empty dim is as good as any other size; what follows from it is rare.
            rank = max(len(empty) - (question is None), least_rank)
            heapq.heappush(self._pending, (rank, self._count, question, case))
            self._count += 1

    def __iter__(self) -> Iterator[tuple[Question | None, Case]]:
        """The cases that may have plans, each once, with the question that shall have another answer; those that were
        added since are among them. Last come those for which guards answer as they did in a trace that failed.
        """
        while self._pending:
            rank, count, question, case = heapq.heappop(self._pending)
            if rank < _LAST_RANK and any(_hold(guards, tracer, case.sizes) for tracer, guards in self._failed):
                heapq.heappush(self._pending, (rank + _LAST_RANK, count, question, case))
                continue
            is_refused = any(other.fixed.items() <= case.fixed.items() for other in self._refused)
            if question not in self._rules and not is_refused and case not in self._tried:
                self._tried.append(case)
                yield question, case

    def refuse(self, question: Question | None, case: Case, untraceable: Untraceable) -> None:
        """Leave out what is refused for the same reason as a case, or put it last."""
        sizes, tracer = self._general.complete({}) or {}, untraceable.tracer
        if tracer is not None:
            unlike = [guard for guard in tracer.guards.values() if not _hold([guard], tracer, sizes)]
            if unlike:
                self._failed.append((tracer, unlike))
        if question is None:
            if untraceable.is_misfit and self._general.complete(case.fixed) is not None:
                self._refused.append(case)
        elif untraceable.breaks_rule:
            self._rules.add(question)


def _hold(guards: Sequence[Guard], tracer: Tracer, sizes: Mapping[str, int]) -> bool:
    """Do guards of a trace hold for these sizes, which may lack some of its symbols?"""
    return all(tracer.symbols_of(guard.terms) <= sizes.keys() for guard in guards) and tracer.all_hold(guards, sizes)


def _special_dims(symbols: Symbols) -> list[tuple[Case, int]]:
    """Dims of size 1, and empty ones, where they may be so small: a few of them at a time. Dims that equal others come
    behind them, where they are 1 and broadcast. Last, by their rank, come empty batches, and other sizes that do not
    keep the equations of the general plan.
    """
    batches = {source.name for source in symbols.sources if source.index == 0}
    dims = list(symbols.open_dims)
    choices: list[Sequence[int | None]] = [
        (None, *(size for size in (1, 0) if low <= size <= high)) for low, high in symbols.open_dims.values()
    ]
    if len(choices) > _MAX_SPECIAL_DIMS:
        choices[_MAX_SPECIAL_DIMS:] = [(None,)] * (len(choices) - _MAX_SPECIAL_DIMS)
    found = [
        {dim: size for dim, size in zip(dims, sizes, strict=True) if size is not None} for sizes in product(*choices)
    ]
    found.sort(key=lambda sizes: (len(sizes), list(sizes.values()).count(0)))
    plain = symbols.complete({}) or {}
    cases: list[tuple[Case, int]] = []
    broadcast: list[tuple[Case, int]] = []
    for sizes in filter(None, found):
        whole = symbols.complete(sizes)
        if whole is not None:  # dims that equal one of 0 are 0, too
            fixed = {**sizes, **{dim: 0 for dim in dims if whole[dim] == 0}}
            cases.append((Case(fixed, whole), int(any(fixed.get(dim) == 0 for dim in batches))))
        if whole is None or symbols.equations:  # what equals a size may be anything beside one of 1, which is broadcast
            if 0 in sizes.values() or symbols.equations.keys().isdisjoint(sizes):
                cases.append((Case(sizes, plain), 2))
            else:
                broadcast.append((Case(sizes, plain), 0))
    return [*cases, *broadcast]
