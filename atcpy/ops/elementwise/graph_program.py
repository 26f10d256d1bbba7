"""Launches of the elementwise kernel families as instructions of graph_kernel: one row of a table a family.

An op needs no row: what its record lowers it to is translated. `docs/graph-kernels.md`, `graph_kernel.h`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import isnan

import numpy as np

from atcpy.ir import DType, Reject, Value
from atcpy.ir.instruction import Instruction
from atcpy.ir.symbolic import always_below
from atcpy.ops.core.half import HALF_DTYPES
from atcpy.ops.core.opdef import KernelCall
from atcpy.ops.elementwise.cast import KERNEL_DTYPES
from atcpy.ops.elementwise.classify import classify_pattern, inf_bits, nan_bits

MAX_SOURCES = 8
MAX_RESULTS = 4
MAX_WORDS = 27
MAX_DIMS = 5
MAX_ROW = 4096  # elements that one number is made of, or that one is repeated over beside such
NO_REGISTER = 255  # the immediate takes its place
REGISTER_DTYPES = KERNEL_DTYPES
EXACT_BITS = 16  # of integers that are float32 one by one, and so are their differences
FUNCTION_COST = 8  # of an op that is computed by a polynomial, where Add costs 1

_OWN = "graph_kernel"
_TWO_NUMBERS = frozenset({"Clip", "HardSigmoid", "Selu", "Shrink"})
_FAULTS = frozenset({"Div", "Mod", "FMod"})
_COMPARES = frozenset({"Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"})
_SIMPLE = frozenset(
    {
        "Relu", "LeakyRelu", "Clip", "ThresholdedRelu", "Abs", "Neg", "Sign", "Floor", "Ceil", "Round", "Sqrt",
        "Reciprocal", "Divs", "HardSigmoid", "HardSwish", "Softsign", "Not", "BitwiseNot",
    }
)  # fmt: skip


class NoInstruction(Exception):
    """Why a launch cannot be part of a program."""

    def __init__(self, reject: Reject) -> None:
        super().__init__(reject.reason)
        self.reject = reject


class _NoNumber(ValueError):
    """Why a number cannot be an immediate."""


@dataclass(slots=True)
class Program:
    """Instructions, and in which register each value lies. `words` counts instructions and their data."""

    registers: dict[Value, int] = field(default_factory=dict)
    code: list[Instruction | int] = field(default_factory=list)
    cost: int = 0  # of one element
    _next: int = 0

    def source(self) -> int:
        """The register of the next source; all come before the first instruction."""
        assert not self.code
        self._next += 1
        return self._next - 1

    def find(self, value: Value, read: Mapping[Value, int]) -> int:
        """The register of a value; a constant is loaded. Raises NoInstruction."""
        found = read.get(value, self.registers.get(value))
        if found is None:
            dtype = DType.FLOAT32 if value.desc.dtype in HALF_DTYPES else value.desc.dtype
            found = self.add(_OWN, "Const", dtype.onnx, 0, _bits(_number(value), dtype))
            self.registers[value] = found
        return found

    def launch(self, call: KernelCall, read: Mapping[Value, int]) -> None:
        """Adds a launch. `read` says in which registers its sources are that no launch made; what it does not know
        are constants of one element. Raises NoInstruction.
        """
        result = call.dst[0]
        where = result.producer.name
        for value in (*call.src, result):
            if value is not None and value.desc.dtype not in REGISTER_DTYPES:
                raise NoInstruction(Reject("dtype", where, value.desc.dtype.long))
        if call.family not in _TABLE:
            raise NoInstruction(Reject("no-instruction", where, call.family))
        if _may_fault(call):
            raise NoInstruction(Reject("integer-division", where))
        try:
            self.registers[result] = _TABLE[call.family](_Launch(self, call, read))
        except _NoNumber as error:
            raise NoInstruction(Reject("no-instruction", where, str(error))) from error

    def add(self, family: str, op: str, a: int, b: int = 0, immediate: int = 0, *data: int) -> int:
        """Adds an instruction and the word of data behind it, if any; returns the register that it writes."""
        self.code += [Instruction(family, op, self._next, a, b, immediate), *(word << 32 for word in data)]
        self._next += 1
        return self._next - 1


@dataclass(frozen=True, slots=True)
class _Launch:
    program: Program
    call: KernelCall
    read: Mapping[Value, int]

    @property
    def op(self) -> str:
        return str(self.call.params["op"])

    def value(self, index: int) -> Value:
        value = self.call.src[index]
        assert value is not None
        return value

    def dtype(self, index: int = 0) -> DType:
        return self.value(index).desc.dtype

    def number(self, name: str) -> float | int:
        number = self.call.params.get(name, 0)
        assert isinstance(number, int | float)
        return number

    def register(self, index: int) -> int:
        """Where source `index` lies."""
        return self.program.find(self.value(index), self.read)

    def _is_number(self, index: int) -> bool:
        value = self.value(index)
        return value not in self.read and value not in self.program.registers

    def pair(self) -> tuple[int, int, int]:
        """Registers of two sources and the immediate that one of them may be."""
        for index in (1, 0):
            if self._is_number(index) and self.dtype(index) is self.dtype(1 - index):
                bits = _bits(_number(self.value(index)), self.dtype(index))
                other = self.register(1 - index)
                return (NO_REGISTER, other, bits) if index == 0 else (other, NO_REGISTER, bits)
        return self.register(0), self.register(1), 0


def is_immediate(value: Value) -> bool:
    """True for a constant that an instruction can hold: one number of 32 bits."""
    if value.tensor is None or value.desc.elements != 1 or value.desc.dtype not in REGISTER_DTYPES:
        return False
    try:
        _bits(_number(value), value.desc.dtype)
    except _NoNumber:
        return False
    return True


def _number(value: Value) -> float | int:
    number: float | int = value.array.reshape(-1)[0].item()
    return number


def _bits(number: float | int, dtype: DType) -> int:
    """A number as the 32 bits of an immediate: float32 beside floats, else int32. Raises _NoNumber where another
    number would come back; attributes beside float32 are float32, whatever they were computed in.
    """
    try:
        if not dtype.is_float:
            return struct.unpack("<I", struct.pack("<i", int(number)))[0]  # type: ignore[no-any-return]
        packed = struct.pack("<f", number)
    except (struct.error, OverflowError) as error:
        raise _NoNumber(f"{number} does not fit 32 bits") from error
    (back,) = struct.unpack("<f", packed)
    if dtype is not DType.FLOAT32 and back != number and not isnan(number):
        raise _NoNumber(f"{number} is no float32")
    return int(struct.unpack("<I", packed)[0])


def _may_fault(call: KernelCall) -> bool:
    """True for divisions of integers, and for their powers, which divide where the exponent is below zero."""
    value = call.src[0]
    divides = call.family == "pow" or (call.family == "binary" and call.params["op"] in _FAULTS)
    return divides and value is not None and value.desc.dtype.is_int


def _unary(launch: _Launch) -> int:
    op, dtype = launch.op, launch.dtype()
    names = ("alpha", "beta") if dtype.is_float or op == "Shrink" else ("low", "high")
    kind = DType.FLOAT32 if op == "Shrink" else dtype
    first, *second = (_bits(launch.number(name), kind) for name in names[: 2 if op in _TWO_NUMBERS else 1])
    launch.program.cost += 1 if op in _SIMPLE else FUNCTION_COST
    return launch.program.add("unary", op, launch.register(0), 0, first, *second)


def _binary(launch: _Launch) -> int:
    launch.program.cost += 1
    return launch.program.add("binary", launch.op, *launch.pair())


def _cast(launch: _Launch) -> int:
    """A register has 16-bit floats in float32 already."""
    source, target = launch.dtype(), launch.call.dst[0].desc.dtype
    if target is DType.FLOAT32 and source in HALF_DTYPES:
        return launch.register(0)
    launch.program.cost += 1
    return launch.program.add(_OWN, "Cast", launch.register(0), 0, target.onnx)


def _where(launch: _Launch) -> int:
    condition, a, b = (launch.register(index) for index in range(3))
    launch.program.cost += 1
    return launch.program.add(_OWN, "Select", condition, a, b)


def _pow(launch: _Launch) -> int:
    launch.program.cost += FUNCTION_COST
    return launch.program.add(_OWN, "Pow", *launch.pair())


def _classify(launch: _Launch) -> int:
    dtype = launch.dtype()
    pattern = tuple(int(launch.number(name)) for name in ("mask", "low", "high"))
    infinities = [classify_pattern(inf_bits(dtype, n, p)) for n, p in ((True, False), (False, True), (True, True))]
    launch.program.cost += 1
    if pattern == classify_pattern(nan_bits(dtype)):
        return launch.program.add(_OWN, "IsNaN", launch.register(0))
    if pattern not in infinities:
        raise _NoNumber("which infinity")
    return launch.program.add(_OWN, "IsInf", launch.register(0), 0, infinities.index(pattern) + 1)


def _step(launch: _Launch) -> tuple[float, int]:
    """Scale and zero point of a quantisation with one of each."""
    zero = launch.call.src[2]
    return float(_number(launch.value(1))), 0 if zero is None else int(_number(zero))


def _with_number(program: Program, op: str, register: int, number: float) -> int:
    program.cost += 1
    return program.add("binary", op, register, NO_REGISTER, _bits(number, DType.FLOAT32))


def _cast_to(program: Program, register: int, dtype: DType) -> int:
    program.cost += 1
    return program.add(_OWN, "Cast", register, 0, dtype.onnx)


def _dequantize(launch: _Launch) -> int:
    """(x − zero) · scale, where the difference of no more than 16 bits is a float32."""
    program, (scale, zero) = launch.program, _step(launch)
    if zero and launch.dtype().bits > EXACT_BITS:
        raise _NoNumber("a zero point of 32 bits")
    y = _cast_to(program, launch.register(0), DType.FLOAT32)
    if zero:
        y = _with_number(program, "Sub", y, zero)
    return _with_number(program, "Mul", y, scale)


def _quantize(launch: _Launch) -> int:
    """round(x / scale) + zero, saturated before it is rounded; NaN becomes the least number, which is not above it."""
    program, (scale, zero) = launch.program, _step(launch)
    target = launch.call.dst[0].desc.dtype
    limits = np.iinfo(target.long)
    y = _with_number(program, "Div", launch.register(0), scale)
    is_above = _with_number(program, "Greater", y, limits.min - zero)
    minimum = program.add(_OWN, "Const", DType.FLOAT32.onnx, 0, _bits(limits.min - zero, DType.FLOAT32))
    y = program.add(_OWN, "Select", is_above, y, minimum)
    y = program.add("unary", "Round", _with_number(program, "Min", y, limits.max - zero))
    program.cost += 2
    if zero:
        y = _with_number(program, "Add", y, zero)
    return _cast_to(program, y, target)


def _reduce(launch: _Launch) -> int:
    """Over rows: neighbours in memory."""
    *others, row = _sizes(launch.call, "reduced")
    if launch.number("inner") != 1 or others != [1] * len(others):
        raise _NoNumber("a reduction of other dims than the last")
    if not always_below(row, MAX_ROW + 1) or row <= 1:  # of open length: longer rows would need a plan of their own
        raise _NoNumber(f"a reduction of {row} elements")
    kind = str(launch.call.params["kind"])
    launch.program.cost += FUNCTION_COST if kind == "log_sum_exp" else 1
    return launch.program.add("reduce", kind, launch.register(0))


def _sizes(call: KernelCall, name: str) -> list[int]:
    sizes = call.params[name]
    assert isinstance(sizes, list)
    return sizes


_TABLE: Mapping[str, Callable[[_Launch], int]] = {
    "unary": _unary,
    "binary": _binary,
    "cast": _cast,
    "where": _where,
    "pow": _pow,
    "classify": _classify,
    "quantize": _quantize,
    "dequantize": _dequantize,
    "reduce": _reduce,
}
