"""The steps of a graph whose shapes are not all known before it runs.

Nodes of the host run one by one, and control flow that is not marked `IN_PLAN`; everything between them is a cluster,
which is planned as a whole. Compiler and runtime find the same steps in the same graph, so that a package has to name
only their numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from atcpy.ir import Engine, Graph, Node, Value
from atcpy.ir.clone import extract
from atcpy.ops.core.opdef import find_opdef

# Nodes of a cluster whose results are as large as data say: what follows each of them is planned or compiled anew.
MAX_DATA_DEPENDENT: Final = 32


@dataclass(frozen=True, slots=True)
class Cluster:
    """Nodes that are planned together; what they read from outside but constants, and what is read outside. One that
    `is_whole` has the inputs and outputs of its graph.
    """

    nodes: tuple[Node, ...]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    is_whole: bool = False


Step = Cluster | Node


def find_steps(graph: Graph, *, in_plans: bool = True) -> list[Step]:
    """Return the steps of a graph in the order in which they run. A graph of which nothing runs alone is one cluster
    with the inputs and outputs of the graph; the nodes of other clusters run as early as they can. If not `in_plans`,
    all control flow runs node by node.
    """
    nodes = [node for node in graph.nodes if not node.is_structural]
    alone = frozenset(node for node in nodes if _runs_alone(node, in_plans=in_plans))
    levels = _levels(nodes, alone)
    if all(level == 0 for level in levels.values()) and not alone:
        return [Cluster(tuple(nodes), tuple(node.output for node in graph.inputs), tuple(graph.outputs), is_whole=True)]
    groups: list[tuple[list[Node], list[Node]]] = [([], []) for _ in range(max(levels.values(), default=0) + 1)]
    for node in nodes:
        groups[levels[node]][node in alone].append(node)
    steps: list[Step] = []
    for planned, single in groups:
        if planned:
            steps.append(_cluster(planned))
        steps += single
    return steps


def cluster_graph(graph: Graph, cluster: Cluster) -> Graph:
    """Return a graph of a cluster alone, with its inputs and outputs; `graph` itself if that is one cluster."""
    if cluster.is_whole:
        return graph
    part = extract(graph, cluster.nodes, cluster.outputs)
    for data, value in zip(part.inputs, cluster.inputs, strict=True):
        data.attrs.update({name: attr for name, attr in value.producer.attrs.items() if name in _INPUT_ATTRS})
    return part


IN_PLAN: Final = "in_plan"  # 1 in the nodes of control flow that are part of their cluster's plan
_CONTROL_FLOW: Final = frozenset({"If", "Loop", "Scan", "SequenceMap"})  # other bodies become part of what is around
_INPUT_ATTRS: Final = frozenset({"default", "shape_range"})


def _levels(nodes: list[Node], alone: frozenset[Node]) -> dict[Node, int]:
    """The number of the group of each node: a cluster, and the nodes that run one by one after it."""
    levels: dict[Node, int] = {}
    data_dependent: list[int] = [0]
    for node in nodes:
        producers = [value.producer for value in node.operands if value.producer in levels]
        is_alone = node in alone
        level = max((levels[other] + (other in alone and not is_alone) for other in producers), default=0)
        if not is_alone and _depends_on_data(node):
            data_dependent += [0] * (level + 1 - len(data_dependent))
            while data_dependent[level] == MAX_DATA_DEPENDENT:
                level += 1
                data_dependent += [0] * (level + 1 - len(data_dependent))
            data_dependent[level] += 1
        levels[node] = level
    return levels


def _runs_alone(node: Node, *, in_plans: bool) -> bool:
    is_in_plan = in_plans and node.attrs.get(IN_PLAN) == 1
    return (node.op_type in _CONTROL_FLOW and not is_in_plan) or node.engine is Engine.HOST_CPU


def _depends_on_data(node: Node) -> bool:
    opdef = find_opdef(node)
    return opdef is not None and opdef.bound is not None


def _cluster(nodes: list[Node]) -> Cluster:
    inside = {value for node in nodes for value in node.outputs}
    outer = dict.fromkeys(value for node in nodes for value in node.operands if value not in inside)
    members = set(nodes)
    read = (value for node in nodes for value in node.outputs)
    outputs = tuple(value for value in read if any(user not in members for user in value.users))
    return Cluster(tuple(nodes), tuple(value for value in outer if value.tensor is None), outputs)
