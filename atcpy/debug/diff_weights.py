"""What differs between the constants of two graphs: their values, whatever they are stored as.

    1. name: constants of one name belong together
    2. values: of the rest, those that are equal bit for bit
    3. name without the number that a pass appends: `w` and `w.1`

So each constant is in one pair at most, and the counts add up.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from atcpy.ir import DType, Graph, Node, Tensor, walk

_NUMBER = re.compile(r"(\.\d+)+\Z")


class WeightKind(Enum):
    """What became of a constant."""

    SAME = "same"
    STORED = "stored"  # the same values in another format
    RENAMED = "renamed"
    CHANGED = "changed"
    REMOVED = "removed"
    ADDED = "added"


@dataclass(frozen=True, slots=True)
class WeightPair:
    """A constant before and after; one of the two is None where it is only in one graph. `max_abs` is the largest
    difference of their elements, None where they cannot be subtracted.
    """

    kind: WeightKind
    before: Node | None
    after: Node | None
    fields: tuple[str, ...] = ()
    max_abs: float | None = None


@dataclass(frozen=True, slots=True)
class WeightDifference:
    """All constants of two graphs, in the order of those before, then of those after."""

    pairs: tuple[WeightPair, ...]

    @property
    def same(self) -> bool:
        """Is there no difference?"""
        return all(pair.kind is WeightKind.SAME for pair in self.pairs)

    def count(self, kind: WeightKind) -> int:
        """Pairs of a kind."""
        return sum(pair.kind is kind for pair in self.pairs)

    def totals(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """The number of constants and their bytes, before and after."""
        sides = ([pair.before for pair in self.pairs], [pair.after for pair in self.pairs])
        before, after = ([node for node in side if node is not None] for side in sides)
        return _total(before), _total(after)


def diff_weights(before: Graph, after: Graph) -> WeightDifference:
    """Compare the constants of two graphs, those of bodies too."""
    old, new = (_constants(graph) for graph in (before, after))
    partners: dict[Node, Node] = {}
    taken: set[Node] = set()
    keys: tuple[Callable[[Node], Hashable], ...] = (_name, lambda node: _tensor(node).digest, _stem)
    for key in keys:
        waiting: dict[Hashable, deque[Node]] = defaultdict(deque)
        for node in old:
            if node not in partners:
                waiting[key(node)].append(node)
        for node in new:
            if node not in taken and (twins := waiting.get(key(node))):
                partners[twins.popleft()] = node
                taken.add(node)
    pairs = [
        _compare(node, partners[node]) if node in partners else WeightPair(WeightKind.REMOVED, node, None)
        for node in old
    ]
    added = [WeightPair(WeightKind.ADDED, None, node) for node in new if node not in taken]
    return WeightDifference((*pairs, *added))


def _constants(graph: Graph) -> list[Node]:
    return [node for node in walk(graph) if node.op_type == "Const"]


def _tensor(node: Node) -> Tensor:
    tensor = node.attrs["value"]
    assert isinstance(tensor, Tensor)
    return tensor


def _name(node: Node) -> str:
    return node.output.name


def _stem(node: Node) -> str:
    return _NUMBER.sub("", node.output.name)


def _total(nodes: Sequence[Node]) -> tuple[int, int]:
    return len(nodes), sum(_tensor(node).nbytes for node in nodes)


def _compare(before: Node, after: Node) -> WeightPair:
    one, other = _tensor(before), _tensor(after)
    fields = tuple(_fields(before, after))
    if one.equals(other):
        kind = WeightKind.RENAMED if _name(before) != _name(after) else WeightKind.STORED if fields else WeightKind.SAME
        return WeightPair(kind, before, after, fields)
    return WeightPair(WeightKind.CHANGED, before, after, fields, _max_abs(one, other))


def _fields(before: Node, after: Node) -> Iterator[str]:
    one, other = before.output.desc, after.output.desc
    if one.dtype is not other.dtype:
        yield f"dtype {one.dtype.long}→{other.dtype.long}"
    if one.shape != other.shape:
        yield f"shape {_dims(one.shape)}→{_dims(other.shape)}"
    if one.format != other.format:
        yield f"format {one.format}→{other.format}"


def _dims(shape: object) -> str:
    return "?" if shape is None else "[" + ",".join(map(str, shape)) + "]"  # type: ignore[call-overload]


def _max_abs(one: Tensor, other: Tensor) -> float | None:
    """The largest difference; infinite where one has NaN and the other has not. None for texts, complex numbers and
    other shapes.
    """
    if one.shape != other.shape or any(t.dtype is DType.STRING or t.array.dtype.kind == "c" for t in (one, other)):
        return None
    if not one.array.size:
        return 0.0
    a, b = (np.asarray(tensor.array, np.float64).reshape(-1) for tensor in (one, other))
    with np.errstate(invalid="ignore"):
        delta = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
    return float(np.where(np.isnan(delta), np.inf, delta).max())


def weights_record(difference: WeightDifference) -> dict[str, Any]:
    """The member `weights` of the result of `diff --json`."""
    (count, nbytes), (new_count, new_nbytes) = difference.totals()
    return {
        "before": count,
        "after": new_count,
        "bytes_before": nbytes,
        "bytes_after": new_nbytes,
        "counts": {kind.value: found for kind in WeightKind if (found := difference.count(kind))},
        "differing": [
            {
                "a": None if pair.before is None else _name(pair.before),
                "b": None if pair.after is None else _name(pair.after),
                "kind": pair.kind.value,
                "fields": list(pair.fields),
                "max_abs": pair.max_abs,
            }
            for pair in difference.pairs
            if pair.kind is not WeightKind.SAME
        ],
    }


def weight_lines(difference: WeightDifference) -> Iterator[str]:
    """The counts, which add up to those of the constants before and after, then a line for each that differs."""
    (count, _), (new_count, _) = difference.totals()
    counts = [(kind.value, difference.count(kind)) for kind in WeightKind]
    listed = " · ".join(f"{name} {found}" for name, found in counts if found)
    yield f"weights {count} → {new_count}   {listed or 'none'}"
    for pair in difference.pairs:
        if pair.kind is not WeightKind.SAME:
            yield f"{pair.kind.value:<8}{_pair_text(pair)}"


def _pair_text(pair: WeightPair) -> str:
    names = [_name(node) for node in (pair.before, pair.after) if node is not None]
    notes = [*pair.fields]
    if pair.max_abs is not None:
        notes.append(f"max difference {pair.max_abs:.3g}")
    if len(names) == 1:
        notes = [str(node.output.desc) for node in (pair.before, pair.after) if node is not None]
    return " → ".join(dict.fromkeys(names)) + (f"   ({', '.join(notes)})" if notes else "")
