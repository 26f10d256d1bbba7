"""TensorList and TensorArray become one tensor, in loops and outside."""

from pathlib import Path

import numpy as np
import pytest

from atcpy.errors import AtcError
from tests.parsers.tensorflow.graphs import TfBuilder, Type, shape_proto

F32 = {"element_dtype": Type("float32")}
X = np.arange(12, dtype=np.float32).reshape(4, 3) - 5


def test_lists_outside_of_loops(tmp_path: Path) -> None:
    g = TfBuilder()
    x, i = g.input("x", "float32", (4, 3)), g.input("i", "int32", ())
    shape, none = g.const([3], "int32"), g.const(-1, "int32")
    row = g.add("Mul", g.add("TensorListGetItem", g.add("TensorListFromTensor", x, shape, **F32), i, shape, **F32), x)
    taken = g.add("TensorListFromTensor", x, shape, **F32)
    g.add("TensorListGetItem", taken, i, none, name="item", **F32)
    reserved = g.add("TensorListReserve", none, g.const(4, "int32"), **F32)
    written = g.add("TensorListSetItem", reserved, i, "item", **F32)
    g.add("TensorListStack", written, none, name="written", **F32)
    grown = g.add("TensorListSetItem", taken, g.const(5, "int32"), "item", resize_if_index_out_of_bounds=True, **F32)
    g.add("TensorListStack", grown, none, name="grown", **F32)
    g.add("TensorListLength", grown, name="length")
    g.add("TensorListLength", reserved, name="reserved_length")
    g.add("TensorListElementShape", grown, name="element_shape", shape_type=Type("int64"))
    pushed = g.add("TensorListPushBack", g.add("EmptyTensorList", none, g.const(-1, "int32"), **F32), "item", **F32)
    pushed = g.add("TensorListPushBack", pushed, g.add("Neg", "item"), **F32)
    g.add("TensorListStack", pushed, none, name="pushed", **F32)
    popped = g.add("TensorListPopBack", pushed, none, name="popped", **F32)
    g.add("TensorListStack", popped, none, name="remaining", **F32)
    g.add("TensorListGather", taken, g.const([2, 0], "int32"), none, name="gathered", **F32)
    order = g.const([2, 0, 3, 1], "int32")
    for size in (-1, 6):
        scattered = g.add("TensorListScatterV2", x, order, none, g.const(size, "int32"), **F32)
        g.add("TensorListStack", scattered, none, name=f"scattered{size}".replace("-", "_"), **F32)
    into = g.add("TensorListScatterIntoExistingList", taken, g.add("Neg", x), order, **F32)
    g.add("TensorListStack", into, none, name="into", **F32)
    g.add("TensorListConcatV2", taken, none, g.const(np.zeros(0, np.int64)), name="joined", **F32)
    pieces = g.add("TensorListSplit", x, none, g.const([2, 2], "int64"), **F32)
    g.add("TensorListStack", pieces, none, name="split", **F32)
    for size in (2, 6):
        resized = g.add("TensorListResize", taken, g.const(size, "int32"))
        g.add("TensorListStack", resized, none, name=f"resized{size}", **F32)
    zeros = g.add("TensorListReserve", shape, g.const(2, "int32"), **F32)
    g.add("TensorListStack", zeros, none, name="zeros", **F32)
    g.add("TensorListStack", reserved, shape, name="reserved", **F32)
    padded = np.vstack([X, np.zeros((2, 3), np.float32)])
    back = np.empty_like(X)
    back[[2, 0, 3, 1]] = X
    written_rows, grown_rows = np.zeros_like(X), padded.copy()
    written_rows[1] = grown_rows[5] = X[1]
    expected = {
        "item": X[1], row: X[1] * X, "written": written_rows, "grown": grown_rows, "length": np.int32(6),
        "reserved_length": np.int32(4), "element_shape": np.array([3]), "pushed": np.stack([X[1], -X[1]]),
        "popped:1": -X[1], "remaining": X[1:2], "gathered": X[[2, 0]], "scattered_1": back,
        "scattered6": np.vstack([back, padded[4:]]), "into": -back, "split": X.reshape(2, 2, 3), "resized2": X[:2],
        "resized6": padded, "zeros": padded[4:], "reserved": np.zeros((4, 3), np.float32),
    }  # fmt: skip
    outs = g.run(tmp_path, {"x": X, "i": np.array(1, np.int32)}, *expected)
    for (name, value), out in zip(expected.items(), outs, strict=True):
        np.testing.assert_array_equal(out, value, err_msg=name)
        assert out.dtype == np.asarray(value).dtype, name


