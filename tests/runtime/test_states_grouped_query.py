"""States of GroupQueryAttention, whose lengths are values, against ONNX Runtime with caches that are fed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from atcpy import InferenceSession
from atcpy.errors import UsageError
from atcpy.ir.tensor import Array
from atcpy.om import writer
from atcpy.options import convert_options
from atcpy.runtime.session import InferenceSession as Session
from atcpy.stages.pipeline import compile_model
from tests.golden.golden import parse_text

STATES = {"present_k": "past_k", "present_v": "past_v"}
CAPACITY = 12
_CACHES = "float[b,2,p,16] past_k, float[b,2,p,16] past_v"
_PRESENT = "float[b,2,t,16] present_k, float[b,2,t,16] present_v"
# The lengths as exporters write them: those of the attention mask, which has a number for each token so far.
_OF_MASK = """sum = ReduceSum<keepdims=1>(mask, axis) less = Sub(sum, one) ends = Cast<to=6>(less)
    dims = Shape(mask) last = Gather(dims, first) total = Cast<to=6>(last)"""
_CONSTANTS = "int64[1] axis = {1}, int64[1] one = {1}, int64 first = {1}, float[16,8] cos, float[16,8] sin"
_MASKED = "int64[b,m] mask"


def text(
    *attrs: str,
    inputs: str = _MASKED,
    nodes: str = _OF_MASK,
    operands: str = "r, k, v, past_k, past_v, ends, total, cos, sin",
    constants: str = _CONSTANTS,
) -> str:
    """A layer: queries of 4 heads that are those of x twice, keys and values of 2 heads."""
    attributes = ", ".join(["num_heads=4, kv_num_heads=2", *attrs])
    return f"""(float[b,n,32] x, {inputs}, {_CACHES}) => (float[b,n,64] y, {_PRESENT}) <{constants}> {{
        {nodes} r = Concat<axis=2>(x, x) k = Neg(x) v = Sin(x)
        y, present_k, present_v = com.microsoft.GroupQueryAttention<{attributes}>({operands}) }}"""


_PLAIN = "r, k, v, past_k, past_v, ends, total"
MODELS = {
    "plain": text(operands=_PLAIN),
    "rotary": text("do_rotary=1"),
    "rotary, interleaved, a scale": text("do_rotary=1", "rotary_interleaved=1", "scale=0.2"),
    "a window": text("do_rotary=1", "local_window_size=3"),
    "a softcap": text("do_rotary=1", "softcap=0.5"),
    "a window and a softcap": text("local_window_size=2", "softcap=0.5", operands=_PLAIN),
    "sinks": text("do_rotary=1", "smooth_softmax=1"),
    "not causal": text("causal=0", operands=_PLAIN),
    "packed": text("do_rotary=1", nodes=f"{_OF_MASK} packed = Concat<axis=2>(x, x, x, x)",
                   operands="packed, , , past_k, past_v, ends, total, cos, sin"),
    "positions": text("do_rotary=1", nodes=f"{_OF_MASK} c = CumSum(mask, first) h = Sub(c, one)"
                      " s = Shape<start=1, end=2>(x) from = Neg(s) position = Slice(h, from, large, one)",
                      operands="r, k, v, past_k, past_v, ends, total, cos, sin, position",
                      constants=f"{_CONSTANTS}, int64[1] large = {{1000}}"),
    "angles that an If chooses": text(
        "do_rotary=1",
        nodes=f"""{_OF_MASK} most = ReduceMax<keepdims=0>(mask) is_long = Equal(most, first)
        c, s = If<then_branch = long () => (float[16,8] lc, float[16,8] ls) {{ lc = Neg(cos) ls = Cos(sin) }},
        else_branch = short () => (float[16,8] sc, float[16,8] ss) {{ sc = Exp(cos) ss = Exp(sin) }}>(is_long)""",
        operands="r, k, v, past_k, past_v, ends, total, c, s",
    ),
    "a bias": text(inputs=f"{_MASKED}, float[1,4,n,m] bias", operands=f"{_PLAIN}, , , , bias"),
    "lengths that are inputs": text(
        "do_rotary=1", inputs="int32[b] ends, int32[1] total", nodes="", constants="float[16,8] cos, float[16,8] sin"
    ),
}  # fmt: skip


@cache
def model(body: str) -> onnx.ModelProto:
    return parse_text('<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]> m ' + body)


@cache
def package(body: str) -> bytes:
    return writer.to_bytes(compile_model(model(body), convert_options({}))[0])


def session_of(body: str, capacity: int = CAPACITY) -> Session:
    session = InferenceSession(package(body), threads=1)
    session.bind_state(STATES, capacity=capacity)
    return session


def feeds(body: str, batch: int, new: int, length: int, seed: int) -> dict[str, Array]:
    """Inputs of a run that adds `new` rows to `length` that are there, all of them in use."""
    rng, total = np.random.default_rng(seed), length + new
    values = {
        "x": rng.standard_normal((batch, new, 32)).astype(np.float32),
        "mask": np.ones((batch, total), np.int64),
        "bias": rng.standard_normal((1, 4, new, total)).astype(np.float32),
        "ends": np.full(batch, total - 1, np.int32),
        "total": np.array([total], np.int32),
    }
    inputs = {port.name: port.type.tensor_type.elem_type for port in model(body).graph.input}
    return {
        name: value.astype(onnx.helper.tensor_dtype_to_np_dtype(inputs[name]))
        for name, value in values.items()
        if name in inputs
    }


class Oracle:
    """ONNX Runtime, which is fed what it returned last. It runs one sequence of a batch after the other: it takes no
    more than one if rows are added to some that are there, unless they have one row each.
    """

    def __init__(self, body: str, batch: int) -> None:
        self.session = onnxruntime.InferenceSession(model(body).SerializeToString())
        types = {port.name: port.type for port in self.session.get_inputs()}
        dtype = np.float16 if types["past_k"] == "tensor(float16)" else np.float32
        self.caches = [dict.fromkeys(STATES.values(), np.zeros((1, 2, 0, 16), dtype)) for _ in range(batch)]

    def run(self, values: Mapping[str, Array]) -> dict[str, Array]:
        names, results = [port.name for port in self.session.get_outputs()], []
        for row, caches in enumerate(self.caches):
            own = {name: value[[row]] if name in ("x", "mask", "ends") else value for name, value in values.items()}
            results.append(dict(zip(names, self.session.run(None, {**own, **caches}), strict=True)))
            caches.update((past, results[-1][present]) for present, past in STATES.items())
        return {name: np.concatenate([result[name] for result in results]) for name in names}


def count_copies(session: Session, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """A list that gets an item for each run that does not write its new rows in place."""
    copied: list[object] = []
    compute: Callable[..., Any] = session._compute
    monkeypatch.setattr(session, "_compute", lambda *args: copied.append(args) or compute(*args))
    return copied


def assert_runs_agree(session: Session, oracle: Oracle, values: Mapping[str, Array]) -> None:
    expected = oracle.run(values)
    for (name, want), found in zip(expected.items(), session.run([*expected], values), strict=True):
        assert found.dtype == want.dtype
        rtol, atol = (2e-3, 1e-3) if found.dtype == np.float16 else (1e-4, 1e-5)
        np.testing.assert_allclose(found, want, rtol=rtol, atol=atol, err_msg=name)


MODELS["one length of past and present"] = MODELS["rotary"].replace(",p,", ",length,").replace(",t,", ",length,")
HALVES = {
    f"{name}, f16": MODELS[name].replace("float[", "float16[")
    for name in ("plain", "rotary", "a window", "a softcap", "packed", "a bias")
}


QUICK = ("a window", "lengths that are inputs", "rotary, f16")  # others take seconds, too


@pytest.mark.parametrize(("batch", "steps"), [(1, [4, 1, 3]), (3, [2, 1, 2])])
@pytest.mark.parametrize(
    "name",
    [
        *QUICK,
        *(pytest.param(name, marks=pytest.mark.slow) for name in [*MODELS, *HALVES] if name not in QUICK),
    ],
)
def test_decoding_agrees_with_onnx_runtime(
    name: str, batch: int, steps: Sequence[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    body, length = (MODELS | HALVES)[name], 0
    session, oracle = session_of(body), Oracle(body, batch)
    copied = count_copies(session, monkeypatch)
    for seed, new in enumerate(steps):
        assert_runs_agree(session, oracle, feeds(body, batch, new, length, seed))
        length += new
        assert session.state_length == length
    assert len(copied) == 1, "only the first run, which has no rows yet, is not extended in place"


@pytest.mark.parametrize("is_padded", [False, True])
@pytest.mark.parametrize(
    "name",
    [
        "rotary",
        "lengths that are inputs",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("a window", "a softcap")),
    ],
)
def test_caches_that_are_fed_need_no_compiler(name: str, is_padded: bool) -> None:
    body = MODELS[name]
    session, oracle = InferenceSession(package(body), threads=1), Oracle(body, 2)
    caches = {past: np.zeros((2, 2, 0, 16), np.float32) for past in STATES.values()}
    for length, new in ((0, 4), (4, 1), (5, 1), (6, 1)):
        values = feeds(body, 2, new, length, seed=length)
        if is_padded and length:
            if "mask" in values:
                values["mask"][1, -2:] = 0
            else:
                values["ends"][1] -= 2
        expected = oracle.run(values)
        found = dict(zip(expected, session.run([*expected], values | caches), strict=True))
        for output, want in expected.items():
            np.testing.assert_allclose(found[output], want, rtol=1e-4, atol=1e-5, err_msg=output)
        caches = {past: found[present] for present, past in STATES.items()}
    assert session.shape_cache is not None and session.shape_cache.misses == 0


def test_only_new_rows_are_written_and_the_others_read_in_place() -> None:
    body = MODELS["rotary"]
    session = session_of(body)
    for length in range(4):
        session.run(None, feeds(body, 1, 1, length, seed=length))
    assert session._states is not None
    keys, values = session._states._arrays
    keys[:, :, :4] = 0  # all weigh the same
    values[:, :, :4] = 100
    keys[:, :, 5:] = values[:, :, 5:] = np.nan
    before = keys.copy(), values.copy()
    [y] = session.run(None, feeds(body, 1, 1, 4, seed=4))
    assert (y > 30).all()
    for array, old in zip((keys, values), before, strict=True):
        np.testing.assert_array_equal(np.delete(array, 4, axis=2), np.delete(old, 4, axis=2))
        assert (array[:, :, 4] != old[:, :, 4]).all()


@pytest.mark.parametrize("name", ["rotary", "a window", "a softcap"])
def test_sequences_of_other_lengths_are_copied(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch whose rows are padded: what one of them has in its cache is shorter than the others."""
    body = MODELS[name]
    session, oracle = session_of(body), Oracle(body, 2)
    copied = count_copies(session, monkeypatch)
    for length, new in ((0, 4), (4, 1), (5, 1)):
        values = feeds(body, 2, new, length, seed=length)
        if length:
            values["mask"][1, -2:] = 0
        assert_runs_agree(session, oracle, values)
    assert len(copied) == 3
    assert_runs_agree(session, oracle, feeds(body, 2, 1, 6, seed=6))
    assert len(copied) == 3, "lengths agree again"


