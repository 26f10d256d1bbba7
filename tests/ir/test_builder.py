"""Builder: each method creates the nodes that it says, and no node where none is needed."""

from __future__ import annotations

from math import inf, nan

import numpy as np
import pytest

from atcpy.errors import ModelInvalid, Unsupported
from atcpy.ir import Builder, DType, Graph, Node, Rewriter, TensorDesc, Value
from atcpy.ir.builder import INT64_MAX
from atcpy.ir.shape import Shape, Sym
from atcpy.ir.symbolic import Tracer


def builder(**options: object) -> Builder:
    """A builder that appends to an empty graph."""
    return Builder(Graph("g"), name="n", **options)  # type: ignore[arg-type]


def value(b: Builder, dtype: DType = DType.FLOAT32, shape: Shape | None = None) -> Value:
    """An input of the builder's graph; its type is unknown for UNDEFINED."""
    x = b.graph.append("Data", outputs=("x",)).output
    x.desc = TensorDesc(dtype, shape) if shape is None else TensorDesc.plain(dtype, shape)
    return x


def reads(node: Node) -> list[object]:
    """What a node reads: the elements of constants, the names of other values, None for what is left out."""
    return [None if x is None else x.name if x.tensor is None else x.array.tolist() for x in node.inputs]


# --- nodes ----------------------------------------------------------------------------------------


def test_nodes_stand_before_the_anchor_in_the_order_of_creation() -> None:
    graph = Graph("g")
    x = graph.append("Data", outputs=("x",)).output
    anchor = graph.append("Relu", [x])
    b = Builder(graph, anchor, name="n", sources=("a", "b"), passes=("p",))
    y = b.op("Neg", b.op("Abs", x))
    assert [node.op_type for node in graph.nodes] == ["Data", "Abs", "Neg", "Relu"]
    assert [node.name for node in b.created] == ["n/Abs", "n/Neg"]
    assert (y.producer.sources, y.producer.passes) == (("a", "b"), ("p",))


def test_without_an_anchor_nodes_are_appended() -> None:
    b = builder()
    b.op("Neg", b.op("Abs", value(b)))
    assert [node.op_type for node in b.graph.nodes] == ["Data", "Abs", "Neg"]


def test_inputs_left_out_at_the_end_are_dropped() -> None:
    b = builder()
    x = value(b)
    assert b.op("Clip", x, None, x, None, None).producer.inputs == (x, None, x)


def test_an_op_of_another_domain_is_named_after_it() -> None:
    b = builder()
    node = b.op("com.microsoft::Gelu", value(b)).producer
    assert (node.domain, node.op_type, node.name) == ("com.microsoft", "Gelu", "n/Gelu")


def test_several_outputs_and_attributes() -> None:
    b = builder()
    parts = b.ops("Split", value(b), outputs=3, axis=1)
    assert [part.index for part in parts] == [0, 1, 2]
    assert parts[0].producer.attrs == {"axis": 1}


def test_types_are_inferred_as_nodes_are_created() -> None:
    seen: list[str] = []
    b = builder(infer=lambda node: seen.append(node.op_type))
    b.ops("Split", b.op("Abs", value(b)), outputs=2)
    assert seen == ["Abs", "Split"]


# --- constants ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("array", "dtype"),
    [(3, DType.INT64), ([], DType.INT64), (range(0), DType.INT64), (np.zeros(0, np.float32), DType.FLOAT32),
     (np.int32([1]), DType.INT32), (True, DType.BOOL)],
)  # fmt: skip
def test_a_constant_has_the_type_of_its_elements(array: object, dtype: DType) -> None:
    assert builder().const(array).desc.dtype is dtype  # type: ignore[arg-type]


def test_a_constant_takes_name_type_and_sources_of_another() -> None:
    b = builder(sources=("here",))
    w = b.const([1.5], DType.FLOAT16, name="w")
    w.producer.sources = ("there",)
    twin = b.const([2.5], like=w)
    assert (twin.name, twin.desc.dtype, twin.producer.sources) == ("w.1", DType.FLOAT16, ("there",))
    assert b.const([2.5], DType.FLOAT64, like=w).desc.dtype is DType.FLOAT64


def test_a_constant_without_a_name_is_called_after_its_label() -> None:
    b = builder(sources=("here",))
    constants = [b.const(1), b.const(1, label="axis"), b.const(1, name="own")]
    assert [item.name for item in constants] == ["n/const", "n/axis", "own"]
    assert constants[0].producer.sources == ("here",)
    assert [*b.created] == [item.producer for item in constants]


