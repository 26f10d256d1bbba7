"""Programs of the graph_kernel family: an assembler, and a runner of the C interpreter."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from atcpy.ir import DType, Region, Slot, TensorDesc
from atcpy.ir.tensor import Array
from atcpy.kernels import _kernels, table

UNARY, BINARY, REDUCE = 0, 64, 128
CONST, CAST, SELECT, POW, IS_NAN, IS_INF = range(192, 198)
IMMEDIATE = 255
TWO_NUMBERS = ("Clip", "HardSigmoid", "Selu", "Shrink")
DIMS = 5

Number = int | float


def names(family: str, argument: str) -> tuple[str, ...]:
    """The values of an enum argument of a kernel family."""
    choices = next(f.choices for f in table.families()[family] if f.name == argument)
    assert choices is not None
    return choices


UNARY_OPS, BINARY_OPS, REDUCE_KINDS = names("unary", "op"), names("binary", "op"), names("reduce", "kind")


def immediate_bits(number: Number, dtype: DType) -> int:
    """The immediate of an instruction: the upper 32 bits of its word."""
    return int.from_bytes(struct.pack("<f" if dtype.is_float else "<i", number), "little")


def word(op: int, d: int = 0, a: int = 0, b: int = 0, immediate: int = 0) -> int:
    """Encode an instruction as the signed 64-bit integer of a task record."""
    bits = op | d << 8 | a << 16 | b << 24 | (immediate & 0xFFFF_FFFF) << 32
    return bits - (1 << 64) if bits >> 63 else bits


@dataclass
class Program:
    """An assembler of instruction words; each instruction writes a new register, numbered after the sources."""

    types: list[DType]
    code: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.types = [DType.FLOAT32 if t in (DType.FLOAT16, DType.BFLOAT16) else t for t in self.types]

    def _new(self, dtype: DType, *words: int) -> int:
        self.types.append(dtype)
        self.code += words
        return len(self.types) - 1

    def unary(self, op: str, a: int, first: Number = 0, second: Number = 0) -> int:
        """`op` of the unary family with its alpha and beta, or bounds."""
        dtype = self.types[a]
        kind = DType.FLOAT32 if op == "Shrink" else dtype
        data = [word(0, immediate=immediate_bits(second, kind))] if op in TWO_NUMBERS else []
        number = UNARY_OPS.index(op)
        return self._new(dtype, word(UNARY + number, len(self.types), a, 0, immediate_bits(first, kind)), *data)

    def binary(self, op: str, a: int | None, b: int | None, immediate: Number = 0) -> int:
        """`op` of the binary family, or Pow; None is the immediate."""
        dtype = self.types[a if a is not None else b or 0]
        number = POW if op == "Pow" else BINARY + BINARY_OPS.index(op)
        operands = [IMMEDIATE if x is None else x for x in (a, b)]
        bits = immediate_bits(immediate, dtype) if None in (a, b) else 0
        compares = op in ("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual")
        return self._new(DType.BOOL if compares else dtype, word(number, len(self.types), *operands, bits))

    def reduce(self, kind: str, a: int) -> int:
        """A reduction to one element per row."""
        return self._new(self.types[a], word(REDUCE + REDUCE_KINDS.index(kind), len(self.types), a))

    def const(self, dtype: DType, number: Number) -> int:
        """A register with a constant."""
        return self._new(dtype, word(CONST, len(self.types), dtype.onnx, 0, immediate_bits(number, dtype)))

    def cast(self, a: int, dtype: DType) -> int:
        """`a` converted to another dtype."""
        register_type = DType.FLOAT32 if dtype in (DType.FLOAT16, DType.BFLOAT16) else dtype
        return self._new(register_type, word(CAST, len(self.types), a, 0, dtype.onnx))

    def select(self, condition: int, a: int, b: int) -> int:
        """`a` where the condition is true, else `b`."""
        return self._new(self.types[a], word(SELECT, len(self.types), condition, a, b))

    def classify(self, op: int, a: int, which: int = 0) -> int:
        """IS_NAN or IS_INF."""
        return self._new(DType.BOOL, word(op, len(self.types), a, 0, which))


def mask_of(shape: Sequence[int], dims: Sequence[int]) -> int:
    """A bit mask of the dims along which an operand of `shape` is broadcast."""
    padded = [1] * (DIMS - len(shape)) + list(shape)
    return sum(1 << i for i, (size, whole) in enumerate(zip(padded, dims, strict=True)) if size == 1 != whole)


def record(
    program: Program,
    dims: Sequence[int],
    src: Sequence[Array],
    dst: Sequence[tuple[int, Array]],
    slots: Sequence[Slot] | None = None,
    changes: Mapping[str, table.ParamValue] | None = None,
) -> bytes:
    """Pack the task of a program over `dims`; `dst` pairs result registers with output arrays."""
    dims = [1] * (DIMS - len(dims)) + list(dims)
    arrays = [*src, *(array for _, array in dst)]
    types = [DType.from_numpy(array.dtype) for array in arrays]
    if slots is None:
        slots = [
            Slot(region, 0, array.nbytes, TensorDesc.plain(dtype, array.shape), index)
            for array, dtype, (region, index) in zip(
                arrays,
                types,
                [(Region.INPUT, i) for i in range(len(src))] + [(Region.OUTPUT, i) for i in range(len(dst))],
                strict=True,
            )
        ]
    params: dict[str, table.ParamValue] = {
        "dims": dims,
        "masks": sum(mask_of(array.shape, dims) << 5 * i for i, array in enumerate(arrays)),
        "types": sum(dtype.onnx << 5 * i for i, dtype in enumerate(types)),
        "n_src": len(src),
        "n_dst": len(dst),
        "results": sum(register << 8 * i for i, (register, _) in enumerate(dst)),
        "n_code": len(program.code),
        "code": program.code,
    }
    packed = table.pack_params("graph_kernel", {**params, **(changes or {})})
    return table.pack_task("graph_kernel", slots[: len(src)], slots[len(src) :], packed)


def run(
    program: Program,
    dims: Sequence[int],
    src: Sequence[Array],
    results: Sequence[tuple[int, DType, Sequence[int]]],
    *,
    isa: str | None = None,
    threads: int = 1,
) -> list[Array]:
    """Run a program; return an array for each (register, dtype, shape) in `results`."""
    outputs = [np.full(shape, 0x5A, np.uint8).astype(dtype.numpy) for _, dtype, shape in results]
    task = record(program, dims, src, [(r, array) for (r, _, _), array in zip(results, outputs, strict=True)])
    src = [np.ascontiguousarray(array) for array in src]
    plan = _kernels.Plan(
        task, None, 0, [array.nbytes for array in src], [array.nbytes for array in outputs], threads, isa
    )
    plan.start([_bytes(array) for array in src], [_bytes(array) for array in outputs]).execute(0, 1)
    return outputs


def _bytes(array: Array) -> Array:
    return array.reshape(-1).view(np.uint8)
