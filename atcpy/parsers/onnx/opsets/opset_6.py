"""Opset 6: no more `consumed_inputs`; Cast names its type by number; Tile takes one list of repeats."""

import onnx

from atcpy.ir import DType
from atcpy.parsers.onnx.upgrade import Upgrade, adapts

_TYPE_NAMES = frozenset(onnx.TensorProto.DataType.keys())


@adapts(
    """Abs Add BatchNormalization Ceil Clip Div Dropout Elu Exp Floor HardSigmoid InstanceNormalization LeakyRelu Log
    Max Mean Min Mul Neg PRelu Reciprocal Relu Selu Sigmoid Sqrt Sub Sum Tanh""",
    6,
)
def drop_consumed_inputs(up: Upgrade) -> None:
    """A hint to memory planners of 2017."""
    up.attrs.pop("consumed_inputs", None)


@adapts("Selu", 6)
def name_old_constants(up: Upgrade) -> None:
    """The defaults had four digits."""
    up.attrs.setdefault("alpha", 1.673200011253357)
    up.attrs.setdefault("gamma", 1.0506999492645264)


@adapts("Cast", 6)
def type_by_number(up: Upgrade) -> None:
    """to = "FLOAT" → to = 1."""
    name = up.node.str_attr("to", "")
    if name not in _TYPE_NAMES:
        raise up.invalid(f'to = "{name}" is no element type')
    up.attrs["to"] = onnx.TensorProto.DataType.Value(name)


@adapts("Tile", 6)
def repeats_of_all_axes(up: Upgrade) -> None:
    """(tiles, axis) → repeats, one number an axis."""
    tiles, axis, rank = up.input(1), up.input(2), up.rank(0)
    if tiles is None or axis is None or tiles.tensor is None or axis.tensor is None or rank is None:
        raise up.unsupported("tiles and axis are not both constants", "export the model with opset 6 or later")
    repeats = [1] * rank
    repeats[int(axis.array.reshape(-1)[0])] = int(tiles.array.reshape(-1)[0])
    up.set_inputs(up.input(0), up.const(repeats, DType.INT64, label="repeats"))