def test_nodes_of_a_body_stand_for_the_same_source() -> None:
    b = builder(sources=("here",))
    body = Graph("body", names=b.graph.names)
    end = body.append("NetOutput", outputs=())
    inner = b.inside(end).op("Abs", value(b)).producer
    assert [node.op_type for node in body.nodes] == ["Abs", "NetOutput"]
    assert (inner.name, inner.sources, [*b.created]) == ("n/Abs", ("here",), [inner])


_LIMITS = [
    (DType.INT8, -129, -128), (DType.INT8, 128, 127), (DType.UINT8, -1, 0), (DType.UINT8, 256, 255),
    (DType.INT64, 2**63, 2**63 - 1), (DType.UINT4, 16, 15), (DType.INT32, 0.5, 1.0), (DType.INT32, nan, 0),
    (DType.FLOAT16, 65505, 65504), (DType.FLOAT16, -65505, -65504), (DType.FLOAT32, 1e39, 1e38),
    (DType.BFLOAT16, 3.4e38, 3.38e38), (DType.FLOAT8E4M3FN, 449, 448),
]  # fmt: skip


@pytest.mark.parametrize(("dtype", "outside", "inside"), _LIMITS, ids=lambda item: str(getattr(item, "short", item)))
def test_a_number_must_fit_the_type(dtype: DType, outside: float, inside: float) -> None:
    b = builder()
    x = value(b, dtype)
    const = b.like(inside, x)
    assert (const.desc.dtype, const.desc.shape) == (dtype, ())
    assert float(const.array) == pytest.approx(inside, rel=2**-8)
    with pytest.raises(ModelInvalid, match=dtype.long):
        b.like(outside, x)


@pytest.mark.parametrize("number", [inf, -inf, nan])
def test_infinities_fit_floats_alone(number: float) -> None:
    assert DType.FLOAT16.can_hold(number)
    assert not DType.INT64.can_hold(number)
    assert not DType.STRING.can_hold(number)


def test_a_number_like_a_value_of_unknown_type_is_cast_when_the_model_runs() -> None:
    b = builder()
    x = value(b, DType.UNDEFINED)
    cast = b.like(0.5, x).producer
    assert (cast.op_type, reads(cast)) == ("CastLike", [0.5, "x"])


# --- types and shapes -----------------------------------------------------------------------------


def test_cast_creates_no_node_for_the_same_type() -> None:
    b = builder()
    x, unknown = value(b, DType.INT32), value(b, DType.UNDEFINED)
    assert b.cast(x, DType.INT32) is x
    assert b.cast(x, DType.INT64).producer.attrs == {"to": DType.INT64.onnx}
    assert b.cast(unknown, DType.INT64).producer.op_type == "Cast"


def test_cast_like_an_unknown_type() -> None:
    b = builder()
    x, other, unknown = value(b, DType.INT32), value(b, DType.FLOAT16), value(b, DType.UNDEFINED)
    assert b.cast_like(x, x) is x
    assert b.cast_like(x, other).producer.attrs == {"to": DType.FLOAT16.onnx}
    assert b.cast_like(x, unknown).producer.op_type == "CastLike"
    assert b.cast_like(unknown, x).producer.op_type == "Cast"


def test_reshape() -> None:
    b = builder()
    keeping, sizes = b.reshape(value(b), (0, -1)).producer, b.reshape(value(b), (0, 4), allowzero=True).producer
    assert (reads(keeping)[1], keeping.attrs) == ([0, -1], {})
    assert (reads(sizes)[1], sizes.attrs) == ([0, 4], {"allowzero": 1})
    scalar = value(b, DType.INT64, ())
    assert b.scalar(scalar) is scalar
    shape = b.scalar(value(b, DType.INT64, (1,))).producer.operand(1)
    assert (shape.desc.dtype, shape.array.tolist()) == (DType.INT64, [])


def test_squeeze_and_unsqueeze_take_negative_axes() -> None:
    b = builder()
    assert reads(b.squeeze(value(b), 0, -1).producer)[1] == [0, -1]
    assert reads(b.unsqueeze(value(b), -2).producer)[1] == [-2]


def test_transpose() -> None:
    b = builder()
    x = value(b)
    assert b.transpose(x, (0, 1, 2)) is x
    once = b.transpose(x, [1, 2, 0])
    assert once.producer.attrs == {"perm": (1, 2, 0)}
    assert b.transpose(once, (2, 0, 1)) is x
    twice = b.transpose(once, (1, 2, 0)).producer
    assert (twice.operand(0), twice.attrs) == (x, {"perm": (2, 0, 1)})
    reversed_ = b.op("Transpose", x)
    assert b.transpose(reversed_, (1, 0)).producer.operand(0) is reversed_


