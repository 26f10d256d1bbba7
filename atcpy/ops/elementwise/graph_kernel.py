"""GraphKernel: a subgraph of elementwise ops as one launch of `graph_kernel`. Its attribute `body` is the subgraph, on
tensors as they lie in memory: formats were chosen when it was created. docs/graph-kernels.md.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from atcpy.ir import Engine, Graph, Node, Value
from atcpy.ir.shape import element_count
from atcpy.ir.symbolic import same
from atcpy.ir.tensor import Array
from atcpy.ops.core.opdef import (
    KernelCall,
    OpDef,
    ParamValue,
    Trait,
    always,
    find_opdef,
    has_trait,
    is_view,
    register_operator,
)
from atcpy.ops.core.reference import evaluate_node
from atcpy.ops.core.spans import Spans, cuts_rows, dims_of, is_repeated, spans_of, varies_in_row, within
from atcpy.ops.core.structural import keep_desc
from atcpy.ops.elementwise.graph_program import MAX_DIMS, MAX_ROW, MAX_SOURCES, Program, is_immediate

NAME = "GraphKernel"
BODY = "body"


def body_of(node: Node) -> Graph:
    """What a GraphKernel computes: its operands are the body's inputs, in order."""
    body = node.attrs[BODY]
    assert isinstance(body, Graph)
    return body


def only_moves(node: Node) -> bool:
    """True for a node that needs no instruction: a view, or elements that are repeated."""
    return is_view(node) or has_trait(node, Trait.BROADCAST)


def row_of(node: Node) -> int:
    """How many elements, side by side, a node makes one of; 1 if it is no reduction."""
    if not has_trait(node, Trait.REDUCTION):
        return 1
    results = element_count(node.output.desc.memory_shape)
    return element_count(node.operand(0).desc.memory_shape) // max(results, 1)


def operand_spans(node: Node) -> Iterator[tuple[Value, Spans]]:
    """What a node reads element by element, and how it is repeated within the result; of a reduction, within what it
    reads. Numbers are not read: the instruction holds them.
    """
    target = node.output.desc.memory_shape
    if is_view(node) or has_trait(node, Trait.REDUCTION):
        yield node.operand(0), ()
        return
    for value in node.operands[:1] if only_moves(node) else node.operands:
        if is_immediate(value):
            continue
        shape = value.desc.memory_shape
        is_number = value.desc.storage_shape is None and same(element_count(shape), 1)
        yield value, spans_of(() if is_number else shape, target)


SpansOfOperands = Callable[[Node], Iterable[tuple[Value, Spans]]]


@dataclass(frozen=True, slots=True)
class Sources:
    """What nodes read from outside, with the way in which it is repeated within the domain; which of these each node
    reads. A value that is repeated in two ways counts twice.

    dims: the fewest dims of the domain along each of which all have the size or 1.
    results: how each of the results is repeated within the domain: not, or along its rows.
    """

    keys: list[tuple[Value, Spans]]
    read: dict[Node, dict[Value, int]]
    dims: list[int]
    results: list[Spans]


def sources_of(
    nodes: Sequence[Node], results: Sequence[Value], spans_of_operands: SpansOfOperands = operand_spans
) -> Sources | None:
    """Of nodes in topological order; None if no kernel can have them all: a value would be repeated in two ways, there
    are rows of two lengths, or too many dims.
    """
    rows = {node: row for node in nodes if (row := row_of(node)) > 1}
    domain = _domain_of(rows, results)
    if domain is None:
        return None
    elements, row = domain
    along_rows: Spans = ((1, row),) if row > 1 else ()
    inside = {node.output for node in nodes}
    spans = {value: () if element_count(value.desc.memory_shape) == elements else along_rows for value in results}
    placed = [spans[value] for value in results]
    keys: dict[tuple[Value, Spans], None] = {}
    read: dict[Node, dict[Value, tuple[Value, Spans]]] = {}
    for node in reversed(nodes):
        at = spans[node.output]
        if node in rows:
            if at != along_rows:
                return None
            at = ()
        for value, own in spans_of_operands(node):
            whole = within(at, own)
            if whole is None or spans.get(value, whole) != whole:
                return None
            if value in inside:
                spans[value] = whole
            else:
                keys[value, whole] = None
                read.setdefault(node, {})[value] = value, whole
    order = list(reversed(keys))
    ways = [*spans.values(), *(own for _, own in order), along_rows]
    dims = dims_of(elements, ways)
    if dims is None or len(dims) > MAX_DIMS or cuts_rows(ways, row):
        return None
    number = {key: index for index, key in enumerate(order)}
    numbered = {node: {v: number[k] for v, k in found.items()} for node, found in read.items()}
    if rows and not _vary(nodes, rows, numbered, order):
        return None
    return Sources(order, numbered, dims, placed)