def test_lists_are_concatenated_and_split(tmp_path: Path) -> None:
    g = TfBuilder()
    x = g.input("x", "float32", (2, 2, None))
    none = g.const(-1, "int32")
    taken = g.add("TensorListFromTensor", x, none, **F32)
    g.add("TensorListConcatV2", taken, none, g.const(np.zeros(0, np.int64)), name="joined", **F32)
    handle = g.add("TensorArrayV3", g.const(2, "int32"), dtype=Type("float32"))
    flow = g.add("TensorArraySplitV3", handle, "joined", g.const([2, 2], "int64"), f"{handle}:1")
    g.add("TensorArrayConcatV3", handle, flow, name="again", dtype=Type("float32"))
    g.add("TensorArraySizeV3", handle, flow, name="size")
    outs = g.run(tmp_path, {"x": X.reshape(2, 2, 3)}, "joined:0", "joined:1", "again:0", "again:1", "size")
    for out, reference in zip(outs, (X, np.array([2, 2]), X, np.array([2, 2]), np.int32(2)), strict=True):
        np.testing.assert_array_equal(out, reference)


def running_sums(
    g: TfBuilder, shape: tuple[int | None, ...], declared: list[int] | int, *, pushes: bool = False
) -> str:
    """Add a loop that writes the running sums of x to a list, as tf.TensorArray does in a function."""
    x = g.input("x", "float32", shape)
    shaped = g.const(declared, "int32")
    source = g.add("TensorListFromTensor", x, shaped, **F32)
    size = g.add("TensorListLength", source)
    zero = g.const(0, "int32")
    if pushes:
        target = g.add("EmptyTensorList", shaped, g.const(-1, "int32"), **F32)
    else:
        target = g.add("TensorListReserve", shaped, size, **F32)
    types = {"i": "int32", "n": "int32", "s": "float32", "out": "variant", "in": "variant"}
    cond, body = TfBuilder(), TfBuilder()
    test = g.function("cond", cond, types, cond.add("Less", "i", "n"))
    item = body.add("TensorListGetItem", "in", "i", body.const(declared, "int32"), **F32)
    total = body.add("AddV2", "s", item)
    op, arguments = ("TensorListPushBack", ("out", total)) if pushes else ("TensorListSetItem", ("out", "i", total))
    updated = body.add(op, *arguments, **F32)
    one = body.const(1, "int32")
    body_function = g.function("body", body, types, body.add("AddV2", "i", one), "n", total, updated, "in")
    start = g.add("Mul", g.add("TensorListGetItem", source, zero, shaped, **F32), g.const(0.0, "float32"))
    loop = g.add("While", zero, size, start, target, source, cond=test, body=body_function)
    return g.add("TensorListStack", f"{loop}:3", shaped, **F32)


@pytest.mark.parametrize("declared", [[3], [-1], -1])
@pytest.mark.parametrize("pushes", [False, True])
def test_a_loop_fills_a_list(tmp_path: Path, declared: list[int] | int, pushes: bool) -> None:
    g = TfBuilder()
    (y,) = g.run(tmp_path, {"x": X}, running_sums(g, (4, 3), declared, pushes=pushes))
    np.testing.assert_array_equal(y, np.cumsum(X, 0))


