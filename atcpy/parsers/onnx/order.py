"""The order of a graph's nodes: ONNX requires that a value is produced before it is read."""

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from sys import intern

import onnx

from atcpy.errors import AtcError, ModelInvalid, Where
from atcpy.parsers.onnx.text import are_texts, not_text

_GRAPHS = (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)


@dataclass(slots=True)  # not frozen: a model has tens of thousands, and to freeze one takes longer than to make it
class Item:
    """A node of the model with its names read once: each look into a message costs."""

    index: int
    proto: onnx.NodeProto
    op_type: str
    domain: str
    name: str
    inputs: list[str]
    outputs: list[str]
    attrs: list[onnx.AttributeProto]


def ordered_items(nodes: Iterable[onnx.NodeProto], path: str, problems: list[AtcError]) -> list[Item]:
    """The nodes, sorted if they are not; two makers of one value and cycles are problems."""
    items: list[Item] = []
    producers: dict[str, int] = {}
    read: set[str] = set()
    captures: dict[int, set[str]] = {}
    is_sorted = True
    for index, proto in enumerate(nodes):
        op_type, domain, own_name = proto.op_type, proto.domain, proto.name
        inputs, outputs, attrs = list(proto.input), list(proto.output), list(proto.attribute)
        item = Item(index, proto, op_type, domain, own_name, inputs, outputs, attrs)
        if not are_texts((op_type, domain, own_name, *inputs, *outputs)):
            problems.append(not_text("a name", Where(graph=path, index=index)))
            continue
        item.op_type = intern(op_type)  # one string for all nodes of an op, where each message has its own
        items.append(item)
        read.update(inputs)
        for attr in attrs:
            if attr.type in _GRAPHS:
                captures[index] = captured_names(proto)
                read |= captures[index]
        for name in outputs:
            if name in read and name:
                is_sorted = False
            if producers.setdefault(name, index) != index and name:
                what = f'two nodes make the value "{name}"'
                problems.append(
                    ModelInvalid("E13009", what, where=location_of(item, path), hint="a value has one producer")
                )
    if is_sorted:
        return items
    producers.pop("", None)
    return _sorted(items, producers, captures, path, problems)


def location_of(item: Item, path: str) -> Where:
    """Where a node stands in the model."""
    name = item.name or next(filter(None, item.outputs), "")
    return Where(graph=path, node=name, index=item.index, op=item.op_type, domain=item.domain)


def captured_names(node: onnx.NodeProto) -> set[str]:
    """The names that the graphs in a node's attributes read from outside."""
    graphs: list[onnx.GraphProto] = []
    parents: list[int] = []
    pending = [(graph, -1) for graph in bodies_of(node)]
    while pending:
        graph, parent = pending.pop()
        graphs.append(graph)
        parents.append(parent)
        pending.extend((body, len(graphs) - 1) for inner in graph.node for body in bodies_of(inner))
    free: list[set[str]] = [set() for _ in graphs]
    captured: set[str] = set()
    for index in range(len(graphs) - 1, -1, -1):  # bodies come after the graph that holds them
        graph = graphs[index]
        names = free[index]
        for inner in graph.node:
            names.update(inner.input)
        names.update(info.name for info in graph.output)
        for inner in graph.node:
            names.difference_update(inner.output)
        names.difference_update(info.name for info in graph.input)
        names.difference_update(tensor.name for tensor in graph.initializer)
        names.difference_update(tensor.values.name for tensor in graph.sparse_initializer)
        (captured if parents[index] < 0 else free[parents[index]]).update(names)
    return {name for name in captured if name and are_texts((name,))}


def bodies_of(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    """The graphs in the attributes of a node."""
    found: list[onnx.GraphProto] = []
    for attr in node.attribute:
        if attr.type == onnx.AttributeProto.GRAPH:
            found.append(attr.g)
        elif attr.type == onnx.AttributeProto.GRAPHS:
            found.extend(attr.graphs)
    return found


def _reads(item: Item, captures: dict[int, set[str]]) -> list[str]:
    # Sorted: the order of a set is not the same in every process.
    return item.inputs + sorted(captures.get(item.index, ()))


def _sorted(
    items: list[Item], producers: dict[str, int], captures: dict[int, set[str]], path: str, problems: list[AtcError]
) -> list[Item]:
    """Sort topologically; of the nodes that are ready, the model's first goes first. Those of a cycle come last."""
    position = {item.index: at for at, item in enumerate(items)}
    sorter = TopologicalSorter(
        {
            at: {position[producers[name]] for name in _reads(item, captures) if name in producers}
            for at, item in enumerate(items)
        }
    )
    try:
        sorter.prepare()
    except CycleError as error:
        cycle = [location_of(items[at], path) for at in error.args[1]]  # in the order in which values flow
        names = " → ".join(where.node for where in cycle)
        problems.append(ModelInvalid("E2100C", f"the graph has a cycle: {names}", where=cycle[0]))
    order: dict[int, None] = {}
    ready: list[int] = []
    while True:
        for at in sorter.get_ready():
            heapq.heappush(ready, at)
        if not ready:
            return [items[at] for at in (*order, *(at for at in range(len(items)) if at not in order))]
        order[at := heapq.heappop(ready)] = None
        sorter.done(at)
