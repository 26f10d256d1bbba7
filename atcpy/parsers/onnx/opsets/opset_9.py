"""Opset 9: BatchNormalization works on channels only; Upsample takes its scales as an input; Scan has no batch."""

from atcpy.ir import DType, Graph, Node, Value
from atcpy.ir.desc import UNKNOWN
from atcpy.parsers.onnx.upgrade import Upgrade, adapts


@adapts("BatchNormalization", 9)
def flatten_what_is_not_spatial(up: Upgrade) -> None:
    """spatial = 0 has statistics for each element: flatten to (N, C·D1·…) and give the shape back."""
    if up.attrs.pop("spatial", 1):
        return
    if len(up.node.outputs) > 1:
        raise up.unsupported("spatial = 0 in training", "export the model for inference")
    x = up.node.operand(0)
    shape = up.op("Shape", x)
    statistics = [up.reshape(value, (-1,)) for value in up.node.operands[1:]]
    up.set_inputs(up.op("Flatten", x, axis=1), *statistics)
    up.append(0, "Reshape", shape)


@adapts("Upsample", 9)
def scales_to_input(up: Upgrade) -> None:
    """scales = […] → input 1."""
    scales = up.attrs.pop("scales", ())
    assert isinstance(scales, tuple)
    up.set_inputs(up.input(0), up.const(scales, DType.FLOAT32, label="scales"))


@adapts("Scan", 9)
def scan_each_of_the_batch(up: Upgrade) -> None:
    """Axis 0 was the batch: a Scan over it, whose body is the Scan over the sequence.

    States and sequences alike are what the outer Scan takes apart and puts together again.
    """
    if up.input(0) is not None:
        raise up.unsupported("sequence_lens is given", "export the model with opset 9 or later")
    inputs = list(up.node.inputs[1:])
    inner = dict(up.attrs)
    if "directions" in inner:
        inner["scan_input_directions"] = inner.pop("directions")
    body = Graph(f"{up.node.name}/sequence", names=up.graph.names)
    items = [body.append("Data", attrs={"index": i}, name=f"{up.node.name}/item") for i in range(len(inputs))]
    scan = body.append(
        "Scan",
        [item.output for item in items],
        inner,
        name=f"{up.node.name}/Scan",
        outputs=("",) * len(up.node.outputs),
    )
    scan.sources = up.node.sources
    body.append("NetOutput", scan.outputs, name="NetOutput", outputs=())
    for item, value in zip(items, inputs, strict=True):
        _set_item_type(item, value)
    up.become("Scan", *inputs, body=body, num_scan_inputs=len(inputs))


def _set_item_type(item: Node, batch: Value | None) -> None:
    """An item of a batch has all but the first of its dims."""
    if batch is not None and batch.desc is not UNKNOWN and batch.desc.shape:
        item.output.desc = type(batch.desc).plain(batch.desc.dtype, batch.desc.shape[1:])