def _domain_of(reduced: Mapping[Node, int], results: Sequence[Value]) -> tuple[int, int] | None:
    """The elements of the domain and of its rows; 1 where nothing lies along rows."""
    counts = {element_count(value.desc.memory_shape) for value in results}
    rows = set(reduced.values())
    counts.update(element_count(node.operand(0).desc.memory_shape) for node in reduced)
    elements = max(counts)
    rows |= {elements // count for count in counts if count != elements}
    row = rows.pop() if rows else 1
    if rows or row > MAX_ROW or elements % row or not counts <= {elements, elements // row}:
        return None
    return elements, row


def _vary(
    nodes: Sequence[Node],
    reduced: Container[Node],
    read: Mapping[Node, Mapping[Value, int]],
    keys: Sequence[tuple[Value, Spans]],
) -> bool:
    """False if a row is reduced all whose elements are the same: the kernel has one of them only."""
    varying: set[Value] = set()
    for node in nodes:
        own = read.get(node, {})
        reads = (value for value, _ in operand_spans(node))
        varies = any(varies_in_row(keys[own[v]][1]) if v in own else v in varying for v in reads)
        if node not in reduced and varies:
            varying.add(node.output)
        elif node in reduced and not varies:
            return False
    return True


def lower_graph_kernel(node: Node) -> Iterable[KernelCall]:
    """One launch; what the body's nodes lower to are its instructions."""
    body = body_of(node)
    nodes = [inner for inner in body.nodes if not inner.is_structural]
    sources = sources_of(nodes, body.outputs)
    assert sources is not None
    program = Program()
    for _ in sources.keys:
        program.source()
    for inner in nodes:
        add_node(program, inner, sources.read.get(inner, {}))
    values = [*(value for value, _ in sources.keys), *body.outputs]
    spans = [*(spans for _, spans in sources.keys), *sources.results]
    dims = [1] * (MAX_DIMS - len(sources.dims)) + sources.dims
    params: dict[str, ParamValue] = {
        "dims": dims,
        "masks": _packed((sum(bit << d for d, bit in enumerate(is_repeated(own, dims))) for own in spans), MAX_DIMS),
        "types": _packed((value.desc.dtype.onnx for value in values), 5),
        "results": _packed((program.registers[value] for value in body.outputs), 8),
        "n_src": len(sources.keys),
        "n_dst": len(body.outputs),
        "n_code": len(program.code),
        "code": program.code,
    }
    operands = tuple(node.operand(value.producer.int_attr("index", 0)) for value, _ in sources.keys)
    yield KernelCall("graph_kernel", operands, tuple(node.outputs), params)


def add_node(program: Program, node: Node, read: dict[Value, int]) -> None:
    """Adds the instructions of a node, whose sources lie in the registers `read`. Raises NoInstruction."""
    if only_moves(node):
        program.registers[node.output] = program.find(node.operand(0), read)
        return
    opdef = find_opdef(node)
    assert opdef is not None and opdef.lower is not None
    for call in opdef.lower(node):
        program.launch(call, read)


def _packed(numbers: Iterable[int], bits: int) -> int:
    return sum(number << bits * index for index, number in enumerate(numbers))


def evaluate_graph_kernel(node: Node, arrays: Sequence[Array | None]) -> Sequence[Array]:
    """The body, node by node, on arrays in the shapes that they have in memory."""
    body = body_of(node)
    known: dict[Value, Array | None] = {}
    for inner in body.nodes:
        if inner.op_type == "Data":
            known[inner.output] = arrays[inner.int_attr("index", 0)]
        elif inner.op_type == "Const":
            known[inner.output] = inner.output.array
        elif inner.op_type != "NetOutput":
            operands = [None if value is None else known[value] for value in inner.inputs]
            known[inner.output] = _evaluate(inner, operands)
    results = [known[value] for value in body.outputs]
    return [result for result in results if result is not None]


def _evaluate(node: Node, operands: Sequence[Array | None]) -> Array:
    shape = node.output.desc.memory_shape
    if only_moves(node):
        x = np.asarray(operands[0])
        return x.reshape(shape) if is_view(node) else np.broadcast_to(x, shape)
    return np.asarray(evaluate_node(node, operands)[0])


register_operator(
    OpDef(
        name=NAME,
        ge_type=NAME,
        infer=keep_desc,
        evaluate=evaluate_graph_kernel,
        engines={Engine.VECTOR: always},
        lower=lower_graph_kernel,
        inplace=tuple(range(MAX_SOURCES)),
    )
)
