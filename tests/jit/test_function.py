"""`atcpy.jit`: what is compiled, when, and what is not."""

from __future__ import annotations

import gc
import inspect
import logging
import sys
import threading
import weakref
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import atcpy
from atcpy.errors import AtcError, Unsupported, UsageError
from atcpy.jit import function as jit_function

pytest.importorskip("ndonnx")
RNG = np.random.default_rng(3)
LAX = atcpy.JitConfig(jit_syntax_level="LAX")
X = RNG.standard_normal((3, 4), np.float32)


def line_of(function: Callable[..., Any], text: str) -> int:
    lines, first = inspect.getsourcelines(function)
    return first + next(index for index, line in enumerate(lines) if text in line)


FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "operators": lambda x, n: (x * 2.0 - 1) / (x**2 + 0.5),
    "matmul": lambda x, n: x @ x.T,
    "compare and select": lambda x, n: n.where((x > 0) & (x < 1), x, -x),
    "exp, log, tanh": lambda x, n: n.log(n.exp(x) + 1.0) * n.tanh(x),
    "softmax": lambda x, n: n.exp(x) / n.sum(n.exp(x), axis=-1, keepdims=True),
    "reductions": lambda x, n: n.mean(x, axis=0) + n.std(x, axis=0) * n.max(x, axis=0) - n.min(x, axis=0),
    "variance": lambda x, n: n.var(x, axis=1, correction=1),
    "reshape and permute": lambda x, n: n.permute_dims(n.reshape(x, (2, 2, 3)), (2, 0, 1)),
    "concat and stack": lambda x, n: n.stack([n.concat([x, x], axis=1), n.concat([-x, x], axis=1)]),
    "slices": lambda x, n: x[1:, ::-1][:, :2],
    "argmax": lambda x, n: n.argmax(x, axis=1),
    "sort": lambda x, n: n.sort(x, axis=1),
    "cumulative sum": lambda x, n: n.cumulative_sum(x, axis=1),
    "round and sign": lambda x, n: n.round(x * 3) + n.sign(x) + n.floor(x) + n.ceil(x),
    "astype": lambda x, n: n.astype(x * 10, n.int32) // 3 + n.astype(x > 0, n.int32),
    "int division": lambda x, n: n.astype(x * 10, n.int64) % 4,
    "take": lambda x, n: n.take(x, n.asarray([2, 0]), axis=1),
    "any and all": lambda x, n: n.any(x > 1, axis=0) | n.all(x < 0, axis=0),
    "squeeze and expand": lambda x, n: n.squeeze(n.expand_dims(x, axis=1), axis=1) + n.expand_dims(x[0, ...], axis=0),
    "broadcast": lambda x, n: n.broadcast_to(x[:1, :], (5, 4)) + n.ones((5, 1), dtype=n.float32),
    "tril": lambda x, n: n.tril(x) + n.triu(x, k=1),
    "clip": lambda x, n: n.clip(x, -0.5, 0.5),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_of_the_array_api_computes_what_numpy_does(name: str) -> None:
    function = FUNCTIONS[name]
    found = atcpy.jit(lambda x: function(x, x.__array_namespace__()))(X)
    expected = function(X, np)
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int8, np.uint8, np.int64])
def test_element_types(dtype: type) -> None:
    x = np.array([[0, 1, 3], [2, 5, 7]]).astype(dtype)
    found = atcpy.jit(lambda x: x * x)(x)
    np.testing.assert_array_equal(found, x * x)
    assert found.dtype == dtype


def test_it_compiles_once_for_each_signature() -> None:
    calls: list[object] = []

    @atcpy.jit
    def scaled(x: Any, factor: Any = 2.0, *, bias: Any = None) -> Any:
        calls.append(factor)
        return x * factor if bias is None else x * factor + bias

    for _ in range(3):
        np.testing.assert_array_equal(scaled(X), X * 2)
        np.testing.assert_array_equal(scaled(X, factor=2.0), X * 2)
    assert len(calls) == scaled.signatures == 1
    np.testing.assert_array_equal(scaled(X[:2]), X[:2] * 2)
    np.testing.assert_array_equal(scaled(X.astype(np.float64)), X.astype(np.float64) * 2)
    np.testing.assert_array_equal(scaled(X, 3.0), X * 3)
    np.testing.assert_array_equal(scaled(X, bias=X), X * 2 + X)
    assert len(calls) == scaled.signatures == 5