def test_the_element_shape_is_unknown_before_the_first_write(tmp_path: Path) -> None:
    g = TfBuilder()
    x, n = g.input("x", "float32", (None, 3)), g.input("n", "int32", ())
    none, zero = g.const(-1, "int32"), g.const(0, "int32")
    target = g.add("TensorListReserve", none, n, **F32)
    types = {"i": "int32", "n": "int32", "x": "float32", "out": "variant"}
    cond, body = TfBuilder(), TfBuilder()
    test = g.function("cond", cond, types, cond.add("Less", "i", "n"))
    scaled = body.add("Mul", "x", body.add("Cast", "i", DstT=Type("float32")))
    updated = body.add("TensorListSetItem", "out", "i", scaled, **F32)
    body_function = g.function("body", body, types, body.add("AddV2", "i", body.const(1, "int32")), "n", "x", updated)
    loop = g.add("While", zero, n, x, target, cond=test, body=body_function)
    g.add("TensorListStack", f"{loop}:3", none, name="y", **F32)
    run = g.converted(tmp_path, "y")
    for rows, count in ((4, 3), (2, 1), (0, 2)):
        (y,) = run({"x": X[:rows], "n": np.array(count, np.int32)})
        np.testing.assert_array_equal(y, X[:rows] * np.arange(count, dtype=np.float32)[:, None, None])


@pytest.mark.parametrize(("size", "first", "limit"), [(4, 0, 4), (6, 0, 4), (4, 1, 4), (4, 0, 2)])
@pytest.mark.parametrize("read", [False, True])
def test_a_list_keeps_its_reserved_length(tmp_path: Path, size: int, first: int, limit: int, read: bool) -> None:
    g = TfBuilder()
    x, n = g.input("x", "float32", (4, 3)), g.input("n", "int32", ())
    shaped = g.const([3], "int32")
    target = g.add("TensorListReserve", shaped, n if size == limit else g.const(size, "int32"), **F32)
    types = {"i": "int32", "n": "int32", "out": "variant", "x": "float32"}
    cond, body = TfBuilder(), TfBuilder()
    test = g.function("cond", cond, types, cond.add("Less", "i", "n"))
    item = body.add("GatherV2", "x", "i", body.const(0, "int32"))
    updated = body.add("TensorListSetItem", "out", "i", item, **F32)
    if read:  # reads an element that is not written yet
        again = body.add("TensorListGetItem", "out", "i", body.const([3], "int32"), **F32)
        updated = body.add("TensorListSetItem", updated, "i", body.add("Sub", item, again), **F32)
    body_function = g.function("body", body, types, body.add("AddV2", "i", body.const(1, "int32")), "n", updated, "x")
    loop = g.add("While", g.const(first, "int32"), n, target, x, cond=test, body=body_function)
    g.add("TensorListStack", f"{loop}:2", shaped, name="y", **F32)
    run = g.converted(tmp_path, "y", f"{loop}:0")
    y, count = run({"x": X, "n": np.array(limit, np.int32)})
    expected = np.zeros((size, 3), np.float32)
    expected[first:limit] = X[first:limit]
    np.testing.assert_array_equal(y, expected)
    assert count == limit


@pytest.mark.parametrize("grows", [False, True])
def test_arrays_outside_of_loops(tmp_path: Path, grows: bool) -> None:
    g = TfBuilder()
    x, i = g.input("x", "float32", (4, 3)), g.input("i", "int32", ())
    f32 = {"dtype": Type("float32")}
    size = g.const(0 if grows else 4, "int32")
    handle = g.add("TensorArrayV3", size, dynamic_size=grows, **f32)
    flow = g.add("TensorArrayScatterV3", handle, g.const([2, 0, 3, 1], "int32"), x, f"{handle}:1")
    g.add("TensorArrayReadV3", handle, i, flow, name="read", **f32)
    last = g.add("TensorArrayWriteV3", handle, g.const(5 if grows else 3, "int32"), "read", flow)
    g.add("TensorArraySizeV3", handle, last, name="size")
    g.add("TensorArrayGatherV3", handle, g.const([0, 3], "int32"), last, name="some", element_shape=shape_proto([3]))
    shaped = g.add("TensorArrayV3", g.const(2, "int32"), element_shape=shape_proto([3]), **f32)
    all_of_it = g.const([0, 1], "int32")
    g.add("TensorArrayGatherV3", shaped, all_of_it, f"{shaped}:1", name="zeros", **f32)
    in_order = g.add("TensorArrayScatterV3", shaped, all_of_it, g.add("Neg", x), f"{shaped}:1", name="taken")
    g.add("TensorArrayReadV3", shaped, i, in_order, name="negative", **f32)
    g.add("TensorArrayCloseV3", shaped, name="closed")
    back = np.empty_like(X)
    back[[2, 0, 3, 1]] = X
    read, count, some, zeros, negative = g.run(
        tmp_path, {"x": X[:4], "i": np.array(1, np.int32)}, "read", "size", "some", "zeros", "negative"
    )
    np.testing.assert_array_equal(read, back[1])
    assert count == (6 if grows else 4)
    np.testing.assert_array_equal(some, [back[0], back[3] if grows else back[1]])
    np.testing.assert_array_equal(zeros, np.zeros((2, 3)))
    np.testing.assert_array_equal(negative, -X[1])