def test_slice_takes_numbers_and_values() -> None:
    b = builder()
    x, end = value(b), b.graph.append("Data", outputs=("end",)).output
    assert reads(b.slice(x, -2, end, -1).producer) == ["x", [-2], "end", [-1]]


@pytest.mark.parametrize(("axis", "size"), [(0, 7), (-1, 9), (-3, 7)])
def test_a_known_dim_is_a_constant(axis: int, size: int) -> None:
    b = builder()
    assert b.dim(value(b, shape=(7, Sym("n"), 9)), axis).array.tolist() == [size]


@pytest.mark.parametrize(("shape", "axis", "end"), [((7, Sym("n")), 1, 2), (None, 0, 1), (None, -1, INT64_MAX)])
def test_an_unknown_dim_is_read_when_the_model_runs(shape: Shape | None, axis: int, end: int) -> None:
    b = builder()
    node = b.dim(value(b, shape=shape), axis).producer
    assert (node.op_type, node.operand(0).producer.op_type, reads(node)[1:]) == ("Slice", "Shape", [[axis], [end], [0]])


# --- arithmetic -----------------------------------------------------------------------------------


def test_scale_by_one_creates_no_node() -> None:
    b = builder()
    x = value(b)
    assert b.scale(x, 1.0) is x
    assert reads(b.scale(x, 0.5).producer) == ["x", 0.5]


def test_sum_skips_what_is_left_out() -> None:
    b = builder()
    x, y = value(b), b.op("Neg", value(b))
    assert b.sum(x, None) is x
    assert b.sum(x, None, y).producer.operands == [x, y]


def test_zeros_and_iota() -> None:
    b = builder()
    zeros = b.zeros(value(b, DType.INT32), value(b, DType.FLOAT16)).producer
    assert (zeros.op_type, zeros.operand(0).desc.dtype, zeros.operand(1).producer.op_type) == (
        "Expand",
        DType.FLOAT16,
        "Cast",
    )
    count, start = value(b, DType.INT64, ()), value(b, DType.INT64, (1,))
    assert reads(b.iota(count).producer) == [0, count.name, 1]
    moved = b.iota(count, start).producer
    assert (moved.op_type, moved.operand(1)) == ("Add", start)


def test_symbolic_sizes_are_a_list_of_the_type_that_is_asked_for() -> None:
    b, size = builder(), Tracer().symbol("n", 1, 9, 5)
    for dtype in (None, DType.INT64, DType.INT32):
        sizes = b.const([size, 2], dtype)
        assert (sizes.producer.op_type, sizes.desc.dtype, sizes.desc.shape) == (
            "ShapeValue",
            dtype or DType.INT64,
            (2,),
        )
        assert sizes.producer.attrs["dtype"] == sizes.desc.dtype.name
    assert b.const([size], DType.FLOAT32).producer.op_type == "Cast"


# --- errors ---------------------------------------------------------------------------------------


def test_errors_name_the_node() -> None:
    b = builder()
    assert isinstance(b.invalid("axis = 9"), ModelInvalid)
    assert 'node "n"' in str(b.invalid("axis = 9"))
    assert isinstance(b.unsupported("axis = 9", "give another"), Unsupported)
    anchor = b.graph.append("Relu", [value(b)], name="r")
    assert 'node "r"' in str(Builder(b.graph, anchor, name="n").unsupported("axis = 9", "give another"))


# --- rewriter -------------------------------------------------------------------------------------


def test_a_rewrite_carries_sources_and_passes() -> None:
    graph = Graph("g")
    x = graph.append("Data", outputs=("x",)).output
    old = graph.append("Relu", [x], name="r", outputs=("y",))
    old.sources, old.passes = ("a", "b"), ("first",)
    end = graph.append("NetOutput", [old.output], outputs=())
    rw = Rewriter(graph, old, "second")
    new = rw.op("Clip", x, rw.const(0.0, label="low"), rw.const(6.0))
    rw.replace(old.output, new)
    assert (new.name, new.producer.name) == ("y", "r.1")
    assert (new.producer.sources, new.producer.passes) == (("a", "b"), ("first", "second"))
    constants = new.producer.operands[1:]
    assert [item.name for item in constants] == ["r_low", "r_const"]
    assert [(item.producer.sources, item.producer.passes) for item in constants] == [((), ("second",))] * 2
    assert end.operand(0) is new
