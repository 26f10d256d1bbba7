"""graph_kernel: programs agree bit for bit with running each op by its own kernel; invalid ones are refused."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atcpy.ir import DType, Region, Slot, TensorDesc
from atcpy.ir.tensor import Array
from atcpy.kernels import _kernels, table
from atcpy.kernels.record import read_slots
from atcpy.ops.elementwise.graph_program import MAX_ROW, MAX_WORDS
from tests.effort import trials
from tests.isa import ISAS
from tests.kernels import graph_programs as gk
from tests.kernels.graph_programs import Number, Program, record, run, word

F32, F64, I32, I64, U8, BOOL = DType.FLOAT32, DType.FLOAT64, DType.INT32, DType.INT64, DType.UINT8, DType.BOOL
HALVES = (DType.FLOAT16, DType.BFLOAT16)
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 3e38, -1.0, 88.9, -104.0]


def launch(
    family: str, params: dict[str, table.ParamValue], src: Sequence[Array], dtype: DType, shape: Sequence[int], isa: str
) -> Array:
    """Run one task of another kernel family."""
    result = np.empty(shape, dtype.numpy)
    arrays = [*(np.ascontiguousarray(array) for array in src), result]
    locations = [(Region.INPUT, i) for i in range(len(src))] + [(Region.OUTPUT, 0)]
    slots = [
        Slot(region, 0, array.nbytes, TensorDesc.plain(DType.from_numpy(array.dtype), array.shape), index)
        for array, (region, index) in zip(arrays, locations, strict=True)
    ]
    task = table.pack_task(family, slots[:-1], slots[-1:], table.pack_params(family, params))
    plan = _kernels.Plan(task, None, 0, [array.nbytes for array in arrays[:-1]], [result.nbytes], 1, isa)
    plan.start(
        [array.reshape(-1).view(np.uint8) for array in arrays[:-1]], [result.reshape(-1).view(np.uint8)]
    ).execute(0, 1)
    return result


class Stepwise:
    """The reference: runs each instruction of a Program on whole arrays, by the kernel of the op's own family."""

    def __init__(self, dims: Sequence[int], src: Sequence[Array], isa: str) -> None:
        self.dims, self.isa, self.program = tuple(dims), isa, Program([DType.from_numpy(a.dtype) for a in src])
        self.values: list[Array] = []
        self.varies = [array.shape[-1:] == self.dims[-1:] for array in src]  # whether elements of a row differ
        for array in src:
            whole = np.ascontiguousarray(np.broadcast_to(array, self.dims))
            self.values.append(self._cast(whole, F32) if DType.from_numpy(array.dtype) in HALVES else whole)

    def _append(self, register: int, array: Array, *operands: int | None) -> int:
        assert register == len(self.values)
        self.values.append(array)
        self.varies.append(any(self.varies[a] for a in operands if a is not None))
        return register

    def _cast(self, x: Array, to: DType) -> Array:
        kinds = gk.names("cast", "to")
        short = {"float": "f", "int": "i", "uint": "u", "bfloat": "bf"}

        def kind(dtype: DType) -> str:
            stem = dtype.numpy.name.rstrip("0123456789")
            return "bool" if dtype is BOOL else short[stem] + dtype.numpy.name[len(stem) :]

        params: dict[str, table.ParamValue] = {"n": x.size, "from": kind(DType.from_numpy(x.dtype)), "to": kind(to)}
        assert params["to"] in kinds
        return launch("cast", params, [x], to, x.shape, self.isa)

    def unary(self, op: str, a: int, first: Number = 0, second: Number = 0) -> int:
        x = self.values[a]
        is_float = x.dtype.kind == "f" or op == "Shrink"
        first, second = (float(np.float32(v)) if is_float else v for v in (first, second))
        params: dict[str, table.ParamValue] = {"n": x.size, "op": op}
        params |= {"alpha": first, "beta": second} if is_float else {"low": first, "high": second}
        result = launch("unary", params, [x], DType.from_numpy(x.dtype), x.shape, self.isa)
        return self._append(self.program.unary(op, a, first, second), result, a)

    def binary(self, op: str, a: int | None, b: int | None, immediate: Number = 0) -> int:
        like = self.values[a if a is not None else b or 0]
        x, z = (self._full(like, immediate) if i is None else self.values[i] for i in (a, b))
        n = like.size
        params: dict[str, table.ParamValue] = {"rank": 1, "dims": [n], "a_strides": [1], "b_strides": [1]}
        register = self.program.binary(op, a, b, immediate)
        dtype = self.program.types[register]
        if op == "Pow":
            kind = like.dtype.name.replace("float", "f").replace("int", "i")
            result = launch("pow", params | {"base": kind, "exponent": kind}, [x, z], dtype, like.shape, self.isa)
        else:
            result = launch("binary", params | {"op": op}, [x, z], dtype, like.shape, self.isa)
        return self._append(register, result, a, b)

    @staticmethod
    def _full(like: Array, number: Number) -> Array:
        return np.full_like(like, np.float32(number) if like.dtype.kind == "f" else number)

    def reduce(self, kind: str, a: int) -> int:
        x = self.values[a]
        rows, cols = math.prod(self.dims[:-1]), self.dims[-1]
        params: dict[str, table.ParamValue] = {
            "kind": kind,
            "kept": [rows, 1, 1, 1],
            "kept_stride": [cols, 0, 0, 0],
            "reduced": [1, 1, 1, cols],
            "reduced_stride": [0, 0, 0, 1],
            "inner": 1,
        }
        result = launch("reduce", params, [x], DType.from_numpy(x.dtype), (*self.dims[:-1], 1), self.isa)
        whole = np.ascontiguousarray(np.broadcast_to(result, self.dims))
        return self._append(self.program.reduce(kind, a), whole)

    def const(self, dtype: DType, number: Number) -> int:
        result = np.full(self.dims, number, np.float32 if dtype.is_float else dtype.numpy).astype(dtype.numpy)
        return self._append(self.program.const(dtype, number), result)

    def cast(self, a: int, dtype: DType) -> int:
        result = self._cast(self.values[a], dtype)
        return self._append(self.program.cast(a, dtype), self._cast(result, F32) if dtype in HALVES else result, a)

    def select(self, condition: int, a: int, b: int) -> int:
        result = np.where(self.values[condition], self.values[a], self.values[b])
        return self._append(self.program.select(condition, a, b), result, condition, a, b)

    def classify(self, op: int, a: int, which: int = 0) -> int:
        x = self.values[a]
        expected = [np.isnan(x), np.isneginf(x), np.isposinf(x), np.isinf(x)][which if op == gk.IS_INF else 0]
        return self._append(self.program.classify(op, a, which), np.asarray(expected), a)

    def check(
        self,
        src: Sequence[Array],
        results: Sequence[tuple[int, DType]],
        threads: int = 1,
        columns: Sequence[bool] | None = None,
    ) -> None:
        """Assert that the program writes the same bits; results marked in `columns` have one element per row."""
        expected_results = [self._cast(self.values[r], t) if t in HALVES else self.values[r] for r, t in results]
        shapes = [(*self.dims[:-1], 1) if column else self.dims for column in columns or [False] * len(results)]
        described = [(r, t, shape) for (r, t), shape in zip(results, shapes, strict=True)]
        outputs = run(self.program, self.dims, src, described, isa=self.isa, threads=threads)
        for ours, expected, shape in zip(outputs, expected_results, shapes, strict=True):
            assert_same(ours, expected if shape == self.dims else expected[..., :1])


