"""States: caches that a session keeps from run to run, in memory with room for further rows.

A decoder gets `past` and gives `present`, which is `past` with new rows along one axis. Where that is so, the two
become one output that is there before the run, too: only the new rows are written.

    present = Concat(past, new)                                    →  present = CacheWrite(new)
    y, present_k, present_v = Attention(q, k, v, past_k, past_v)   →  the same, whose results are caches

Who else reads `present` gets its rows by a CacheRead. The two caches of an Attention may be parts of one tensor, along
axis 0: then each is an output of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from atcpy.ir import Engine, Graph, Node, State, Value
from atcpy.ir.symbolic import same
from atcpy.ops import is_view
from atcpy.ops.attention.attention import CACHE, CACHED
from atcpy.ops.move.cache import AXIS, CAPACITY, FIRST, ROWS
from atcpy.passes.compile.emit_tasks import output_names

_PAST_OF = {"Attention": (4, 5), "FusedAttention": (2, 3)}  # operands, of which results 1 and 2 are the growing forms
_HEADS_AXIS = 2


class NoStates(Exception):
    """Why a graph has no states."""


@dataclass(frozen=True, slots=True)
class Bound:
    """The states of a graph, and the number of rows that are in use after a run."""

    states: tuple[State, ...]
    rows: int


@dataclass(frozen=True, slots=True)
class _Part:
    """A value that is `past` with new rows along `axis`."""

    value: Value
    past: Value
    axis: int


@dataclass(frozen=True, slots=True)
class _Match:
    """A state: its output, its input, and the parts of the output."""

    state: State
    value: Value
    data: Node
    parts: tuple[_Part, ...]


def bind_states(graph: Graph, capacity: int, open_axes: Sequence[frozenset[int]]) -> Bound:
    """Let a lowered graph, whose formats are chosen, keep its states in outputs, which come last. Inputs that are
    states are removed. `open_axes` are those of the model's inputs, by their index: along others nothing grows.

    Raises NoStates for a graph without states, or with one that is read in another way.
    """
    found = [_match(index, value) for index, value in enumerate(graph.outputs)]
    matches = [match for match in found if match is not None and match.state.axis in open_axes[match.state.input]]
    first, rows = _common_sizes(matches)
    parts = [part for match in matches for part in match.parts]
    bound = {match.state.output for match in matches}
    kept = [index for index in range(len(graph.outputs)) if index not in bound]
    names = output_names(graph)
    graph.net_output.attrs["names"] = (*(names[index] for index in kept), *(part.value.name for part in parts))
    graph.set_inputs(graph.net_output, [*(graph.outputs[index] for index in kept), *(part.value for part in parts)])
    _erase_unread(graph)
    caches = [_keep(graph, part, first, rows, capacity) for part in parts]
    graph.set_inputs(graph.net_output, [*graph.outputs[: len(kept)], *caches])
    _erase_unread(graph)
    for match in matches:
        if match.data.is_read:
            raise NoStates(f'"{match.data.output.name}" is read by others than those that extend it')
        graph.erase(match.data)
    return Bound(tuple(match.state for match in matches), rows)


def _common_sizes(matches: Sequence[_Match]) -> tuple[int, int]:
    """The rows that all states have before and after a run."""
    if not matches:
        raise NoStates("no output is an input with new rows")
    sizes = [(_dim(match.data.output, match.state.axis), _dim(match.value, match.state.axis)) for match in matches]
    if any(not same(first, sizes[0][0]) or not same(rows, sizes[0][1]) for first, rows in sizes):
        raise NoStates("the states do not grow alike")
    values = [part.value for match in matches for part in match.parts]
    if len({match.data for match in matches}) < len(matches) or len(set(values)) < len(values):
        raise NoStates("two outputs are the same state")
    attentions = Counter(value.producer for value in values if value.producer.op_type in _PAST_OF)
    if any(count < 2 for count in attentions.values()):
        raise NoStates("only keys or only values of an Attention are a state")
    return sizes[0]


def _dim(value: Value, axis: int) -> int:
    return value.desc.static_shape[axis]


def _match(index: int, value: Value) -> _Match | None:
    parts = [_grown(part) for part in _parts_of(value)]
    if None in parts:
        return None
    grown = [part for part in parts if part is not None]
    sources = [_source(part.past) for part in grown]
    data = sources[0][0] if sources[0] is not None else None
    if data is None or sources != [(data, number, len(grown)) for number in range(len(grown))]:
        return None
    axis = _growing_axis(data.output, value)
    if axis is None or not all(_lies_alike(part, data.output, axis, len(grown)) for part in grown):
        return None
    return _Match(State(data.int_attr("index", 0), index, axis, len(grown)), value, data, tuple(grown))


def _parts_of(value: Value) -> Sequence[Value]:
    """The values that lie behind each other in a value, without views; itself if there are no others."""
    node = _behind_views(value).producer
    if node.op_type == "Concat" and node.int_attr("axis", 0) == 0 and all(_is_slab(part) for part in node.operands):
        return [_behind_views(part) for part in node.operands]
    return [value]


def _is_slab(value: Value) -> bool:
    return bool(value.desc.static_shape) and same(value.desc.static_shape[0], 1)


def _behind_views(value: Value) -> Value:
    while is_view(value.producer):
        value = value.producer.operand(0)
    return value


def _grown(value: Value) -> _Part | None:
    node = value.producer
    if node.op_type in _PAST_OF and value.index > 0:
        past = node.input(_PAST_OF[node.op_type][value.index - 1])
        return None if past is None else _Part(value, past, _HEADS_AXIS)
    is_plain = all(operand.desc.storage_shape is None for operand in node.operands)
    if node.op_type == "Concat" and node.input_count == 2 and is_plain:
        return _Part(value, node.operand(0), node.int_attr("axis", 0) % len(value.desc.static_shape))
    return None


def _source(value: Value) -> tuple[Node, int, int] | None:
    """The input that a value is part `i` of `n` of."""
    number, count = 0, 1
    while value.producer.op_type != "Data":
        node = value.producer
        if is_view(node):
            value = node.operand(0)
            continue
        index = _slab(node, value)
        if index is None or count > 1:
            return None
        number, count, value = index, _dim(node.operand(0), 0), node.operand(0)
    return value.producer, number, count


def _slab(node: Node, value: Value) -> int | None:
    """Which slab of axis 0 of its operand a value is."""
    if node.op_type == "Split" and node.int_attr("axis", 0) == 0 and _is_slab(value):
        return node.outputs.index(value)
    if node.op_type != "Gather" or node.int_attr("axis", 0) != 0:
        return None
    indices = node.operand(1)
    if indices.tensor is None or indices.desc.elements != 1 or not isinstance(_dim(node.operand(0), 0), int):
        return None
    return int(indices.array.reshape(-1)[0]) % _dim(node.operand(0), 0)


def _growing_axis(past: Value, present: Value) -> int | None:
    """The one axis along which two values of one type differ."""
    shapes = past.desc.static_shape, present.desc.static_shape
    if past.desc.dtype is not present.desc.dtype or len(shapes[0]) != len(shapes[1]):
        return None
    differing = [axis for axis, (old, new) in enumerate(zip(*shapes, strict=True)) if not same(old, new)]
    return differing[0] if len(differing) == 1 else None


def _lies_alike(part: _Part, past: Value, axis: int, count: int) -> bool:
    """Does a part grow where the whole does, though views may give it other dims?"""
    whole, own = past.desc.static_shape, part.value.desc.static_shape
    outer = whole[1:axis] if count > 1 else whole[:axis]
    return same(prod(outer), prod(own[: part.axis])) and same(prod(whole[axis + 1 :]), prod(own[part.axis + 1 :]))


def _keep(graph: Graph, part: _Part, first: int, rows: int, capacity: int) -> Value:
    """The cache in which a part is kept, once its producer writes it there and others read it from there."""
    node, axis = part.value.producer, part.axis
    if node.op_type == "Concat":
        attrs = {AXIS: axis, FIRST: first, CAPACITY: capacity}
        write = graph.append("CacheWrite", [node.operand(1)], attrs, name=f"{node.name}_cache", before=node)
        write.engine, write.sources, write.passes = Engine.VECTOR, node.sources, node.passes
        cache = write.output
    else:
        cache = part.value
        node.attrs.update({CACHE: capacity, CACHED: first})
        graph.set_input(node, _PAST_OF[node.op_type][cache.index - 1], None)
    before = part.value.desc
    if any(user.op_type != "NetOutput" for user in part.value.users):
        read = graph.insert_after(node, "CacheRead", (), {AXIS: axis, ROWS: rows}, name=f"{node.name}_rows")
        read.engine, read.sources, read.output.desc = Engine.VECTOR, node.sources, before
        graph.replace_uses(part.value, read.output)
        graph.set_inputs(read, [cache])
    shape = before.static_shape
    cache.desc = replace(before, shape=(*shape[:axis], capacity, *shape[axis + 1 :]))
    return cache


def _erase_unread(graph: Graph) -> None:
    for node in reversed(list(graph.nodes)):
        if not node.is_structural and not node.is_read:
            graph.erase(node)
