"""Storage formats: which nodes work in blocks of channels, and TransData where two disagree.

One walk in topological order. Each op's record says, given the formats in which its inputs are at
hand, what it wants and what it makes: a cube op asks for NC1HWC0 and N1C1HWC0N0, and what can follow
in 5D follows. So formats spread from the cube ops through everything that is agnostic, and a
TransData stands only where the spreading ends.
"""

from __future__ import annotations

from functools import lru_cache

from atcpy.formats import find_format
from atcpy.ir import ND, Engine, Format, Graph, Node, PassRecord, Reject, TensorDesc, Value, erase_dead
from atcpy.ops import Layout, find_opdef, makes_nothing
from atcpy.options import OptimizeOptions
from atcpy.passes.base import graph_pass
from atcpy.passes.phase import Phase

NAME = "HeavyFormatPropagationPass"
_PLAIN = Layout((), ())


@graph_pass(NAME, Phase.FORMAT, required=True)
def choose_formats(graph: Graph, record: PassRecord, options: OptimizeOptions) -> None:
    """Choose formats and insert TransData where two nodes disagree."""
    changed: dict[tuple[Value, Format], Value] = {}
    for node in graph.nodes:
        if node.op_type == "End":  # a border takes any format
            continue
        layout = _layout_of(node, record)
        for index, value in enumerate(node.inputs):
            if value is None:
                continue
            required = layout.inputs[index] if index < len(layout.inputs) else None
            form = required or value.desc.origin_format
            if form == value.desc.format:
                continue
            if (value, form) not in changed:  # which all readers that want the same share
                if value.tensor is not None:
                    changed[value, form] = _constant_in_format(graph, value, form)
                else:
                    changed[value, form] = insert_transdata(graph, node, value, form)
            graph.set_input(node, index, changed[value, form])
            if value.tensor is not None and value.use_count == 0:
                graph.take_name(node.operand(index), value)  # no reader wants it as it was
                erase_dead(graph, [value.producer])
        for result, chosen in zip(node.outputs, layout.outputs, strict=False):
            if chosen is not None:
                result.desc = stored(result.desc, chosen)


def _layout_of(node: Node, record: PassRecord) -> Layout:
    opdef = find_opdef(node)
    if opdef is None or opdef.layout is None or node.engine is Engine.HOST_CPU or makes_nothing(node):
        return _PLAIN
    record.matched += 1
    at_hand = tuple(ND if value is None else value.desc.format for value in node.inputs)
    layout = opdef.layout(node, at_hand)
    if isinstance(layout, Reject):
        record.reject(layout)
        return _PLAIN
    if layout.plain_because is None:
        record.applied += 1
    else:
        record.reject(layout.plain_because)
    return layout


def _constant_in_format(graph: Graph, value: Value, form: Format) -> Value:
    tensor = value.tensor
    assert tensor is not None
    if value.use_count == 1:
        value.desc = stored(value.desc, form)
        return value
    copy = graph.add_const(tensor, value.name, before=value.producer)
    copy.producer.sources, copy.producer.passes = value.producer.sources, (*value.producer.passes, NAME)
    copy.producer.engine = value.producer.engine
    copy.desc = stored(value.desc.as_plain(), form)
    return copy


def insert_transdata(graph: Graph, before: Node, value: Value, form: Format) -> Value:
    """Puts a TransData in front of a node; the reader's links are the caller's to set."""
    node = graph.append(
        "TransData",
        [value],
        {"src_format": value.desc.format.kind.name, "dst_format": form.kind.name, "groups": 1},
        name=f"{value.name}_TransData",
        outputs=(f"{value.name}.{form.kind.name}",),
        before=before,
    )
    node.passes, node.engine = (NAME,), Engine.VECTOR
    node.output.desc = stored(value.desc.as_plain(), form)
    return node.output


@lru_cache(4096)
def stored(desc: TensorDesc, form: Format) -> TensorDesc:
    """The desc of the same tensor in a format; its origin format means plain."""
    if form.is_plain:
        return desc.as_plain()
    return desc.stored_as(form, find_format(form).storage_shape(desc.static_shape))
