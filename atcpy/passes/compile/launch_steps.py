"""Steps: the launches of each node, and the steps that they depend on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from atcpy.ir import Value
from atcpy.passes.compile.lower import Launch


@dataclass(eq=False, slots=True)
class Step:
    """The launches of a node, which stay together, the numbers of the earlier steps that write what they use, and those
    of the later steps that use what they write.
    """

    launches: list[Launch]
    users: list[int]
    operands: list[int]


def launches_by_node(launches: Sequence[Launch]) -> Iterator[list[Launch]]:
    """Yield launches that follow each other and are of one node."""
    for _, group in groupby(launches, key=lambda launch: launch.node):
        yield list(group)


def connect_steps(groups: Sequence[list[Launch]], roots: Mapping[Value, Value]) -> list[Step]:
    """Return the steps of launches by node. `roots` maps values to those whose memory they have."""
    steps = [Step(launches, [], []) for launches in groups]
    writers: dict[Value, int] = {}
    for number, step in enumerate(steps):
        values = (*(v for launch in step.launches for v in (*launch.call.src, *launch.call.dst) if v is not None),)
        found = {writers.get(roots.get(value, value), number) for value in values} - {number}
        step.operands = sorted(found)
        for operand in step.operands:
            steps[operand].users.append(number)
        writers.update((roots.get(v, v), number) for launch in step.launches for v in launch.call.dst)
    return steps