@pytest.mark.parametrize(("ends", "total", "is_copied"), [(4, 5, False), (3, 5, True), (4, 6, True), (4, 4, True)])
def test_each_length_is_compared(ends: int, total: int, is_copied: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    body = MODELS["lengths that are inputs"]
    session, oracle = session_of(body), Oracle(body, 2)
    assert_runs_agree(session, oracle, feeds(body, 2, 4, 0, seed=0))
    copied = count_copies(session, monkeypatch)
    values = feeds(body, 2, 1, 4, seed=1)
    values["ends"][1], values["total"][0] = ends, total
    if total == 5:
        assert_runs_agree(session, oracle, values)
    else:  # ONNX Runtime refuses it
        session.run(None, values)
    assert bool(copied) is is_copied


def test_a_full_cache_refuses_and_the_session_goes_on() -> None:
    body = MODELS["rotary"]
    session, oracle = session_of(body, capacity=5), Oracle(body, 1)
    assert_runs_agree(session, oracle, feeds(body, 1, 4, 0, seed=0))
    with pytest.raises(UsageError, match=r"E10406.*present_k.*room for 5 rows, not for 6"):
        session.run(None, feeds(body, 1, 2, 4, seed=1))
    assert_runs_agree(session, oracle, feeds(body, 1, 1, 4, seed=2))
    session.reset_state()
    assert_runs_agree(session, Oracle(body, 1), feeds(body, 1, 3, 0, seed=3))


def test_a_buffer_of_fixed_length_is_no_state() -> None:
    """Exports whose past and present share memory write into it."""
    body = MODELS["lengths that are inputs"].replace("b,2,p,16", "b,2,8,16").replace("b,2,t,16", "b,2,8,16")
    session, oracle = InferenceSession(package(body), threads=1), Oracle(body, 1)
    with pytest.raises(UsageError, match=r"E13031.*one open axis"):
        session.bind_state(STATES, capacity=CAPACITY)
    oracle.caches = [dict.fromkeys(STATES.values(), np.zeros((1, 2, 8, 16), np.float32))]
    for length, new in ((0, 3), (3, 1), (4, 1)):
        values = feeds(body, 1, new, length, seed=length) | oracle.caches[0]
        expected = oracle.run({name: value for name, value in values.items() if name not in STATES.values()})
        for (name, want), found in zip(expected.items(), session.run([*expected], values), strict=True):
            np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-5, err_msg=name)


def test_positions_that_are_there_only_with_the_lengths_of_the_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    """All 16 angles are used up if the cache is full; in fact its last row is not in use, and is written again."""
    body = MODELS["lengths that are inputs"]
    session, oracle = session_of(body, capacity=17), Oracle(body, 1)
    assert_runs_agree(session, oracle, feeds(body, 1, 16, 0, seed=0))
    copied = count_copies(session, monkeypatch)
    assert_runs_agree(session, oracle, feeds(body, 1, 1, 15, seed=1))
    assert copied and session.state_length == 16
