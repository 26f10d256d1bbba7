"""Ranks and element types that the graph read so far tells, without shape inference.

A few old ops mean different things by the rank or the type of their input, and the model does not
say either. The walk is lazy and iterative, and remembers what it found.
"""

from collections.abc import Callable, Iterable
from functools import cached_property

import onnx

from atcpy.ir import DType, Node, Tensor, TensorDesc, Value
from atcpy.parsers.onnx.value_types import read_desc

Find = Callable[[Value | None], int | None]
Rule = Callable[[Node, Find], int | None]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SAME_RANK = _words(
    """Abs Acos Acosh Asin Asinh Atan Atanh AveragePool BatchNormalization BitShift BitwiseNot Cast CastLike Ceil Celu
    Clip Conv ConvTranspose Cos Cosh CumSum DepthToSpace DequantizeLinear Dropout Elu Erf Exp Floor Gelu
    GlobalAveragePool GlobalLpPool GlobalMaxPool GroupNormalization HardSigmoid HardSwish Hardmax Identity
    InstanceNormalization IsInf IsNaN LRN LayerNormalization LeakyRelu Log LogSoftmax LpNormalization LpPool MaxPool
    MeanVarianceNormalization Mish Neg Not PRelu Pad QLinearConv QuantizeLinear Reciprocal Relu Resize ReverseSequence
    Round ScatterElements ScatterND Selu Shrink Sigmoid Sign Sin Sinh Slice Softmax Softplus Softsign SpaceToDepth Split
    Sqrt Swish Tan Tanh ThresholdedRelu Tile TopK Transpose Trilu"""
)
_BROADCAST = _words(
    """Add And BitwiseAnd BitwiseOr BitwiseXor Div Equal Greater GreaterOrEqual Less LessOrEqual Max Mean Min Mod Mul Or
    Pow Sub Sum Where Xor"""
)
_FIXED = {"Flatten": 2, "Gemm": 2, "NonZero": 2, "Shape": 1, "Size": 0, "Range": 1, "NonMaxSuppression": 2}
_REDUCE = _words(
    """ArgMax ArgMin ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum
    ReduceSumSquare"""
)
# Their first output has the type of an attribute, or of an input that no shared type variable names.
_TYPE_BY_ATTR = {"Cast": "to", "RandomNormal": "dtype", "RandomUniform": "dtype", "EyeLike": "dtype"}


class _Need(Exception):
    """Another value must be looked at first."""

    def __init__(self, value: Value) -> None:
        super().__init__()
        self.value = value


class Types:
    """Ranks and element types of values; asked again, it remembers."""

    def __init__(self, infos: Iterable[onnx.ValueInfoProto] = ()) -> None:
        self._infos = infos
        self._ranks: dict[Value, int | None] = {}
        self._dtypes: dict[Value, DType | None] = {}

    def rank(self, value: Value) -> int | None:
        """The number of dims of a value, or None if the graph does not tell it."""
        pending = [value]
        while pending:
            try:
                self._ranks[pending[-1]] = self._find_rank(pending[-1])
                pending.pop()
            except _Need as need:
                self._ranks[need.value] = None  # a loop in a broken graph ends here
                pending.append(need.value)
        return self._ranks[value]

    def dtype(self, value: Value) -> DType | None:
        """The element type of a value, or None if the graph does not tell it."""
        chain: list[Value] = []
        found: DType | None = None
        current: Value | None = value
        while current is not None:
            if current in self._dtypes:
                found = self._dtypes[current]
                break
            chain.append(current)
            found, current = _type_or_origin(current)
        for seen in chain:
            self._dtypes[seen] = found
        return found

    def stated(self, value: Value) -> TensorDesc:
        """What the graph tells of a value, or, where that is nothing, what the model states."""
        if value.desc.shape is not None or value.name not in self._stated:
            return value.desc
        return read_desc(self._stated[value.name])

    @cached_property
    def _stated(self) -> dict[str, onnx.ValueInfoProto]:
        return {info.name: info for info in self._infos}

    def _find_rank(self, value: Value) -> int | None:
        if value.desc.shape is not None:
            return len(value.desc.shape)
        node = value.producer
        if node.domain or (value.index > 0 and node.op_type not in ("Split", "TopK", "MaxPool", "Dropout")):
            return None
        if node.op_type in _SAME_RANK:
            return self._known(node.input(0))
        rule = _RANK_RULES.get(node.op_type)
        return None if rule is None else rule(node, self._known)

    def _known(self, value: Value | None) -> int | None:
        if value is None:
            return None
        if value not in self._ranks:
            raise _Need(value)
        return self._ranks[value]