def test_lists_of_unknown_shape_or_unequal_lengths_are_refused(tmp_path: Path) -> None:
    g = TfBuilder()
    x, i = g.input("x", "float32", (4, 3)), g.input("i", "int32", ())
    none = g.const(-1, "int32")
    empty = g.add("TensorListReserve", none, g.const(2, "int32"), **F32)
    g.add("TensorListGetItem", empty, i, none, name="item", **F32)
    g.add("TensorListSplit", x, none, g.const([1, 3], "int64"), name="split", **F32)
    g.add("TensorListConcat", g.add("TensorListFromTensor", g.add("Sum", x, none), none, **F32), name="join", **F32)
    with pytest.raises(AtcError) as caught:
        g.run(tmp_path, {}, "item", "split", "join")
    reported = [(problem.code, problem.where.node) for problem in caught.value.problems if problem.where]
    assert reported == [("E10055", "item"), ("E10055", "split"), ("E13014", "join")]


def test_a_first_write_in_a_branch_determines_the_element_shape(tmp_path: Path) -> None:
    g = TfBuilder()
    x, i, none = g.input("x", "float32", (4, None)), g.input("i", "int32", ()), g.const(-1, "int32")
    empty = g.add("TensorListReserve", none, g.const(2, "int32"), **F32)
    yes, no = TfBuilder(), TfBuilder()
    types = {"a": "variant", "x": "float32"}
    then = g.function("then", yes, types, yes.add("TensorListSetItem", "a", yes.const(1, "int32"), "x", **F32))
    other = g.function("other", no, types, "a")
    either = g.add("If", i, empty, x, then_branch=then, else_branch=other)
    g.add("TensorListStack", either, none, name="y", **F32)
    run = g.converted(tmp_path, "y")
    array = X[:4]
    for number, last in ((1, array), (0, np.zeros_like(array))):
        (y,) = run({"x": array, "i": np.array(number, np.int32)})
        np.testing.assert_array_equal(y, [np.zeros_like(array), last])


def test_element_sizes_known_only_inside_an_iteration(tmp_path: Path) -> None:
    g = TfBuilder()
    x, y = (g.input(name, "float32", (None, 3)) for name in "xy")
    none, zero = g.const(-1, "int32"), g.const(0, "int32")
    target = g.add("TensorListReserve", none, g.const(1, "int32"), **F32)
    types = {"i": "int32", "out": "variant", "x": "float32", "y": "float32"}
    cond, body = TfBuilder(), TfBuilder()
    test = g.function("cond", cond, types, cond.add("Less", "i", cond.const(3, "int32")))
    item = body.add("Mul", body.add("AddV2", "x", "y"), body.add("Cast", "i", DstT=Type("float32")))
    updated = body.add("TensorListSetItem", "out", body.const(0, "int32"), item, **F32)
    body_function = g.function("body", body, types, body.add("AddV2", "i", body.const(1, "int32")), updated, "x", "y")
    loop = g.add("While", zero, target, x, y, cond=test, body=body_function)
    g.add("TensorListStack", f"{loop}:1", none, name="last", **F32)
    (last,) = g.run(tmp_path, {"x": X, "y": X[:1]}, "last")
    np.testing.assert_array_equal(last, [(X + X[:1]) * 2])