def assert_same(ours: Array, expected: Array) -> None:
    """Assert equality bit for bit, except that all NaN are equal."""
    if ours.dtype.kind not in "iub":  # bfloat16 is of kind V
        ours, expected = ours.astype(np.float64), expected.astype(np.float64)
        np.testing.assert_array_equal(np.signbit(ours) & ~np.isnan(ours), np.signbit(expected) & ~np.isnan(expected))
    np.testing.assert_array_equal(ours, expected)


def values(rng: np.random.Generator, dtype: DType, shape: Sequence[int]) -> Array:
    """Normally distributed numbers; floats include special values."""
    if dtype is BOOL:
        return rng.integers(0, 2, shape).astype(bool)
    x = np.asarray(rng.normal(0, 4, shape))
    if dtype.is_float and x.size > 3:
        flat = x.reshape(-1)
        flat[rng.integers(0, flat.size, flat.size // 4)] = rng.choice(SPECIAL, flat.size // 4)
    with np.errstate(all="ignore"):
        return np.nan_to_num(x).astype(dtype.numpy) if not dtype.is_float else x.astype(dtype.numpy)


FLOAT_UNARY = [op for op in gk.UNARY_OPS if op not in ("Not", "BitwiseNot")]
INT_UNARY = ["Relu", "Clip", "Abs", "Neg", "Sign", "Shrink", "BitwiseNot"]
FLOAT_BINARY = list(gk.BINARY_OPS[: gk.BINARY_OPS.index("And")])
INT_BINARY = [op for op in gk.BINARY_OPS if op not in ("Div", "Mod", "FMod", "And", "Or", "Xor")]
BOOL_BINARY = ["And", "Or", "Xor", "Equal"]
FLOAT_REDUCED = [kind for kind in gk.REDUCE_KINDS if kind != "prod"]  # a product overflows at a different element
REDUCED = {F32: FLOAT_REDUCED, F64: FLOAT_REDUCED, I64: ["sum", "max", "min"], U8: ["max"]}
NUMBERS = {F32: 0.75, F64: 0.75, I32: 3, I64: 3, U8: 3, BOOL: 1}


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("cols", [1, 15, 1029])
def test_every_op(isa: str, cols: int) -> None:
    """Each op on each dtype by itself, also with an immediate on either side; odd sizes and tails."""
    rng = np.random.default_rng(3)
    for dtype, unary, binary in (
        (F32, FLOAT_UNARY, FLOAT_BINARY),
        (F64, FLOAT_UNARY, FLOAT_BINARY),
        (I32, INT_UNARY, INT_BINARY),
        (I64, INT_UNARY, INT_BINARY),
        (U8, INT_UNARY, INT_BINARY),
        (BOOL, ["Not"], BOOL_BINARY),
    ):
        src = [values(rng, dtype, (3, cols)), values(rng, dtype, (3, cols))]
        k = NUMBERS[dtype]
        for op in unary:
            if op in ("Acos", "Asin", "Atanh", "Acosh", "Log", "Sqrt") and dtype is F64:
                continue  # out of the domain: the sign of NaN depends on the C library
            steps = Stepwise((3, cols), src, isa)
            steps.check(src, [(steps.unary(op, 0, k, 2 * k), dtype)])
        for op in binary + (["Pow"] if dtype.is_float else []):
            for operands in ((0, 1), (0, None), (None, 0)):
                steps = Stepwise((3, cols), src, isa)
                register = steps.binary(op, *operands, k)
                steps.check(src, [(register, steps.program.types[register])])


@pytest.mark.parametrize("isa", ISAS)
def test_every_cast(isa: str) -> None:
    rng = np.random.default_rng(4)
    types = [F32, F64, I32, I64, U8, BOOL, DType.INT8, DType.INT16, DType.UINT16, DType.UINT32, DType.UINT64, *HALVES]
    for source in types:
        src = [values(rng, source, (2, 37))]
        for target in types:
            steps = Stepwise((2, 37), src, isa)
            steps.check(src, [(steps.cast(0, target), target)])


def add_random_op(steps: Stepwise, rng: np.random.Generator) -> None:
    """Append a random instruction on existing registers."""
    types = steps.program.types
    a = int(rng.integers(len(types)))
    like = [i for i, t in enumerate(types) if t is types[a]]
    b = int(rng.choice(like))
    is_float = types[a].is_float
    k = NUMBERS.get(types[a], 1)
    kind = rng.integers(8 if 1 <= steps.dims[-1] <= 4096 and math.prod(steps.dims) else 6)
    flags = [i for i, t in enumerate(types) if t is BOOL]
    if kind == 0 and flags:
        steps.select(int(rng.choice(flags)), a, b)
    elif kind == 1:
        steps.cast(a, [F32, I32, I64, BOOL, F64, U8, *HALVES][rng.integers(8)])
    elif kind == 2:
        op = rng.choice(FLOAT_UNARY if is_float else ["Not"] if types[a] is BOOL else INT_UNARY)
        steps.unary(str(op), a, k, 2 * k)
    elif kind == 3 and is_float:
        steps.classify(*((gk.IS_NAN, a) if rng.integers(2) else (gk.IS_INF, a, int(rng.integers(1, 4)))))
    elif kind > 5 and types[a] in REDUCED and steps.varies[a]:
        steps.reduce(str(rng.choice(REDUCED[types[a]])), a)
    elif kind == 4 and types[a] in NUMBERS:
        steps.const(types[a], k)
    else:
        op = str(rng.choice(FLOAT_BINARY if is_float else BOOL_BINARY if types[a] is BOOL else INT_BINARY))
        how = rng.integers(4)
        steps.binary(op, None if how == 0 else a, None if how == 1 else b, k)


def add_random_link(steps: Stepwise, rng: np.random.Generator) -> None:
    """Append a random float32 instruction, of all elements or of a row; most continue a chain."""
    floats = [register for register, dtype in enumerate(steps.program.types) if dtype is F32]
    a, b = (int(register) for register in rng.choice(floats, 2))
    kind = rng.integers(10)
    if kind < 2 and steps.varies[a]:
        steps.reduce(str(rng.choice(["mean", "max", "min"])), a)
    elif kind < 4:
        steps.select(steps.binary("Greater", a, b), a, b)
    elif kind < 6:
        steps.unary(str(rng.choice(["Abs", "Neg", "Sigmoid", "Tanh"])), a)
    else:
        steps.binary(str(rng.choice(["Add", "Sub", "Max", "Min"])), a, b)


def random_dims(rng: np.random.Generator, max_elements: int = 20000) -> list[int]:
    dims = [int(rng.choice([0, 1, 1, 2, 3, 5, 7, 17, 40, 511, 1025, 2050])) for _ in range(rng.integers(1, 6))]
    while math.prod(max(size, 1) for size in dims) > max_elements:  # a source may lack an empty dim
        dims[int(rng.integers(len(dims)))] = int(rng.integers(1, 5))
    return dims


@pytest.mark.parametrize("isa", ISAS)
@settings(max_examples=trials(60), deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_random_programs(isa: str, seed: int) -> None:
    """Random ops, dtypes and broadcasts with several results agree bit for bit, for any number of threads."""
    rng = np.random.default_rng(seed)
    dims = random_dims(rng)
    src = []
    for _ in range(rng.integers(1, 6)):
        shape = [size if rng.integers(3) else 1 for size in dims] if rng.integers(3) else dims
        dtype = [F32, F32, F32, F64, I32, I64, U8, BOOL, *HALVES][rng.integers(10)]
        src.append(values(rng, dtype, shape))
    steps = Stepwise(dims, src, isa)
    length = rng.integers(0, gk_limit() - 1)
    while len(steps.program.code) < length:
        add_random_op(steps, rng)
    types = steps.program.types
    results = []
    for _ in range(rng.integers(1, 5)):
        register = int(rng.integers(len(types)))
        halves = types[register] is F32 and not rng.integers(4)
        results.append((register, HALVES[int(rng.integers(2))] if halves else types[register]))
    reduces = 1 <= steps.dims[-1] <= 4096
    columns = [reduces and not steps.varies[register] and bool(rng.integers(2)) for register, _ in results]
    steps.check(src, results, threads=int(rng.integers(1, 3)), columns=columns)


@pytest.mark.parametrize("isa", ISAS)
@settings(max_examples=trials(60), deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_random_chains(isa: str, seed: int) -> None:
    """Chains over scalars, columns and whole tensors, in short rows and in long ones."""
    rng = np.random.default_rng(seed)
    dims = [int(rng.choice([1, 2, 5])), int(rng.choice([70, 300, 512, 513, 1025, 4096]))]
    shapes = [dims, [1, 1], [dims[0], 1], [1, dims[1]]]
    src = [rng.normal(0, 2, shape).astype(np.float32) for shape in shapes[: rng.integers(2, 5)]]
    steps = Stepwise(dims, src, isa)
    while len(steps.program.code) < gk_limit() - 4:
        add_random_link(steps, rng)
    results = (int(register) for register in rng.choice(np.flatnonzero(steps.varies), rng.integers(2, 5)))
    steps.check(src, [(r, steps.program.types[r]) for r in results], threads=int(rng.integers(1, 3)))


def gk_limit() -> int:
    """The maximum number of words in a program."""
    return next(f.count for f in table.families()["graph_kernel"] if f.name == "code")


def test_the_compiler_and_the_kernel_agree_on_the_longest_program() -> None:
    assert gk_limit() == MAX_WORDS


@pytest.mark.parametrize("isa", ISAS)
@settings(max_examples=trials(40), deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_reductions_within_a_row(isa: str, seed: int) -> None:
    """Reduced values are broadcast back over the row, written as a column, or both."""
    rng = np.random.default_rng(seed)
    dims = [int(rng.integers(1, 4)), int(rng.integers(1, 6)), int(rng.choice([1, 3, 16, 37, 1000, 2500]))]
    src = [values(rng, F32, dims), values(rng, F32, (dims[-1],)), values(rng, F32, (dims[0], 1, 1))]
    steps = Stepwise(dims, src, isa)
    kinds = ["sum", "mean", "max", "min", "l2", "sum_square"]
    top = steps.reduce(str(rng.choice(kinds)), 0)
    shifted = steps.binary("Sub", 0, top)
    scaled = steps.binary("Mul", shifted, 1)
    raised = steps.unary("Sigmoid", steps.binary("Add", scaled, 2))
    total = steps.reduce(str(rng.choice(kinds)), raised)
    shares = steps.binary("Div", raised, total)
    column = (*dims[:-1], 1)
    ours = run(
        steps.program, dims, src, [(shares, F32, dims), (total, F32, column), (total, F32, dims)], isa=isa, threads=2
    )
    assert_same(ours[0], steps.values[shares])
    assert_same(ours[1], steps.values[total][..., :1])
    assert_same(ours[2], steps.values[total])


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dims", [(5, 40), (9, 512), (3, 513), (2, 3, 768), (2, 4096)])
@pytest.mark.parametrize("kind", ["computed", "widened", "reduced", "reduced twice"])
def test_a_chain_with_a_broadcast_operand(isa: str, dims: tuple[int, ...], kind: str) -> None:
    """A chain rereads the operand for each block of elements, so that its results must not overwrite it."""
    rng = np.random.default_rng(8)
    x = rng.normal(0, 4, dims).astype(np.float32)
    src = [x, np.full((1,) * len(dims), 3, np.float16 if kind == "widened" else np.float32)]
    steps = Stepwise(dims, src, isa)
    one = steps.unary("Abs", 1) if kind == "computed" else 1 if kind == "widened" else steps.reduce("mean", 0)
    apart = steps.binary("Add", 0, one)
    negated = steps.unary("Neg", apart)
    if kind == "reduced twice":
        register = steps.reduce("mean", steps.unary("Pow", negated, 2))
    else:
        register = steps.select(steps.binary("Greater", negated, 0), apart, negated)
    steps.check(src, [(register, F32)], threads=2)
    steps.check(src, [(apart, F32), (register, F32)])


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dims", [(1,), (7,), (5, 3), (3, 1100), (2, 3, 700), (40, 30)])
def test_in_place(isa: str, dims: tuple[int, ...]) -> None:
    """Destination 0 shares memory with source 0, which the last op or an earlier one reads, or which is the result."""
    rng = np.random.default_rng(6)
    x, z = values(rng, F32, dims), values(rng, F32, dims[-1:])
    for end in range(3):
        steps = Stepwise(dims, [x, z], isa)
        r = steps.binary("Mul", 0, 1)
        r = steps.unary("Tanh", r)
        last = steps.binary("Add", r, 0) if end == 0 else steps.binary("Add", 0, 0) if end == 1 else 0
        outputs = run_over_source(steps, [x, z], [(last, dims), (r, dims), (0, dims)], isa)
        for ours, register in zip(outputs, (last, r, 0), strict=True):
            assert_same(ours, steps.values[register])


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dims", [(1, 7), (5, 3), (3, 1100), (2, 3, 700), (40, 30)])
def test_a_column_in_place(isa: str, dims: tuple[int, ...]) -> None:
    """Destination 0 and source 0 share memory and have one element per row."""
    rng = np.random.default_rng(7)
    column = (*dims[:-1], 1)
    c, x = values(rng, F32, column), values(rng, F32, dims)
    for end in range(3):
        steps = Stepwise(dims, [c, x], isa)
        scaled = steps.binary("Mul", 1, 0)
        top = steps.reduce("max", scaled)
        last = steps.binary("Add", top, 0) if end == 0 else steps.unary("Neg", top) if end == 1 else 0
        shifted = steps.binary("Sub", scaled, 0)
        outputs = run_over_source(steps, [c, x], [(last, column), (shifted, dims)], isa)
        assert_same(outputs[0], steps.values[last][..., :1])
        assert_same(outputs[1], steps.values[shifted])


def run_over_source(
    steps: Stepwise, src: Sequence[Array], results: Sequence[tuple[int, Sequence[int]]], isa: str
) -> list[Array]:
    """Run a float32 program whose destination 0 shares memory with source 0 in the arena.

    A task before it writes the source there, and a task after it copies the result out.
    """
    first, others = src[0], src[1:]
    outputs = [np.empty(shape, np.float32) for _, shape in results]

    def slot(region: Region, array: Array, index: int) -> Slot:
        return Slot(region, 0, array.nbytes, TensorDesc.plain(F32, array.shape), index)

    shared = slot(Region.ARENA, first, 0)
    slots = [shared, *(slot(Region.INPUT, a, i + 1) for i, a in enumerate(others))]
    slots += [shared, *(slot(Region.OUTPUT, a, i + 1) for i, a in enumerate(outputs[1:]))]
    negate = table.pack_params("unary", {"n": first.size, "op": "Neg"})
    tasks = [
        table.pack_task("unary", [slot(Region.INPUT, first, 0)], [shared], negate),
        record(steps.program, steps.dims, src, [(r, a) for (r, _), a in zip(results, outputs, strict=True)], slots),
        table.pack_task("unary", [shared], [slot(Region.OUTPUT, outputs[0], 0)], negate),
    ]
    feeds = [-first, *others]
    plan = _kernels.Plan(
        b"".join(tasks), None, first.nbytes, [a.nbytes for a in feeds], [a.nbytes for a in outputs], 1, isa
    )
    plan.start([a.reshape(-1).view(np.uint8) for a in feeds], [a.reshape(-1).view(np.uint8) for a in outputs]).execute(
        0, 3
    )
    return [-outputs[0], *outputs[1:]]


def simple() -> tuple[Program, list[Array], list[tuple[int, Array]]]:
    """y = relu(a + b) over 3 × 5, b a row."""
    program = Program([F32, F32])
    r = program.unary("Relu", program.binary("Add", 0, 1))
    return program, [np.zeros((3, 5), np.float32), np.zeros((1, 5), np.float32)], [(r, np.zeros((3, 5), np.float32))]


def load(task: bytes) -> None:
    _, written = read_slots(task)
    outputs = [nbytes for region, _, _, nbytes in written if region is Region.OUTPUT]
    _kernels.Plan(task, None, 1 << 16, [1 << 16] * 4, outputs, 1)


def test_the_simple_program_is_accepted() -> None:
    program, src, dst = simple()
    load(record(program, (3, 5), src, dst))


def changed(code: dict[int, int]) -> list[int]:
    program, _, _ = simple()
    words = list(program.code)
    for at, value in code.items():
        words[at:] = [value] if at >= len(words) else [value, *words[at + 1 :]]
    return words


ADD, RELU, CLIP = gk.BINARY + gk.BINARY_OPS.index("Add"), gk.UNARY_OPS.index("Relu"), gk.UNARY_OPS.index("Clip")
HOSTILE: dict[str, dict[str, table.ParamValue]] = {
    "a register that nothing wrote": {"code": changed({1: word(RELU, 3, 4)})},
    "an operand beyond the registers": {"code": changed({1: word(RELU, 3, 64)})},
    "an immediate of a unary op": {"code": changed({1: word(RELU, 3, 255)})},
    "two immediates": {"code": changed({0: word(ADD, 2, 255, 255)})},
    "a source is written": {"code": changed({1: word(RELU, 1, 2)})},
    "a register beyond the last": {"code": changed({1: word(RELU, 64, 2)}), "results": 64},
    "no such unary op": {"code": changed({1: word(63, 3, 2)})},
    "no such binary op": {"code": changed({0: word(127, 2, 0, 1)})},
    "no such reduction": {"code": changed({1: word(191, 3, 2)})},
    "no such op": {"code": changed({1: word(255, 3, 2)})},
    "Not of a float": {"code": changed({1: word(gk.UNARY_OPS.index("Not"), 3, 2)})},
    "And of floats": {"code": changed({0: word(gk.BINARY + gk.BINARY_OPS.index("And"), 2, 0, 1)})},
    "a cast to no type": {"code": changed({1: word(gk.CAST, 3, 2, 0, 27)})},
    "a cast to float8": {"code": changed({1: word(gk.CAST, 3, 2, 0, DType.FLOAT8E5M2.onnx)})},
    "a constant of float16": {"code": changed({1: word(gk.CONST, 3, DType.FLOAT16.onnx)})},
    "a condition that is a float": {"code": changed({1: word(gk.SELECT, 3, 2, 0, 0)})},
    "a select of a register below 0": {"code": changed({1: word(gk.SELECT, 3, 2, 0, -1)})},
    "infinities of no sign": {"code": changed({1: word(gk.IS_INF, 3, 2)})},
    "a word of data is missing": {"code": changed({1: word(CLIP, 3, 2)})},
    "a word of data is more": {"code": changed({1: word(CLIP, 3, 2), 2: 5}), "n_code": 3},
    "code beyond the last": {"n_code": 1, "results": 2},
    "too much code": {"n_code": 28},
    "less than no code": {"n_code": -1},
    "a result that nothing wrote": {"results": 9},
    "a result beyond the registers": {"results": 200},
    "a result that has no destination": {"results": 3 | 2 << 8},
    "more masks than operands": {"masks": 1 << 15},
    "masks below 0": {"masks": -1},
    "a destination is broadcast": {"masks": 8 << 5 | 8 << 10},
    "a column of what varies": {"masks": 8 << 5 | 16 << 10},
    "types below 0": {"types": -1},
    "another type": {"types": DType.FLOAT64.onnx | 1 << 5 | 1 << 10},
    "a type without registers": {"types": DType.COMPLEX64.onnx | 1 << 5 | 1 << 10},
    "fewer sources than stated": {"n_src": 3},
    "more sources than stated": {"n_src": 1},
    "no destination": {"n_dst": 0},
    "a dim below 0": {"dims": [1, 1, 1, -3, 5]},
    "dims that overflow": {"dims": [1 << 46, 1 << 46, 1 << 46, 1 << 46, 1 << 46]},
    "larger than memory": {"dims": [1, 1, 1, 4, 5]},
    "an infinity of neither sign": {"code": changed({1: word(gk.IS_INF, 3, 2, 0, 4)})},
    "a reduced row too long": {
        "code": changed({1: word(gk.REDUCE, 3, 2)}),
        "dims": [1, 1, 1, 1, MAX_ROW + 1],
        "masks": 0,
    },
    "a reduced row of nothing": {"code": changed({1: word(gk.REDUCE, 3, 2)}), "dims": [1, 1, 1, 3, 0]},
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_programs_are_refused(what: str) -> None:
    program, src, dst = simple()
    if "too long" in what:
        row = np.zeros(MAX_ROW + 1, np.float32)
        src, dst = [row, row], [(dst[0][0], row)]
    with pytest.raises(_kernels.Refused):
        load(record(program, (3, 5), src, dst, changes=HOSTILE[what]))


def test_ops_that_integers_do_not_have_are_refused() -> None:
    for op in ("classify", "Pow"):
        program, array = Program([DType.INT8]), np.zeros((3, 5), np.int8)
        register = program.classify(gk.IS_NAN, 0) if op == "classify" else program.binary(op, 0, 0)
        result = np.zeros((3, 5), program.types[register].numpy)
        with pytest.raises(_kernels.Refused, match=r"no (such op on|base of) this type"):
            load(record(program, (3, 5), [array], [(register, result)]))


@pytest.mark.parametrize("dtype", [DType.INT16, DType.UINT16])
def test_types_that_have_no_reduction_are_refused(dtype: DType) -> None:
    program, array = Program([dtype]), np.zeros((3, 5), dtype.numpy)
    with pytest.raises(_kernels.Refused, match="no such op on this type"):
        load(record(program, (3, 5), [array], [(program.reduce("max", 0), array[:, :1])]))


def test_a_reduction_of_one_element_is_refused() -> None:
    program, array = Program([F32]), np.zeros((3, 1), np.float32)
    with pytest.raises(_kernels.Refused, match="the same all along"):
        load(record(program, (3, 5), [array], [(program.reduce("max", 0), array)]))


@pytest.mark.parametrize("isa", ISAS)
def test_another_output_is_read(isa: str) -> None:
    """It does not lie where the result goes, though both are outputs."""
    x, outputs = np.arange(5, dtype=np.float32), [np.empty(5, np.float32) for _ in range(2)]
    desc = TensorDesc.plain(F32, x.shape)
    feed, *results = (
        Slot(region, 0, x.nbytes, desc, i) for region, i in ((Region.INPUT, 0), (Region.OUTPUT, 0), (Region.OUTPUT, 1))
    )
    negate = table.pack_task("unary", [feed], results[1:], table.pack_params("unary", {"n": 5, "op": "Neg"}))
    program = Program([F32])
    task = record(program, x.shape, [x], [(program.unary("Neg", 0), x)], [results[1], results[0]])
    plan = _kernels.Plan(negate + task, None, 0, [x.nbytes], [x.nbytes] * 2, 1, isa)
    plan.start([x], outputs).execute(0, 2)
    assert_same(outputs[0], x)
    assert_same(outputs[1], -x)


def test_more_sources_than_a_program_has_are_refused() -> None:
    array = np.zeros((3, 5), np.float32)
    for count in (8, 9):
        task = record(Program([F32] * count), (3, 5), [array] * count, [(0, array)])
        if count == 8:
            _kernels.Plan(task, None, 0, [array.nbytes] * count, [array.nbytes], 1)
        else:
            with pytest.raises(_kernels.Refused, match="number of operands"):
                _kernels.Plan(task, None, 0, [array.nbytes] * count, [array.nbytes], 1)


@pytest.mark.parametrize("isa", ISAS)
def test_a_source_of_another_type_is_overwritten(isa: str) -> None:
    """The result may be written at once where the source was: that lies elsewhere, widened."""
    program, x = Program([DType.FLOAT16]), np.arange(-3, 4, dtype=np.float16)
    result = program.cast(0, DType.INT16)
    slots = [Slot(Region.ARENA, 0, x.nbytes, TensorDesc.plain(t, x.shape)) for t in (DType.FLOAT16, DType.INT16)]
    task = record(program, x.shape, [x], [(result, x.astype(np.int16))], slots)
    params: dict[str, table.ParamValue] = {"rank": 1, "dims": [7], "src_strides": [1], "dst_strides": [1], "item": 2}
    copy = table.pack_params("strided_copy", params)
    desc = slots[0].desc
    before = table.pack_task("strided_copy", [Slot(Region.INPUT, 0, x.nbytes, desc)], slots[:1], copy)
    after = table.pack_task("strided_copy", slots[:1], [Slot(Region.OUTPUT, 0, x.nbytes, desc)], copy)
    y = np.empty(7, np.int16)
    plan = _kernels.Plan(before + task + after, None, 64, [x.nbytes], [y.nbytes], 1, isa)
    plan.start([x], [y]).execute(0, 3)
    assert y.tolist() == [-3, -2, -1, 0, 1, 2, 3]


@pytest.mark.parametrize(
    ("shape", "dtype", "problem"),
    [((1, 5), F32, "other steps"), ((3, 5), F64, "other steps"), ((3, 5), F32, "")],
)
def test_in_place_is_allowed_only_element_by_element(shape: tuple[int, ...], dtype: DType, problem: str) -> None:
    program = Program([dtype])
    r = program.cast(0, F32)
    src, dst = np.zeros(shape, dtype.numpy), np.zeros((3, 5), np.float32)
    slots = [Slot(Region.ARENA, 0, a.nbytes, TensorDesc.plain(t, a.shape), 0) for a, t in ((src, dtype), (dst, F32))]
    task = record(program, (3, 5), [src], [(r, dst)], slots)
    if problem:
        with pytest.raises(_kernels.Refused, match=problem):
            load(task)
    else:
        load(task)


def test_a_program_without_code_copies() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    outputs = run(Program([F32]), (2, 3), [x], [(0, F32, (2, 3)), (0, DType.FLOAT16, (2, 3))])
    assert_same(outputs[0], x)
    assert_same(outputs[1], x.astype(np.float16))
