"""Which elements decide shapes in the end: those that shape arithmetic starts from.

Where a shape is `Concat(0, past + length)`, the plan ends with `past` and not with the result: a sum of a symbol and a
dim tells more than a symbol of its own, and what is a number stays one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from atcpy.errors import AtcError
from atcpy.ir import DType, Graph, Node, Value
from atcpy.ir.shape import Dim
from atcpy.ir.symbolic import NoSizesLeft, SizesMustAgree, Tracer, is_symbolic, same
from atcpy.ops import find_opdef
from atcpy.ops.core.infer import KnownValues
from atcpy.ops.core.reference import EVALUATION_ERRORS, MAX_DATA_ELEMENTS, has_few_elements

_MAX_ELEMENTS = 24  # of a source; more hardly are sizes
_EXAMPLE = 3


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`nodes` compute values from their `sources`, whose elements determine them."""

    nodes: set[Node] = field(default_factory=set)
    sources: set[Value] = field(default_factory=set)


def decides_shapes(value: Value) -> bool:
    """Can its elements be what the result's shape depends on: few integers, not yet constant?"""
    desc = value.desc
    return (
        value.tensor is None
        and desc.is_static
        and desc.dtype.is_int
        and len(desc.static_shape) <= 1
        and (is_symbolic(desc.elements) or desc.elements <= MAX_DATA_ELEMENTS)
    )


def find_arithmetic(nodes: Sequence[Node], values: Iterable[Value], tracer: Tracer) -> Arithmetic:
    """The nodes among these, in the order of the graph, that compute the values from elements whose symbols go through
    them without a guard. A value that is not computed so is its own source.
    """
    found = Arithmetic()
    with tracer.attempt():
        known = KnownValues()
        computed = {node for node in nodes if _is_computed(node, known, tracer)}
    pending, seen = list(values), set[Value]()
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        if value.producer in computed:
            found.nodes.add(value.producer)
            pending += [operand for operand in value.producer.operands if operand.producer.op_type != "Const"]
        else:
            found.sources.add(value)
    return found


def find_decisive_inputs(graph: Graph, tracer: Tracer) -> list[Node]:
    """The inputs whose few elements decide which branch of an If runs, where the types of its results, as far as they
    are known, are not the same in both: no plan has both branches. Each such condition is a guard of a plan.
    """
    conditions = [node.operand(0) for node in graph.nodes_of("If") if not _agree(*node.subgraphs)]
    if not conditions:
        return []
    origins: dict[Value, frozenset[Value]] = {}  # the inputs that elements follow from
    with tracer.attempt():
        known = KnownValues()
        for data in graph.inputs:
            value = data.output
            if _is_source(value) or (
                value.desc.dtype is DType.BOOL and value.desc.is_static and same(value.desc.elements, 1)
            ):
                known.set(value, _elements(value, tracer))
                origins[value] = frozenset([value])
        for node in graph.nodes:
            if _computes_few(node) and all(known(value) is not None for value in node.operands):
                elements = _propagated(node, known)
                if elements is not None:
                    known.set(node.output, elements)
                    origins[node.output] = frozenset().union(*(origins.get(value, ()) for value in node.operands))
    decisive = frozenset().union(*(origins.get(condition, ()) for condition in conditions))
    return [data for data in graph.inputs if data.output in decisive]


def _agree(first: Graph, second: Graph) -> bool:
    pairs = zip(first.outputs, second.outputs, strict=True)
    return all(a.desc == b.desc and a.desc.shape is not None for a, b in pairs)


def _is_computed(node: Node, known: KnownValues, tracer: Tracer) -> bool:
    """Note the elements of a node's result, if they follow from those of its operands without a guard."""
    if not _computes_few(node):
        return False
    unknown = [value for value in node.operands if known(value) is None]
    if not all(map(_is_source, unknown)):
        return False
    for value in unknown:
        known.set(value, _elements(value, tracer))
    guards = len(tracer.guards)
    elements = _propagated(node, known)
    if elements is None or len(tracer.guards) > guards:
        return False
    known.set(node.output, elements)
    return True


def _computes_few(node: Node) -> bool:
    """Has it one result of few elements, which shape arithmetic may know?"""
    opdef = find_opdef(node)
    return (
        opdef is not None
        and opdef.propagate is not None
        and len(node.outputs) == 1
        and has_few_elements(node.output.desc)
    )


def _propagated(node: Node, known: KnownValues) -> tuple[int, ...] | None:
    """The elements of its result, which follow from those of its operands; None if they are no numbers."""
    opdef = find_opdef(node)
    assert opdef is not None and opdef.propagate is not None
    try:
        elements = opdef.propagate(node, known)
    except (SizesMustAgree, NoSizesLeft, AtcError, *EVALUATION_ERRORS):
        return None
    numbers = [item for item in elements or () if isinstance(item, int)]
    return tuple(numbers) if elements is not None and len(numbers) == len(elements) else None


def _is_source(value: Value) -> bool:
    return decides_shapes(value) and not is_symbolic(value.desc.elements) and value.desc.elements <= _MAX_ELEMENTS


def _elements(value: Value, tracer: Tracer) -> tuple[Dim, ...]:
    return tuple(tracer.symbol("", *value.desc.dtype.integer_range(), _EXAMPLE) for _ in range(value.desc.elements))
