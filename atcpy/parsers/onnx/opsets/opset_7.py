"""Opset 7: broadcasting follows numpy, from the last axis; BatchNormalization and Dropout lose `is_test`."""

from atcpy.parsers.onnx.upgrade import Upgrade, adapts


@adapts("Add Sub Mul Div And Or Xor Equal Greater Less Pow", 7)
def broadcast_from_the_last_axis(up: Upgrade) -> None:
    """B lay along the axes of A that begin at `axis`: it gets an axis of size 1 for each that follows."""
    broadcast = up.node.int_attr("broadcast", 0)
    axis = up.attrs.pop("axis", None)
    up.attrs.pop("broadcast", None)
    if not broadcast or not isinstance(axis, int):
        return
    rank, own = up.rank(0), up.rank(1)
    if rank is None or own is None:
        raise up.unsupported(f"broadcast along axis {axis} needs known ranks", "export the model with opset 7 or later")
    behind = rank - (axis + rank if axis < 0 else axis) - own
    if behind < 0:
        raise up.invalid(f"axis {axis} leaves no room for an input of rank {own} in one of rank {rank}")
    if behind:
        up.set_inputs(up.input(0), up.unsqueeze(up.node.operand(1), *range(own, own + behind)))


@adapts("Gemm", 7)
def drop_broadcast(up: Upgrade) -> None:
    """C is broadcast always."""
    up.attrs.pop("broadcast", None)


@adapts("PRelu", 7)
def slope_along_channels(up: Upgrade) -> None:
    """A slope for each channel (axis 1) gets an axis of size 1 for each that follows."""
    rank, own = up.rank(0), up.rank(1)
    if own == 1 and rank is not None and rank > 2:
        slope = up.input(1)
        assert slope is not None
        if slope.desc.shape != (1,):
            up.set_inputs(up.input(0), up.unsqueeze(slope, *range(1, rank - 1)))


@adapts("BatchNormalization Dropout", 7)
def drop_is_test(up: Upgrade) -> None:
    """The compiler runs models, it does not train them."""
    if up.attrs.pop("is_test", 0):
        up.drop_outputs(1, "it is made in training only")


@adapts("LSTM GRU RNN", 7)
def drop_output_sequence(up: Upgrade) -> None:
    """An output that nobody names is not made."""
    up.attrs.pop("output_sequence", None)


@adapts("Upsample", 7)
def scales_of_all_axes(up: Upgrade) -> None:
    """height_scale and width_scale → scales."""
    mode = "linear" if up.attrs.get("mode") == "bilinear" else "nearest"
    scales = 1.0, 1.0, up.node.float_attr("height_scale", 1.0), up.node.float_attr("width_scale", 1.0)
    up.become("Upsample", up.input(0), mode=mode, scales=scales)
