"""Opset 10: Slice and TopK take their numbers as inputs; Upsample becomes Resize."""

from atcpy.parsers.onnx.upgrade import Upgrade, adapts


@adapts("Slice", 10)
def bounds_to_inputs(up: Upgrade) -> None:
    """starts, ends, axes → inputs 1, 2, 3."""
    starts, ends = up.node.ints_attr("starts"), up.node.ints_attr("ends")
    axes = up.node.ints_attr("axes", range(len(starts)))
    bounds = up.const(starts, label="starts"), up.const(ends, label="ends"), up.const(axes, label="axes")
    up.become("Slice", up.input(0), *bounds)


@adapts("TopK", 10)
def k_to_input(up: Upgrade) -> None:
    """k → input 1."""
    k = up.node.int_attr("k", 1)
    del up.attrs["k"]
    up.set_inputs(up.input(0), up.const([k], label="k"))


@adapts("Upsample", 10)
def upsample_is_resize(up: Upgrade) -> None:
    """Upsample starts at the corner (`asymmetric`) and takes the pixel before the point."""
    mode = "nearest" if up.node.str_attr("mode", "nearest") == "nearest" else "linear"
    attrs: dict[str, object] = {"mode": mode, "coordinate_transformation_mode": "asymmetric"}
    if mode == "nearest":
        attrs["nearest_mode"] = "floor"
    up.become("Resize", up.input(0), None, up.input(1), **attrs)