def _type_or_origin(value: Value) -> tuple[DType | None, Value | None]:
    """The type of a value, or the value whose type it has."""
    if value.desc.dtype is not DType.UNDEFINED:
        return value.desc.dtype, None
    node = value.producer
    if node.domain or not onnx.defs.has(node.op_type):
        return None, None
    if node.op_type in _TYPE_BY_ATTR:
        number = node.attrs.get(_TYPE_BY_ATTR[node.op_type], 1)
        return (DType.from_onnx(number) if isinstance(number, int) else None), None
    if node.op_type == "ConstantOfShape":
        filler = node.attrs.get("value")
        return (filler.dtype if isinstance(filler, Tensor) else DType.FLOAT32), None
    schema = onnx.defs.get_schema(node.op_type)
    result = schema.outputs[min(value.index, len(schema.outputs) - 1)]
    if result.type_str.startswith("tensor("):
        return _NAMED.get(result.type_str), None
    if not result.is_homogeneous:
        return None, None
    for index, param in enumerate(schema.inputs):
        if param.type_str == result.type_str and param.is_homogeneous:
            return None, node.input(index)
    return None, None


_NAMED = {f"tensor({'double' if d is DType.FLOAT64 else 'float' if d is DType.FLOAT32 else d.long})": d for d in DType}


def _fixed_rank(node: Node, find: Find) -> int | None:
    return _FIXED[node.op_type]


def _broadcast_rank(node: Node, find: Find) -> int | None:
    ranks = [find(value) for value in node.operands]
    return None if None in ranks else max((rank for rank in ranks if rank is not None), default=None)


def _reduce_rank(node: Node, find: Find) -> int | None:
    if node.int_attr("keepdims", 1):
        return find(node.input(0))
    rank = find(node.input(0))
    if node.op_type.startswith("Arg"):
        return None if rank is None else rank - 1
    axes = node.input(1)
    if axes is None:
        return 0 if not node.int_attr("noop_with_empty_axes", 0) else rank
    count = _length(axes, find)
    return None if rank is None or not count else rank - count


def _reshape_rank(node: Node, find: Find) -> int | None:
    return _length(node.input(1), find)


def _expand_rank(node: Node, find: Find) -> int | None:
    rank, count = find(node.input(0)), _length(node.input(1), find)
    return None if rank is None or count is None else max(rank, count)


def _squeeze_rank(node: Node, find: Find) -> int | None:
    rank, count = find(node.input(0)), _length(node.input(1), find)
    return None if rank is None or count is None else rank - count


def _unsqueeze_rank(node: Node, find: Find) -> int | None:
    rank, count = find(node.input(0)), _length(node.input(1), find)
    return None if rank is None or count is None else rank + count


def _gather_rank(node: Node, find: Find) -> int | None:
    data, indices = find(node.input(0)), find(node.input(1))
    return None if data is None or indices is None else data + indices - 1


def _matmul_rank(node: Node, find: Find) -> int | None:
    a, b = find(node.input(0)), find(node.input(1))
    if a is None or b is None:
        return None
    return max(a, b, 2) - (a == 1) - (b == 1)


def _concat_rank(node: Node, find: Find) -> int | None:
    return next((rank for rank in map(find, node.operands) if rank is not None), None)


def _length(value: Value | None, find: Find) -> int | None:
    """The number of elements of a list of integers."""
    total = 0
    pending = [value]
    while pending:
        item = pending.pop()
        if item is None:
            return None
        node = item.producer
        if item.desc.shape is not None and all(isinstance(dim, int) for dim in item.desc.shape):
            total += item.desc.elements
        elif node.op_type == "Shape" and not node.attrs:
            rank = find(node.input(0))
            if rank is None:
                return None
            total += rank
        elif node.op_type in ("Cast", "Identity"):
            pending.append(node.input(0))
        elif node.op_type == "Unsqueeze" and find(node.input(0)) == 0:
            total += 1
        elif node.op_type == "Concat":
            pending.extend(node.inputs)
        else:
            return None
    return total


def _image_rank(node: Node, find: Find) -> int | None:
    sides = _length(node.input(1), find)
    return None if sides is None else sides + 2


_RANK_RULES: dict[str, Rule] = {
    **dict.fromkeys(_BROADCAST, _broadcast_rank),
    **dict.fromkeys(_REDUCE, _reduce_rank),
    **dict.fromkeys(_FIXED, _fixed_rank),
    "Col2Im": _image_rank,
    "Concat": _concat_rank,
    "ConstantOfShape": lambda node, find: _length(node.input(0), find),
    "Expand": _expand_rank,
    "Gather": _gather_rank,
    "MatMul": _matmul_rank,
    "Reshape": _reshape_rank,
    "Squeeze": _squeeze_rank,
    "Unsqueeze": _unsqueeze_rank,
}
