"""The order of a graph's nodes: ONNX asks that a value is made before it is read."""

import heapq
from collections.abc import Iterable
from dataclasses import dataclass

import onnx

from atcpy.errors import AtcError, ModelInvalid, Where
from atcpy.parsers.onnx.text import are_texts, not_text


@dataclass(frozen=True, slots=True)
class Item:
    """A node of the model with its names read once: each look into a message costs."""

    index: int
    proto: onnx.NodeProto
    inputs: list[str]
    outputs: list[str]


def ordered_items(nodes: Iterable[onnx.NodeProto], path: str, problems: list[AtcError]) -> list[Item]:
    """The nodes, sorted if they are not; two makers of one value and cycles are problems."""
    items: list[Item] = []
    made: dict[str, int] = {}
    captures: dict[int, set[str]] = {}
    for index, proto in enumerate(nodes):
        item = Item(index, proto, list(proto.input), list(proto.output))
        if not are_texts((proto.op_type, proto.domain, proto.name, *item.inputs, *item.outputs)):
            problems.append(not_text("a name", Where(graph=path, index=index)))
            continue
        items.append(item)
        for name in item.outputs:
            if made.setdefault(name, index) != index and name:
                what = f'two nodes make the value "{name}"'
                problems.append(ModelInvalid("E13009", what, where=place(item, path), hint="a value has one producer"))
        if any(attr.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS) for attr in proto.attribute):
            captures[index] = captured_names(proto)
    made.pop("", None)
    if _is_sorted(items, made, captures):
        return items
    return _sorted(items, made, captures, path, problems)


def place(item: Item, path: str) -> Where:
    """Where a node stands in the model."""
    name = item.proto.name or next(filter(None, item.outputs), "")
    return Where(graph=path, node=name, index=item.index, op=item.proto.op_type)


def captured_names(node: onnx.NodeProto) -> set[str]:
    """The names that the graphs in a node's attributes read from outside."""
    graphs: list[onnx.GraphProto] = []
    parents: list[int] = []
    pending = [(graph, -1) for graph in _bodies(node)]
    while pending:
        graph, parent = pending.pop()
        graphs.append(graph)
        parents.append(parent)
        pending.extend((body, len(graphs) - 1) for inner in graph.node for body in _bodies(inner))
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


def _bodies(node: onnx.NodeProto) -> list[onnx.GraphProto]:
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


def _is_sorted(items: list[Item], made: dict[str, int], captures: dict[int, set[str]]) -> bool:
    return all(made.get(name, -1) < item.index for item in items for name in _reads(item, captures))


def _sorted(
    items: list[Item], made: dict[str, int], captures: dict[int, set[str]], path: str, problems: list[AtcError]
) -> list[Item]:
    """Kahn's algorithm; of the nodes that are ready, the model's first goes first."""
    position = {item.index: at for at, item in enumerate(items)}
    makers = [{position[made[name]] for name in _reads(item, captures) if name in made} for item in items]
    readers: list[list[int]] = [[] for _ in items]
    for index, own in enumerate(makers):
        for maker in own:
            readers[maker].append(index)
    waiting = [len(own) for own in makers]
    ready = [index for index, count in enumerate(waiting) if not count]
    result: list[Item] = []
    while ready:
        index = heapq.heappop(ready)
        result.append(items[index])
        for reader in readers[index]:
            waiting[reader] -= 1
            if not waiting[reader]:
                heapq.heappush(ready, reader)
    if len(result) < len(items):
        cycle = _cycle(makers, waiting)
        names = " → ".join(place(items[index], path).node for index in [*cycle, cycle[0]])
        problems.append(ModelInvalid("E2100C", f"the graph has a cycle: {names}", where=place(items[cycle[0]], path)))
        result.extend(items[index] for index, count in enumerate(waiting) if count)
    return result


def _cycle(makers: list[set[int]], waiting: list[int]) -> list[int]:
    """Nodes of one cycle, in the order in which values flow."""
    index = next(i for i, count in enumerate(waiting) if count)
    seen: dict[int, int] = {}
    path: list[int] = []
    while index not in seen:
        seen[index] = len(path)
        path.append(index)
        index = min(maker for maker in makers[index] if waiting[maker])
    return path[seen[index] :][::-1]
