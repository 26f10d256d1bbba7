"""Opset 2: Pad names its sizes `pads`, LpPool and GlobalLpPool take a whole p, Split has an axis."""

from atcpy.parsers.onnx.upgrade import Upgrade, adapts


@adapts("Pad", 2)
def rename_paddings(up: Upgrade) -> None:
    """paddings → pads."""
    if "paddings" in up.attrs:
        up.attrs["pads"] = up.attrs.pop("paddings")


@adapts("LpPool GlobalLpPool", 2)
def whole_p(up: Upgrade) -> None:
    """p was a float, 2.0 by default."""
    p = up.node.float_attr("p", 2.0)
    if p != int(p):
        raise up.unsupported(f"p = {p} is not a whole number", "export the model with an opset of 2 or later")
    up.attrs["p"] = int(p)


@adapts("Split", 2)
def sizes_were_an_input(up: Upgrade) -> None:
    """Opset 1 could give the sizes as an input, as opset 13 does again."""
    sizes = up.input(1)
    if sizes is None:
        return
    if sizes.tensor is None:
        raise up.unsupported("the sizes of the parts are computed", "export the model with opset 13 or later")
    up.attrs["split"] = tuple(int(size) for size in sizes.array.reshape(-1))
    up.set_inputs(up.input(0))
