"""The order of launches in which collectives run beside what does not need them.

A collective begins as soon as its operands are there. Whoever needs its result comes when it has ended by the model of
costs (collective_costs.py), or when nothing else is left to do:

    grad b, AllReduce b, update b, grad a, AllReduce a, update a
    grad b, AllReduce b, grad a, AllReduce a, update b, update a

Waiting longer would hide no more, and keep more in memory and less in the cache. The ranks meet in the order of the
collectives, which stays as it is. A collective whose result is larger than its operand, as an AllGather of weights,
begins only behind the users of the result before the last such one: two of them at most wait in memory. GE has
AllReduceParallelPass for this.

This is list scheduling (Graham, "Bounds on Multiprocessing Timing Anomalies", 1969) on two processors, where the order
of the graph is the priority.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heappop, heappush

from atcpy.ir import Value
from atcpy.options import Network
from atcpy.passes.collective_costs import cheapest, compute_seconds
from atcpy.passes.compile.launch_steps import Step, connect_steps, launches_by_node
from atcpy.passes.compile.lower import Launch


def order_collectives(launches: Sequence[Launch], roots: Mapping[Value, Value], network: Network) -> Sequence[Launch]:
    """Return the launches in an order that hides collectives, if something is known of the network: ranks of one
    machine exchange by their cores, so that nothing is hidden, and what waits leaves the cache. `roots` maps values to
    those whose memory they have.
    """
    if network == Network() or not any(launch.is_collective for launch in launches):
        return launches
    steps = connect_steps(list(launches_by_node(launches)), roots)
    return [launch for number in _order(steps, network) for launch in steps[number].launches]


def _order(steps: Sequence[Step], network: Network) -> list[int]:
    followers = _followers(steps)
    missing = [0] * len(steps)  # how many steps must come before each
    for others in followers:
        for number in others:
            missing[number] += 1
    # Heaps: collectives first, as soon as their operands are there; what waits for a collective, by when that ends.
    can_run: list[tuple[bool, int]] = []
    waiting: list[tuple[float, int]] = []
    can_begin = [0.0] * len(steps)  # when the collectives end that a step needs

    def add(number: int) -> None:
        is_collective = steps[number].launches[0].is_collective
        if is_collective or can_begin[number] <= clock:
            heappush(can_run, (not is_collective, number))
        else:
            heappush(waiting, (can_begin[number], number))

    clock = network_is_free = 0.0
    order: list[int] = []
    for number, count in enumerate(missing):
        if count == 0:
            add(number)
    while can_run or waiting:
        while waiting and (waiting[0][0] <= clock or not can_run):
            clock = max(clock, waiting[0][0])
            add(heappop(waiting)[1])
        number = heappop(can_run)[1]
        step = steps[number]
        order.append(number)
        end = 0.0
        if step.launches[0].is_collective:
            end = network_is_free = max(clock, network_is_free, can_begin[number]) + _seconds(step.launches[0], network)
        else:
            clock += compute_seconds(step.launches[0].node, network)
        for user in step.users:
            can_begin[user] = max(can_begin[user], end)
        for follower in followers[number]:
            missing[follower] -= 1
            if missing[follower] == 0:
                add(follower)
    return order


def _followers(steps: Sequence[Step]) -> list[list[int]]:
    """The steps that must come after each: those that use what it writes, and what keeps collectives in order."""
    followers = [list(step.users) for step in steps]
    last: int | None = None
    gathers: list[int] = []
    for number, step in enumerate(steps):
        if not step.launches[0].is_collective:
            continue
        if last is not None:
            followers[last].append(number)
        last = number
        if _enlarges(step.launches[0]):
            for user in steps[gathers[-2]].users if len(gathers) > 1 else ():
                if user < number:
                    followers[user].append(number)
            gathers.append(number)
    return followers


def _seconds(launch: Launch, network: Network) -> float:
    node, nbytes = launch.node, max(_operand_bytes(launch), _result_bytes(launch))
    return cheapest(node.op_type, nbytes, network.between(max(0, node.int_attr("rank_size", 0)))).seconds(nbytes)


def _enlarges(launch: Launch) -> bool:
    return _result_bytes(launch) > _operand_bytes(launch)


def _operand_bytes(launch: Launch) -> int:
    return sum(value.desc.nbytes for value in launch.call.src if value is not None)


def _result_bytes(launch: Launch) -> int:
    return sum(value.desc.nbytes for value in launch.call.dst)
