"""The readable text of a graph: golden tests compare it, --dump_graph writes it."""

from collections.abc import Iterator

from atcpy.ir.graph import Graph
from atcpy.ir.node import Node, Value
from atcpy.ir.shape import format_shape
from atcpy.ir.tensor import Tensor


def dump(graph: Graph) -> str:
    """One line a node, in order; the blocks of subgraphs follow that of their parent."""
    blocks: list[str] = []
    pending = [graph]
    for block in pending:  # grows while it is walked: subgraphs queue up behind
        head = [] if block is graph else [f"--- subgraph {block.name}"]
        blocks.append("\n".join([*head, *(dump_node(node) for node in block.nodes)]))
        pending.extend(body for node in block.nodes for body in node.subgraphs)
    return "\n".join(blocks) + "\n"


def dump_node(node: Node) -> str:
    """`y: f32[1,16,8,8] NCHW = Conv(x, w, b) {pads=[1,1,1,1]} @AIcoreEngine ; pass, pass`"""
    results = ", ".join(f"{value.name}: {value.desc}" for value in node.outputs)
    operands = ", ".join("" if value is None else value.name for value in node.inputs)
    domain = f"{node.domain}::" if node.domain else ""
    text = f"{results} = " if results else ""
    text += f"{domain}{node.op_type}({operands})"
    attrs = " ".join(_dump_attrs(node))
    if attrs:
        text += f" {{{attrs}}}"
    if node.engine is not None:
        text += f" @{node.engine.value}"
    notes = [*(_was(value) for value in node.outputs if value.desc.storage_shape is not None), *node.passes]
    return f"{text} ; {', '.join(notes)}" if notes else text


def _was(value: Value) -> str:
    return f"was {format_shape(value.desc.shape)} {value.desc.origin_format}"


def _dump_attrs(node: Node) -> Iterator[str]:
    for name in sorted(node.attrs):
        if node.op_type == "NetOutput" and node.attrs[name] == tuple(value.name for value in node.operands):
            continue  # the usual case: outputs go by the names of their values
        if node.op_type == "Const" and name == "value":
            if (small := _small_constant(node)) is not None:
                yield f"value={small}"
        else:
            yield f"{name}={_dump_attr(node.attrs[name])}"


def _small_constant(node: Node) -> str | None:
    tensor = node.output.tensor
    assert tensor is not None
    if tensor.nbytes > 32 or len(tensor.shape) > 1:
        return None
    return str(tensor.array.tolist()).replace(" ", "")


def _dump_attr(attr: object) -> str:
    if isinstance(attr, tuple):
        return "[" + ",".join(_dump_attr(item) for item in attr) + "]"
    if isinstance(attr, Graph):
        return f"<{attr.name}>"
    if isinstance(attr, Tensor):
        return str(attr.array.tolist()).replace(" ", "") if attr.nbytes <= 64 else repr(attr)
    if isinstance(attr, float):
        return f"{attr:.9g}"
    return str(attr) if isinstance(attr, int) else repr(attr)
