"""Which allreduces become one: a plan of segments, the same for every rank.

Members that may meet form a bucket, in the order in which backward produces them. A bucket is split by the user's
percentages, indices or maximum size, by the cost model, or so that the first segment has 96.54 % of the bytes: the cut
that GE recommends for ResNet-50, after which little is left to send when backward ends.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import inf
from typing import Final

import numpy as np

from atcpy.errors import UsageError
from atcpy.ir.order import topological_order
from atcpy.options import AllReduceSplit, Network, SplitBy
from atcpy.passes.collective_costs import algorithms, cheapest, least_seconds

ALLREDUCE: Final = "HcomAllReduce"
DEFAULT_PERCENT: Final = 96.54
MAX_SEGMENTS: Final = 8
MAX_CUTS: Final = 2048  # that the model of costs compares in one bucket
MAX_ID: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Member:
    """One allreduce: what it must have in common with others to meet them, its bytes, when its input is ready, and how
    many ranks its group has, if the model says that.
    """

    name: str
    group: str
    kind: Hashable  # op, element type, reduction, scales
    nbytes: int
    fusion: int = 1
    fusion_id: int = -1
    may_meet: bool = True
    ready: float = 0.0  # seconds
    ranks: int = 0


def check_member(member: Member) -> None:
    """EI0003 if the attributes of an allreduce contradict each other."""
    if member.fusion not in (0, 1, 2):
        raise UsageError("EI0003", f"fusion is {member.fusion}", where=member.name, why="0, 1 or 2 are possible")
    if member.fusion == 2 and not 0 <= member.fusion_id <= MAX_ID:
        why = f"with fusion 2 it is 0 to {MAX_ID}"
        raise UsageError("EI0003", f"fusion_id is {member.fusion_id}", where=member.name, why=why)
    if member.fusion == 1 and member.fusion_id != -1:
        raise UsageError("EI0003", f"fusion_id is {member.fusion_id}", where=member.name, why="with fusion 1 it is -1")


def plan_segments(members: Sequence[Member], split: AllReduceSplit) -> list[list[int]]:
    """The members of each collective, by their numbers; the collectives in the order of their last members.

    Raises UsageError (EI0003) for attributes, indices and percentages that do not fit.
    """
    buckets: dict[Hashable, list[int]] = {}
    for number, member in enumerate(members):
        check_member(member)
        alone = member.fusion == 0 or not member.may_meet
        key = number if alone else (member.kind, member.group, member.fusion, member.fusion_id)
        buckets.setdefault(key, []).append(number)
    segments: list[list[int]] = []
    for numbers in buckets.values():
        bucket = [members[number] for number in numbers]
        by_split = len(bucket) > 1 and bucket[0].fusion == 1
        ends = _ends(bucket, split) if by_split else [len(bucket) - 1]
        segments += [numbers[first + 1 : last + 1] for first, last in pairwise([-1, *ends])]
    return sorted(segments, key=lambda segment: segment[-1])


def _ends(bucket: Sequence[Member], split: AllReduceSplit) -> list[int]:
    """The number of the last member of each segment."""
    group = bucket[0].group
    sizes = [member.nbytes for member in bucket]
    percents = split.for_group(split.sizes, group)
    if percents:
        _check_percents(percents, group)
        return ends_by_size(sizes, percents)
    indices = split.for_group(split.indices, group)
    if indices:
        _check_indices(indices, len(bucket), group)
        return [int(index) for index in indices]
    if split.threshold is not None:
        return ends_by_threshold(sizes, split.threshold)
    if split.by is SplitBy.COSTS:
        return ends_by_costs(bucket, split.network)
    return ends_by_size(sizes, (DEFAULT_PERCENT, 100 - DEFAULT_PERCENT))


def _check_percents(percents: Sequence[float], group: str) -> None:
    where = f'group "{group}"'
    if len(percents) > MAX_SEGMENTS:
        what = f"--allreduce_split_size: {len(percents)} segments"
        raise UsageError("EI0003", what, where=where, why=f"{MAX_SEGMENTS} are possible")
    if any(percent < 0 for percent in percents) or abs(sum(percents) - 100) > 1e-6:
        what = "--allreduce_split_size: " + ",".join(f"{percent:g}" for percent in percents)
        raise UsageError("EI0003", what, where=where, why="percentages add up to 100")


def _check_indices(indices: Sequence[float], count: int, group: str) -> None:
    where, what = f'group "{group}"', "--allreduce_split_index: " + ",".join(f"{index:g}" for index in indices)
    if len(indices) > MAX_SEGMENTS:
        raise UsageError("EI0003", what, where=where, why=f"{MAX_SEGMENTS} segments are possible")
    if indices[0] < 0 or any(a >= b for a, b in pairwise(indices)) or any(index % 1 for index in indices):
        raise UsageError(
            "EI0003", what, where=where, why="they are the last indices of the segments, whole and ascending"
        )
    if indices[-1] != count - 1:
        raise UsageError("EI0003", what, where=where, why=f"the last one is {count - 1}: there are {count} allreduces")


def ends_by_size(sizes: Sequence[int], percents: Sequence[float]) -> list[int]:
    """Cuts after the member with which the bytes so far come nearest to each percentage, counted up."""
    last = len(sizes) - 1
    so_far = list(accumulate(sizes))
    ends: list[int] = []
    at, percent = 0, 0.0
    for share in percents[:-1]:
        percent += share
        target_bytes = percent * so_far[-1] / 100
        while at < last and so_far[at] < target_bytes:
            at += 1
        end = at
        if at > 0 and target_bytes - so_far[at - 1] <= so_far[at] - target_bytes:
            end = at - 1
        if ends and end <= ends[-1]:
            end = ends[-1] + 1
        at = max(at, end)
        ends.append(end)
        if end >= last:
            return ends
    return [*ends, last]


def ends_by_threshold(sizes: Sequence[int], threshold: int) -> list[int]:
    """Cuts before each member with which a segment would have more bytes. Any number of segments may come of it."""
    ends: list[int] = []
    so_far = 0
    for number, size in enumerate(sizes):
        if number and so_far + size > threshold:
            ends.append(number - 1)
            so_far = 0
        so_far += size
    return [*ends, len(sizes) - 1]


def ends_by_costs(bucket: Sequence[Member], network: Network) -> list[int]:
    """The cuts after which the last collective ends earliest; of equals, the fewest.

    A segment starts when its last member is ready and the one before has ended: dynamic programming over the last
    member of a segment. In very long buckets only so many cuts are looked at, at equal shares of the bytes.
    """
    candidates = _candidates([member.nbytes for member in bucket])
    so_far = list(accumulate(member.nbytes for member in bucket))
    ready = list(accumulate((member.ready for member in bucket), max))
    # Bytes before each position where a segment may begin.
    sent = np.array([0, *(so_far[cut] for cut in candidates)], np.float64)
    ways = algorithms(ALLREDUCE, network.between(bucket[0].ranks))
    done = np.full((MAX_SEGMENTS + 1, len(sent)), inf)  # by segments and position: when the segments before it end
    done[0, 0] = 0.0
    begin = np.zeros(done.shape, np.int64)  # of the last of those segments
    for position, cut in enumerate(candidates, 1):
        seconds = least_seconds(ways, sent[position] - sent[:position])
        ended = np.maximum(done[:-1, :position], ready[cut]) + seconds
        begin[1:, position] = ended.argmin(axis=1)
        done[1:, position] = ended.min(axis=1)
    whole = done[1:, -1]
    ends, position = [], len(candidates)
    for segments in range(1 + int(np.argmax(whole <= whole.min() * (1 + 1e-9))), 0, -1):
        ends.append(candidates[position - 1])
        position = int(begin[segments, position])
    return ends[::-1]


def predict_seconds(members: Sequence[Member], segments: Iterable[Sequence[int]], network: Network) -> float:
    """When the last collective ends, each of which starts once its members are ready and the one before has ended."""
    done = 0.0
    for segment in segments:
        ready = max(members[number].ready for number in segment)
        done = max(done, ready) + cheapest_of(members, segment, network)[1]
    return done


def cheapest_of(members: Sequence[Member], segment: Sequence[int], network: Network) -> tuple[str, float]:
    """The algorithm for the collective that these members become, and its seconds."""
    nbytes = sum(members[number].nbytes for number in segment)
    way = cheapest(ALLREDUCE, nbytes, network.between(members[segment[0]].ranks))
    return way.name, way.seconds(nbytes)


def _candidates(sizes: Sequence[int]) -> list[int]:
    """The members after which may be cut, the last one among them."""
    last = len(sizes) - 1
    if len(sizes) <= MAX_CUTS:
        return list(range(len(sizes)))
    so_far = list(accumulate(sizes))
    candidates: dict[int, None] = {}
    at = 0
    for part in range(1, MAX_CUTS):
        while at < last and so_far[at] < so_far[-1] * part / MAX_CUTS:
            at += 1
        candidates[at] = None
    candidates[last] = None
    return list(candidates)


def cut_for_dependencies(segments: Sequence[Sequence[int]], waits_for: Mapping[int, frozenset[int]]) -> list[list[int]]:
    """Cuts segments so that no collective waits for itself, directly or by way of others. `waits_for` are the members
    whose results each member's input depends on, directly or through others.
    """
    order = sorted((number, segment_index) for segment_index, segment in enumerate(segments) for number in segment)
    parts: list[list[int]] = []
    part_of: dict[int, int] = {}
    current: dict[int, int] = {}  # of a segment: its part that may still grow
    before: list[set[int]] = []  # the parts that a part waits for
    for number, segment_index in order:
        needed = {part_of[other] for other in waits_for.get(number, ())}
        needed |= {earlier for part in needed for earlier in before[part]}
        own = current.get(segment_index)
        if own is None or own in needed or any(own in before[part] for part in needed):
            own = len(parts)
            parts.append([])
            before.append(set())
            current[segment_index] = own
        parts[own].append(number)
        part_of[number] = own
        if not needed <= before[own]:
            new = needed - before[own]
            for earlier in before:
                if own in earlier:
                    earlier |= new
            before[own] |= new
    return _in_order(parts, before)


def _in_order(parts: list[list[int]], before: list[set[int]]) -> list[list[int]]:
    """The parts in the order of their last members, but none before those that it waits for."""
    by_last = sorted(range(len(parts)), key=lambda part: parts[part][-1])
    rank = {part: index for index, part in enumerate(by_last)}
    order = topological_order([[rank[earlier] for earlier in before[part]] for part in by_last])
    return [parts[by_last[index]] for index in order]
