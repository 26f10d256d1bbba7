"""ai.onnx.ml 2: LabelEncoder maps lists of keys to lists of values, not strings to their places alone."""

from atcpy.ir import DType
from atcpy.parsers.onnx.upgrade import Upgrade, adapts


@adapts("ai.onnx.ml::LabelEncoder", 2)
def places_to_keys_and_values(up: Upgrade) -> None:
    """classes_strings: from a string to its place, or back, as the input's type says."""
    classes = up.attrs.pop("classes_strings", ())
    assert isinstance(classes, tuple)
    places = tuple(range(len(classes)))
    dtype = up.dtype(0)
    if dtype is DType.STRING:
        up.attrs.update(keys_strings=classes, values_int64s=places)
    elif dtype is DType.INT64:
        up.attrs.update(keys_int64s=places, values_strings=classes)
    else:
        raise up.unsupported("the type of the input is unknown", "export the model with ai.onnx.ml 2 or later")