@pytest.mark.parametrize(("first", "second"), [(1, True), (1, 1.0), (0.0, -0.0), ("a", "b"), (None, 0)])
def test_values_that_are_equal_but_not_the_same_are_two_signatures(first: object, second: object) -> None:
    @atcpy.jit
    def of(x: Any, value: object) -> Any:
        return x + 1.0, repr(value)

    assert of(X, first)[1] == repr(first)
    assert of(X, second)[1] == repr(second)
    assert of.signatures == 2


def test_a_nan_among_the_arguments_is_one_signature() -> None:
    of = atcpy.jit(lambda x, value: x + 1.0)
    of(X, float("nan"))
    of(X, float("nan"))
    assert of.signatures == 1


Pair = namedtuple("Pair", ["left", "right"])


def test_arrays_in_containers() -> None:
    @atcpy.jit
    def swapped(pair: Pair, more: dict[str, Any], *rest: Any, **named: Any) -> Any:
        total = pair.left + more["x"][0] + sum(rest) + named["last"]
        return {"pair": Pair(pair.right, pair.left), "total": [total, ("text", 3, None)]}

    found = swapped(Pair(X, -X), {"x": [X * 2]}, X, X, last=X * 3)
    assert isinstance(found["pair"], Pair)
    np.testing.assert_array_equal(found["pair"].left, -X)
    np.testing.assert_array_equal(found["pair"].right, X)
    np.testing.assert_allclose(found["total"][0], X * 8, rtol=1e-6)
    assert found["total"][1] == ("text", 3, None)


def test_keys_of_a_dict_with_one_text() -> None:
    found = atcpy.jit(lambda x: x[1] - x["1"])({1: X, "1": X * 3})
    np.testing.assert_array_equal(found, X - X * 3)


def test_constant_results_are_new_arrays() -> None:
    weights = np.arange(4.0)
    both = atcpy.jit(lambda x: (x + 1, weights))
    both(X)[1][:] = 7
    np.testing.assert_array_equal(both(X)[1], np.arange(4.0))
    nothing = atcpy.jit(lambda x: (weights, "text"))
    nothing(X)[0][:] = 7
    np.testing.assert_array_equal(nothing(X)[0], np.arange(4.0))


def test_an_argument_that_is_returned_is_a_copy() -> None:
    found = atcpy.jit(lambda x: x)(X)
    np.testing.assert_array_equal(found, X)
    assert not np.shares_memory(found, X)


def test_arrays_of_other_orders_and_strides() -> None:
    double = atcpy.jit(lambda x: x + x)
    np.testing.assert_array_equal(double(X.astype(">f4")), X * 2)
    np.testing.assert_array_equal(double(X.T), X.T * 2)
    np.testing.assert_array_equal(double(np.float32(3)), 6)
    assert double(np.float32(3)).shape == ()


def test_arrays_of_another_library() -> None:
    class Exported:
        """An array of a library that exports its memory."""

        def __dlpack__(self, **options: Any) -> Any:
            return X.__dlpack__(**options)

        def __dlpack_device__(self) -> Any:
            return X.__dlpack_device__()

    np.testing.assert_array_equal(atcpy.jit(lambda x: [x[0] + 1.0])([Exported()])[0], X + 1)


# --- open sizes -------------------------------------------------------------------------------------------------------


