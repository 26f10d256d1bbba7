"""One form for what every opset can say in several ways."""

from atcpy.ir import Value
from atcpy.ir.builder import INT64_MAX
from atcpy.parsers.onnx.upgrade import Upgrade, normalizes


@normalizes("Shape")
def slice_of_shape(up: Upgrade) -> None:
    """Shape(start, end) is a Slice of Shape: both clamp alike."""
    start = up.node.int_attr("start", 0)
    end = up.node.int_attr("end", INT64_MAX)
    up.attrs.clear()
    if start == 0 and end == INT64_MAX:
        return
    shape = up.op("Shape", up.input(0))
    bounds = up.const([start], label="starts"), up.const([end], label="ends"), up.const([0], label="axes")
    up.become("Slice", shape, *bounds)


@normalizes("Resize")
def leave_out_what_is_empty(up: Upgrade) -> None:
    """Opset 11 asked for empty tensors where roi, scales or sizes are not given; they are left out."""

    def nonempty(value: Value | None) -> Value | None:
        return None if value is not None and value.desc.shape == (0,) else value

    crops = up.attrs.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    sizes = nonempty(up.input(3))
    scales = nonempty(up.input(2))
    if (sizes is None) == (scales is None):
        raise up.invalid(f"has {'neither scales nor' if sizes is None else 'both scales and'} sizes")
    up.set_inputs(up.input(0), up.input(1) if crops else None, scales, sizes)
