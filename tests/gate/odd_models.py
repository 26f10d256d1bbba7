"""Valid models that few programs expect, beside those of `tests/e2e`: they compute what the standard says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from atcpy import InferenceSession
from atcpy.om import writer
from atcpy.options import convert_options
from atcpy.stages.pipeline import compile_model
from tests.e2e import test_odd_models
from tests.ort import open_ort

Make = Callable[[], onnx.ModelProto]
HEAD = '<ir_version: 10, opset_import: ["" : 21]> g '
MAX_DIM = 3  # what an open dim is


@dataclass(frozen=True)
class Odd:
    """A model, and what it is fed where that must not be any number."""

    name: str
    make: Make
    feeds: Mapping[str, Any] = field(default_factory=dict)


def text(body: str, head: str = HEAD) -> Make:
    return lambda: onnx.parser.parse_model(head + body)


def cases() -> Iterator[Odd]:
    """All of them."""
    for name, make in test_odd_models.CASES.items():
        if name != "a dim of zero, reduced":  # which gets its axes in that test
            yield Odd(name, make)
    yield from own_cases()


def own_cases() -> Iterator[Odd]:
    """Those of this module."""
    for group, cases_of in (
        ("ports", _ports()), ("shapes", _shapes()), ("control flow", _control_flow()), ("functions", _functions()),
        ("constants", _constants()), ("versions", _versions()), ("structure", _structure()),
    ):  # fmt: skip
        for name, make in cases_of:
            yield Odd(f"{group}: {name}", make, _FEEDS.get(name, {}))


_FEEDS: dict[str, dict[str, Any]] = {
    "a Loop of no iterations": {"m": np.array(0)},
    "a Loop of a negative count": {"m": np.array(-5)},
    "a Loop of seven": {"m": np.array(7)},
    "a Loop whose condition is false": {"m": np.array(7), "c": np.array(False)},
    "a Loop of a count of one element": {"m": np.array([3])},
    "a Reshape by an input": {"s": np.array([3, -1])},
    "an Expand by an input": {"s": np.array([2, 3])},
    "a Range of nothing": {"a": np.array(5), "b": np.array(0), "c": np.array(1)},
    "a Range downwards": {"a": np.array(5), "b": np.array(0), "c": np.array(-2)},
}


def _ports() -> Iterator[tuple[str, Make]]:
    yield "an input that is an output", text("(float[2] x) => (float[2] x) { y = Relu(x) }")
    yield "an input that is an output, and no nodes", text("(float[2] x) => (float[2] x) { }")
    yield "an output twice", text("(float[2] x) => (float[2] y, float[2] y) { y = Relu(x) }")
    yield (
        "a constant as an output",
        text("(float[2] x) => (float[2] w, float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }"),
    )
    yield (
        "an unread constant as an output",
        text("(float[2] x) => (float[2] y, float[2] w) <float[2] w = {1, 2}> { y = Relu(x) }"),
    )
    yield "outputs without types", text("(float[2] x) => (y) { y = Relu(x) }")
    yield "an output of another shape than declared", text("(float[2] x) => (float[N] y) { y = Relu(x) }")
    yield "an unread input of text", text("(float[2] x) => (float[2] y) { y = Relu(x) }")
    yield (
        "unread inputs of each type",
        text(
            "(float[2] x, int64[2] a, bool b, double[0] c, uint8[1,1] d, float16[2] e) => (float[2] y) { y = Relu(x) }"
        ),
    )
    yield "a scalar of one element of rank 0, and of rank 3", text("(float x, float[1,1,1] z) => (y) { y = Add(x, z) }")
    yield "an input that is only shaped", text("(float[2,3] x) => (int64[2] y) { y = Shape(x) }")
    yield "an output in the middle", text("(float[2] x) => (float[2] a, float[2] y) { a = Relu(x) y = Neg(a) }")
    yield "outputs in reverse", text("(float[2] x) => (float[2] y, float[2] a) { a = Relu(x) y = Neg(a) }")
    yield "names like numbers", text("(float[2] x) => (float[2] y) { t1 = Relu(x) t2 = Neg(t1) y = Abs(t2) }")
    for name in ("ø", "日本", "a" * 5000, "  ", "x/y:z", "\u0000", "é\u0301"):
        yield f"a value named {name[:9]!r}", lambda n=name: _renamed(n)


def _renamed(name: str) -> onnx.ModelProto:
    model = text("(float[2] x) => (float[2] y) { a = Relu(x) y = Neg(a) }")()
    model.graph.node[0].output[0] = model.graph.node[1].input[0] = name
    return model


def _shapes() -> Iterator[tuple[str, Make]]:
    for op in (
        "Relu(x)",
        "Softmax(x)",
        "Transpose(x)",
        "Flatten(x)",
        "Identity(x)",
        "Add(x, x)",
        "Cast<to = 7>(x)",
        "Not(b)",
    ):
        yield f"{op} of nothing", text(f"(float[0,4] x, bool[0] b) => (y) {{ y = {op} }}")
    for op in ("ReduceSum", "ReduceProd", "ReduceL2", "ReduceSumSquare"):
        yield f"{op} of nothing", text(f"(float[2,0] x) => (y) {{ y = {op}<keepdims = 0>(x) }}")
    yield "MatMul over nothing", text("(float[2,0] x, float[0,3] z) => (y) { y = MatMul(x, z) }")
    yield "Gemm over nothing", text("(float[2,0] x, float[0,3] z) => (y) { y = Gemm(x, z) }")
    yield (
        "a Slice of nothing",
        text(
            "(float[4] x) => (y) { s = Constant<value_ints = [3]>() e = Constant<value_ints = [1]>() y = "
            "Slice(x, s, e) }"
        ),
    )
    yield (
        "a Concat of nothing and something",
        text("(float[0,2] x, float[3,2] z) => (y) { y = Concat<axis = 0>(x, z) }"),
    )
    yield "a Gather of nothing", text("(float[4,2] x) => (y) { i = Constant<value = int64[0] {}>() y = Gather(x, i) }")
    yield "a Reshape by an input", text("(float[2,3] x, int64[2] s) => (float[a,b] y) { y = Reshape(x, s) }")
    yield "an Expand by an input", text("(float[1,3] x, int64[2] s) => (float[a,b] y) { y = Expand(x, s) }")
    yield "a Range of nothing", text("(int64 a, int64 b, int64 c) => (int64[n] y) { y = Range(a, b, c) }")
    yield "a Range downwards", text("(int64 a, int64 b, int64 c) => (int64[n] y) { y = Range(a, b, c) }")
    yield (
        "an Unsqueeze behind the last dim",
        text("(float[2] x) => (y) { a = Constant<value_ints = [-1]>() y = Unsqueeze(x, a) }"),
    )
    yield "a Squeeze of all dims", text("(float[1,1,1] x) => (y) { y = Squeeze(x) }")
    yield "a Softmax of a scalar's neighbour", text("(float[1] x) => (y) { y = Softmax(x) }")
    yield "open dims of one name", text("(float[N] x, float[N] z) => (float[N] y) { y = Add(x, z) }")
    yield "open dims without names", text("(float[?,2] x) => (y) { y = Relu(x) }")
    yield "rank 20", text(f"(float[{','.join(['1'] * 19)},2] x) => (y) {{ y = Neg(x) }}")
    yield "a Pad by nothing", text("(float[2] x) => (y) { p = Constant<value_ints = [0, 0]>() y = Pad(x, p) }")
    yield "a negative Pad", text("(float[5] x) => (y) { p = Constant<value_ints = [-1, -2]>() y = Pad(x, p) }")
    yield "a Tile of none", text("(float[2,3] x) => (y) { r = Constant<value_ints = [0, 2]>() y = Tile(x, r) }")
    yield "a TopK of none", text("(float[4] x) => (y, i) { k = Constant<value_ints = [0]>() y, i = TopK(x, k) }")
    yield (
        "a Split into parts of nothing",
        text("(float[4] x) => (a, b, c) { s = Constant<value_ints = [0, 4, 0]>() a, b, c = Split(x, s) }"),
    )
    yield "a NonZero of zeros", text("(float[3] x) => (y) { z = Sub(x, x) y = NonZero(z) }")


BODY = "b (int64 i, bool ci, float[2] v) => (bool co, float[2] vo) { co = Identity(ci) vo = Add(v, x) }"


def _control_flow() -> Iterator[tuple[str, Make]]:
    for depth in (5, 30):
        yield f"If in If, {depth} deep", lambda d=depth: _nested_if(d)
    for name in ("a Loop of no iterations", "a Loop of a negative count", "a Loop of seven"):
        yield name, text(f"(float[2] x, int64 m) => (float[2] y) {{ y = Loop(m, , x)<body = {BODY}> }}")
    yield (
        "a Loop whose condition is false",
        text(f"(float[2] x, int64 m, bool c) => (float[2] y) {{ y = Loop(m, c, x)<body = {BODY}> }}"),
    )
    yield (
        "a Loop of a count of one element",
        text(f"(float[2] x, int64[1] m) => (float[2] y) {{ y = Loop(m, , x)<body = {BODY}> }}"),
    )
    yield (
        "a Loop without a count",
        text(
            "(float[2] x) => (float[2] y) { c = Constant<value = bool {1}>() y = Loop(, c, x)<body = "
            "b (int64 i, bool ci, float[2] v) => (bool co, float[2] vo) { k = Constant<value_int = 4>() "
            "co = Less(i, k) vo = Add(v, x) }> }"
        ),
    )
    yield (
        "a Loop that grows what it carries",
        text(
            "(float[2] x) => (float[n] y) { m = Constant<value_int = 3>() y = Loop(m, , x)<body = "
            "b (int64 i, bool ci, float[n] v) => (bool co, float[k] vo) { co = Identity(ci) vo = "
            "Concat<axis = 0>(v, x) }> }"
        ),
    )
    yield (
        "branches of other shapes",
        text(
            "(float[2] x, bool c) => (float[n] y) { y = If(c)<then_branch = t () => (float[2] a) { a = Relu(x) }, "
            "else_branch = e () => (float[4] b) { b = Concat<axis = 0>(x, x) }> }"
        ),
    )
    yield (
        "branches of constants",
        text(
            "(bool c) => (float[1] y) { y = If(c)<then_branch = t () => (float[1] a) { a = "
            "Constant<value_floats = [1.0]>() }, "
            "else_branch = e () => (float[1] b) { b = Constant<value_floats = [2.0]>() }> }"
        ),
    )
    yield (
        "branches that hand on",
        text(
            "(float[2] x, float[2] z, bool c) => (float[2] y) { y = If(c)<then_branch = t () => (float[2] "
            "a) { a = Identity(x) }, "
            "else_branch = e () => (float[2] b) { b = Identity(z) }> }"
        ),
    )
    yield (
        "branches whose values have one name",
        text(
            "(float[2] x, bool c) => (float[2] y) { y = If(c)<then_branch = t () => (float[2] a) { q = "
            "Relu(x) a = Neg(q) }, "
            "else_branch = e () => (float[2] a) { q = Abs(x) a = Neg(q) }> }"
        ),
    )
    yield (
        "a branch without a type",
        text(
            "(float[2] x, bool c) => (float[2] y) { y = If(c)<then_branch = t () => (a) { a = Relu(x) }, "
            "else_branch = e () => (b) { b = Neg(x) }> }"
        ),
    )
    yield (
        "an If of a constant",
        text(
            "(float[2] x) => (float[2] y) { c = Constant<value = bool {0}>() y = If(c)<then_branch = t () "
            "=> (a) { a = Relu(x) }, "
            "else_branch = e () => (b) { b = Neg(x) }> }"
        ),
    )
    yield (
        "a Scan backwards",
        text(
            "(float[2] s, float[4,2] x) => (float[2] y, float[4,2] z) { y, z = Scan(s, x)<body = "
            "b (float[2] v, float[2] r) => (float[2] vo, float[2] ro) { vo = Add(v, r) ro = Identity(vo) "
            "}, num_scan_inputs = 1, "
            "scan_input_directions = [1], scan_output_directions = [1]> }"
        ),
    )
    yield (
        "a Scan without states",
        text(
            "(float[4,2] x) => (float[4,2] z) { z = Scan(x)<body = b (float[2] r) => (float[2] ro) { ro = "
            "Neg(r) }, num_scan_inputs = 1> }"
        ),
    )
    yield (
        "sequences there and back",
        text(
            "(float[4,2] x) => (y) { n = Constant<value_int = 1>() s = SplitToSequence<axis = 0>(x, n) y "
            "= ConcatFromSequence<axis = 0>(s) }"
        ),
    )
    yield (
        "an optional there and back",
        text("(float[4] x) => (float[4] y) { o = Optional(x) y = OptionalGetElement(o) }"),
    )


def _nested_if(depth: int) -> onnx.ModelProto:
    inner = f"r{depth} = Relu(x)"
    for level in reversed(range(depth)):
        inner = (
            f"r{level} = If(c)<then_branch = t{level} () => (float[2] r{level + 1}) {{ {inner} }}, "
            f"else_branch = e{level} () => (float[2] s{level}) {{ s{level} = Neg(x) }}>"
        )
    return onnx.parser.parse_model(f"{HEAD}(float[2] x, bool c) => (float[2] r0) {{ {inner} }}")


def _functions() -> Iterator[tuple[str, Make]]:
    head = '<ir_version: 10, opset_import: ["" : 21, "own" : 1]> g '
    own = '<domain: "own", opset_import: ["" : 21, "own" : 1]> '
    one = f"{own} f (a) => (b) {{ b = Relu(a) }}"
    yield "a function", text(f"(float[2] x) => (float[2] y) {{ y = own.f(x) }} {one}", head)
    yield "a function called twice", text(f"(float[2] x) => (float[2] y) {{ a = own.f(x) y = own.f(a) }} {one}", head)
    yield (
        "a function of a function",
        text(
            f"(float[2] x) => (float[2] y) {{ y = own.h(x) }} {one} {own} h (a) => (b) {{ c = own.f(a) b = Neg(c) }}",
            head,
        ),
    )
    yield (
        "a function that hands on",
        text(f"(float[2] x) => (float[2] y) {{ y = own.f(x) }} {own} f (a) => (a) {{ }}", head),
    )
    yield "a function nobody calls", text(f"(float[2] x) => (float[2] y) {{ y = Neg(x) }} {one}", head)
    yield (
        "a function with an attribute",
        text(
            f"(float[2] x) => (float[2] y) {{ y = own.f<slope = 0.5>(x) }} {own} f <slope> (a) => (b) {{ b "
            f"= LeakyRelu<alpha: float = @slope>(a) }}",
            head,
        ),
    )
    yield (
        "a function of an older opset",
        text(
            f"(float[2] x) => (float[2] y) {{ y = own.f(x) }} {own.replace('21', '13')} f (a) => (b) {{ b = Neg(a) }}",
            head,
        ),
    )
    yield (
        "a function with a value like one outside",
        text(
            f"(float[2] x) => (float[2] y) {{ a = Neg(x) y = own.f(a) }} {own} f (x) => (y) {{ a = Relu(x) "
            f"y = Neg(a) }}",
            head,
        ),
    )


def _constants() -> Iterator[tuple[str, Make]]:
    numbers = {"float16": 10, "bfloat16": 16, "double": 11, "int8": 3, "uint16": 4, "int32": 6, "uint64": 13, "bool": 9}
    for name, number in numbers.items():
        yield f"{name} in its list", lambda n=number: _with_constant(helper.make_tensor("w", n, [2], [1, 0]))
        yield (
            f"{name} as raw data",
            lambda n=number: _with_constant(
                numpy_helper.from_array(np.array([1, 0], helper.tensor_dtype_to_np_dtype(n)), "w")
            ),
        )
    for number in (TensorProto.INT4, TensorProto.UINT4):
        yield f"packed {number}", lambda n=number: _with_constant(helper.make_tensor("w", n, [3], [1, 0, 1]), 3)
    yield "no elements", lambda: _with_constant(helper.make_tensor("w", 1, [0], []), 0)
    yield (
        "no elements as raw data",
        lambda: _with_constant(TensorProto(name="w", data_type=1, dims=[0], raw_data=b""), 0),
    )
    yield "a sparse constant", lambda: _with_sparse(2)
    yield "a sparse constant of nothing", lambda: _with_sparse(0)


def _with_constant(tensor: TensorProto, length: int = 2) -> onnx.ModelProto:
    model = text(f"(float[{length}] x) => (float[{length}] y) {{ c = Cast<to = 1>(w) y = Add(x, c) }}")
    parsed = model()
    parsed.graph.initializer.append(tensor)
    return parsed


def _with_sparse(count: int) -> onnx.ModelProto:
    model = text("(float[4] x) => (float[4] y) { y = Add(x, w) }")()
    model.graph.sparse_initializer.append(
        onnx.SparseTensorProto(
            values=helper.make_tensor("w", 1, [count], [1.5] * count),
            indices=helper.make_tensor("i", 7, [count], [*range(count)]),
            dims=[4],
        )
    )
    return model


def _versions() -> Iterator[tuple[str, Make]]:
    for version in (3, 4, 7, 8, 9, 10):
        yield f"IR {version}", lambda v=version: _of_version(v, 17 if v > 7 else 9)
    for opset in (7, 8, 9, 10, 11, 12, 13, 15, 18, 20, 22):
        yield f"opset {opset}", lambda o=opset: _of_version(10, o)
    yield (
        "an opset of a domain nobody uses",
        text(
            "(float[2] x) => (float[2] y) { y = Relu(x) }",
            '<ir_version: 10, opset_import: ["" : 21, "nobody" : 99]> g ',
        ),
    )
    yield (
        "the opset by its other name",
        text("(float[2] x) => (float[2] y) { y = Relu(x) }", '<ir_version: 10, opset_import: ["ai.onnx" : 21]> g '),
    )
    yield (
        "ops of two domains",
        text(
            "(float[2,2] x) => (y) { y = ai.onnx.ml.Binarizer<threshold = 0.0>(x) }",
            '<ir_version: 10, opset_import: ["" : 21, "ai.onnx.ml" : 3]> g ',
        ),
    )


def _of_version(ir: int, opset: int) -> onnx.ModelProto:
    head = f'<ir_version: {ir}, opset_import: ["" : {opset}]> g '
    return onnx.parser.parse_model(
        head + "(float[2,3] x) => (float[2,3] y) { a = Relu(x) b = Transpose(a) c = Transpose(b) y = Sub(c, x) }"
    )


def _structure() -> Iterator[tuple[str, Make]]:
    yield "a chain of 500", lambda: test_odd_models.chain(500)
    yield "a ladder of 60 diamonds", lambda: _ladder(60)
    yield "one value read 400 times", text(f"(float[2] x) => (float[2] y) {{ y = Sum({', '.join(['x'] * 400)}) }}")
    yield "a Sum of one", text("(float[2] x) => (float[2] y) { y = Sum(x) }")
    yield "a Max of one", text("(float[2] x) => (float[2] y) { y = Max(x) }")
    yield "results nobody reads", text("(float[4] x) => (float[2] a) { a, b = Split<num_outputs = 2>(x) }")
    yield "nodes of one name", lambda: _same_names()
    yield (
        "optional operands left out in the middle",
        text("(float[4] x) => (y) { m = Constant<value_float = 0.5>() y = Clip(x, , m) }"),
    )
    yield "optional operands left out at the end", text("(float[4] x) => (y) { y = Clip(x, , ) }")
    yield (
        "a Dropout of old",
        text("(float[4] x) => (y) { y, m = Dropout(x) }", '<ir_version: 8, opset_import: ["" : 12]> g '),
    )


def _ladder(steps: int) -> onnx.ModelProto:
    nodes = "".join(f"l{i} = Relu(v{i}) r{i} = Abs(v{i}) v{i + 1} = Max(l{i}, r{i}) " for i in range(steps))
    return onnx.parser.parse_model(f"{HEAD}(float[2] v0) => (float[2] v{steps}) {{ {nodes} }}")


def _same_names() -> onnx.ModelProto:
    model = text("(float[2] x) => (float[2] y) { a = Relu(x) y = Neg(a) }")()
    for node in model.graph.node:
        node.name = "n"
    return model


def fault_of(case: Odd) -> str:
    """What is wrong with a package of a valid model, or nothing."""
    try:
        return _difference(case)
    except Exception as error:  # noqa: BLE001 whichever it is, the model is valid
        return f"{type(error).__name__}: {error}"


def _difference(case: Odd) -> str:
    model = case.make()
    feeds = _feeds(model, case.feeds)
    expected = _expected(model, feeds)
    compiled, _ = compile_model(model, convert_options({}))
    results = InferenceSession(writer.to_bytes(compiled)).run(None, feeds)
    for mine, theirs in zip(results, expected, strict=True):
        if np.shape(mine) != np.shape(theirs):
            return f"{np.shape(mine)}, not {np.shape(theirs)}"
        if not np.allclose(np.asarray(mine, np.float64), np.asarray(theirs, np.float64), 1e-5, 1e-6, equal_nan=True):
            return "other elements"
    return ""


def _feeds(model: onnx.ModelProto, given: Mapping[str, Any]) -> dict[str, Any]:
    rng, feeds = np.random.default_rng(11), dict(given)
    constants = {tensor.name for tensor in model.graph.initializer}
    for info in model.graph.input:
        kind = info.type.tensor_type
        shape = [dim.dim_value if dim.HasField("dim_value") else MAX_DIM for dim in kind.shape.dim]
        if info.name not in feeds and info.name not in constants:
            feeds[info.name] = rng.uniform(-2, 2, shape).astype(helper.tensor_dtype_to_np_dtype(kind.elem_type))
    return feeds


def _expected(model: onnx.ModelProto, feeds: Mapping[str, Any]) -> list[Any]:
    """What ONNX Runtime computes, or the reference implementation where that does not read the model."""
    judged = onnx.ModelProto.FromString(model.SerializeToString())
    for node in judged.graph.node:
        node.ClearField("name")  # ONNX Runtime refuses two nodes of one name
    try:
        return list(open_ort(judged).run(None, dict(feeds)))
    except Exception:  # noqa: BLE001 its own kinds share no base
        results = ReferenceEvaluator(judged).run(None, dict(feeds))
        assert isinstance(results, list)
        return results