def test_open_sizes_are_one_signature() -> None:
    traced: list[Any] = []

    @atcpy.jit(input_shape={"x": ["n", 4], "y": [-1, None], "z.0": ["n"]})
    def rows(x: Any, y: Any, z: Any) -> Any:
        traced.append(x.shape)
        return x @ x.T, y * 2, x[:, 0] + z[0]

    for n, m in ((3, 1), (1, 5), (6, 2)):
        x, y = RNG.standard_normal((n, 4), np.float32), RNG.standard_normal((m, 2 * m), np.float32)
        first, second, third = rows(x, y, (x[:, 1],))
        np.testing.assert_allclose(first, x @ x.T, rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(second, y * 2)
        np.testing.assert_array_equal(third, x[:, 0] + x[:, 1])
    assert traced == [(None, 4)]


@pytest.mark.parametrize(
    ("shape", "code", "why"),
    [
        ({"x": ["n"]}, "E10402", "has 2 dims, input_shape says 1"),
        ({"x": ["n", 5]}, "E10405", "size 4 in axis 1, input_shape says 5"),
        ({"x": ["n", "n"]}, "E10405", "size 4 in axis 1, input_shape says n, which is 3"),
        ({"y": ["n", 4]}, "E10404", 'names "y"'),
    ],
)
def test_shapes_that_do_not_fit_are_refused(shape: Any, code: str, why: str) -> None:
    with pytest.raises(UsageError, match=why) as caught:
        atcpy.jit(lambda x: x + 1, input_shape=shape)(X)
    assert caught.value.code == code


# --- what cannot be traced --------------------------------------------------------------------------------------------


def branch(x: Any) -> Any:
    total = x.sum()
    if total > 0:  # of an array
        return x * 2
    return x


def loop(x: Any) -> Any:
    while float(x[0, 0]) > 1e9:  # of an array
        x = x / 2
    return x * 2


def by_numpy(x: Any) -> Any:
    return np.exp(x)  # of an array


def hidden(x: Any) -> Any:
    return np.dot(x, np.ones((4, 2), np.float32))


def in_place(x: Any) -> Any:
    x += 1  # of an array
    return x


def item(x: Any) -> Any:
    x[0, 0] = 1.0  # of an array
    return x


def helped(x: Any) -> Any:
    return branch(x)


FAILURES: dict[Callable[..., Any], tuple[str, Callable[..., Any], str]] = {
    branch: ("needs the value of an array", branch, "of an array"),
    loop: ("needs the value of an array", loop, "of an array"),
    by_numpy: ("TypeError", by_numpy, "of an array"),
    hidden: ("a function of numpy", hidden, "def hidden"),
    in_place: ("an argument is modified in place", in_place, "of an array"),
    item: ("an argument is modified in place", item, "of an array"),
    helped: ("needs the value of an array", branch, "of an array"),
}


@pytest.mark.parametrize("function", FAILURES, ids=lambda f: f.__name__)
def test_what_cannot_be_traced_is_an_error_with_its_line(function: Callable[..., Any]) -> None:
    why, failing, text = FAILURES[function]
    with pytest.raises(Unsupported, match=why) as caught:
        atcpy.jit(function)(X.copy())
    assert caught.value.code == "J0001"
    assert caught.value.exit_code == 4
    assert (caught.value.where.file, caught.value.where.line) == (__file__, line_of(failing, text))


@pytest.mark.parametrize("function", FAILURES, ids=lambda f: f.__name__)
def test_what_cannot_be_traced_runs_as_python(function: Callable[..., Any], caplog: pytest.LogCaptureFixture) -> None:
    lax = atcpy.jit(function, jit_config=LAX)
    for sign in (1, -1):
        x = np.abs(X) * np.float32(sign)
        np.testing.assert_array_equal(lax(x.copy()), function(x.copy()))
    _, failing, text = FAILURES[function]
    [message] = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert f"{Path(__file__)}:{line_of(failing, text)}" in message


def test_what_cannot_be_compiled_is_an_error_or_runs_as_python(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(AtcError):
        atcpy.jit(lambda x: x)(np.array([1 + 2j]))
    complex_ = np.array([1 + 2j])
    np.testing.assert_array_equal(atcpy.jit(lambda x: x * 2, jit_config=LAX)(complex_), complex_ * 2)
    assert "elements of type complex128" in caplog.text


def test_an_argument_that_cannot_be_a_key(caplog: pytest.LogCaptureFixture) -> None:
    def total(x: Any, chosen: set[int]) -> Any:
        return x[sorted(chosen)].sum()

    with pytest.raises(Unsupported, match="neither an array nor hashable"):
        atcpy.jit(total)(X, {0, 1})
    lax = atcpy.jit(total, jit_config=LAX)
    for chosen in ({0, 1}, {2}):
        np.testing.assert_array_equal(lax(X, chosen), X[sorted(chosen)].sum())
    assert caplog.text.count("neither an array nor hashable") == 1


def test_an_error_of_the_function_itself_is_raised(caplog: pytest.LogCaptureFixture) -> None:
    def broken(x: Any) -> Any:
        return x.nothing

    with pytest.raises(AttributeError, match=r"'numpy.ndarray' object has no attribute 'nothing'"):
        atcpy.jit(broken, jit_config=LAX)(X)
    with pytest.raises(TypeError, match="missing a required argument: 'x'"):
        atcpy.jit(broken)()


def test_a_missing_library_is_an_error_at_both_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ndonnx", None)
    for config in (LAX, atcpy.JitConfig(jit_syntax_level="STRICT")):
        with pytest.raises(Unsupported, match="ndonnx") as caught:
            atcpy.jit(lambda x: x + 1, jit_config=config)(X)
        assert caught.value.code == "E10055"
        assert "atcpy[jit]" in caught.value.hint


@pytest.mark.parametrize("what", [3, dict, None.__class__])
def test_only_functions_are_compiled(what: Any) -> None:
    with pytest.raises(UsageError, match="functions and methods"):
        atcpy.jit(what)


# --- methods, nesting, threads, memory --------------------------------------------------------------------------------


class Scale:
    def __init__(self, factor: float) -> None:
        self.factor = factor

    @atcpy.jit
    def apply(self, x: Any) -> Any:
        """Scale x."""
        return x * self.factor


def test_a_method_is_compiled_for_each_object() -> None:
    two, three = Scale(2.0), Scale(3.0)
    np.testing.assert_array_equal(two.apply(X), X * 2)
    np.testing.assert_array_equal(three.apply(X), X * 3)
    np.testing.assert_array_equal(Scale.apply(two, X), X * 2)
    two.apply(X)
    assert two.apply.signatures == three.apply.signatures == 1
    assert two.apply.__doc__ == Scale.apply.__doc__ == "Scale x."


def test_an_object_is_not_kept_by_what_is_compiled_for_it() -> None:
    scale = Scale(2.0)
    scale.apply(X)
    alive = weakref.ref(scale)
    del scale
    gc.collect()
    assert alive() is None


def test_an_object_that_cannot_be_referenced_weakly() -> None:
    class Slots:
        __slots__ = ("factor",)

        @atcpy.jit
        def apply(self, x: Any) -> Any:
            return x

    with pytest.raises(UsageError, match="referenced weakly"):
        Slots().apply(X)


def test_a_jit_function_inside_another_is_part_of_its_graph() -> None:
    inner = atcpy.jit(lambda x: x * 2.0)
    outer = atcpy.jit(lambda x: inner(x) + 1.0)
    np.testing.assert_array_equal(outer(X), X * 2 + 1)
    assert inner.signatures == 0
    assert [node.op_type for node in outer.to_model_proto(X).graph.node if node.op_type in {"Mul", "Add"}] == [
        "Mul",
        "Add",
    ]


def test_a_function_that_runs_as_python_calls_compiled_ones() -> None:
    inner = atcpy.jit(lambda x: x * 2.0)
    outer = atcpy.jit(lambda x: inner(x) if x.sum() > 0 else inner(-x), jit_config=LAX)
    np.testing.assert_array_equal(outer(np.abs(X)), np.abs(X) * 2)
    assert inner.signatures == 1


def test_threads_compile_a_signature_once() -> None:
    calls: list[int] = []

    @atcpy.jit
    def twice(x: Any) -> Any:
        calls.append(1)
        return x * 2

    results: list[Any] = []
    threads = [threading.Thread(target=lambda: results.append(twice(X))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 1
    for result in results:
        np.testing.assert_array_equal(result, X * 2)


def test_a_compiled_signature_does_not_wait_for_another() -> None:
    tracing, go_on = threading.Event(), threading.Event()

    @atcpy.jit
    def waiting(x: Any, wait: bool) -> Any:
        if wait:
            tracing.set()
            assert go_on.wait(30)
        return x + 1.0

    waiting(X, False)
    thread = threading.Thread(target=waiting, args=(X, True))
    thread.start()
    assert tracing.wait(30)
    np.testing.assert_array_equal(waiting(X, False), X + 1)
    go_on.set()
    thread.join()
    assert waiting.signatures == 2


def test_few_signatures_stay_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit_function, "MAX_SIGNATURES", 2)
    calls: list[int] = []

    @atcpy.jit
    def plus(x: Any, n: int) -> Any:
        calls.append(n)
        return x + float(n)

    for n in (1, 2, 1, 3, 1, 2):
        np.testing.assert_array_equal(plus(X, n), X + np.float32(n))
    assert calls == [1, 2, 3, 2]  # 2 was used longest ago when 3 came
    assert plus.signatures == 2


def test_a_traced_graph_without_an_array_result() -> None:
    with pytest.raises(Unsupported, match="no result is an array"):
        atcpy.jit(lambda x: 3).to_model_proto(X)
    assert atcpy.jit(lambda x: 3)(X) == 3
