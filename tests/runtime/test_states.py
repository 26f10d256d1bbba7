"""States: caches that a session keeps, beside caches that are fed."""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from atcpy import InferenceSession
from atcpy.errors import AtcError, PackageCorrupt, ResourceLimit, UsageError
from atcpy.ir import ClusterVariant, CompiledModel, Task, plans_of
from atcpy.ir.tensor import Array
from atcpy.kernels.symbolic_program import planned_arena_bytes
from atcpy.om import writer
from atcpy.options import convert_options
from atcpy.runtime.session import InferenceSession as Session
from atcpy.sizes import MAX_DIM
from atcpy.stages.pipeline import compile_model, convert
from tests.golden.golden import parse_text

REPO = Path(__file__).parents[2]

# A model, and which outputs are which inputs with new rows. `n` new rows follow `p` that are there, which makes `t`.
CONCAT = """(float[b,n,4] x, float[b,p,4] past) => (float[b,n,4] y, float[b,t,4] present) <int64[1] a = {1}> {
    present = Concat<axis=1>(past, x) s = ReduceMax(present, a) y = Mul(x, s) }"""
HEADS = "float[b,n,8] x, float[b,2,p,4] past_k, float[b,2,p,4] past_v"
RESULTS = "float[b,n,8] y, float[b,2,t,4] present_k, float[b,2,t,4] present_v"
SPLIT = "<int64[4] h = {0, -1, 2, 4}, int64[3] back = {0, -1, 8}, float r = {0.5}>"
MODELS = {
    "concat": (CONCAT, {"present": "past"}),
    "a dim called capacity": (CONCAT.replace("b,n,4", "b,capacity,4"), {"present": "past"}),
    "concat whose result nobody reads": (
        "(float[b,n,4] x, float[b,p,4] past) => (float[b,n,4] y, float[b,t,4] present) {"
        "present = Concat<axis=1>(past, x) y = Exp(x) }",
        {"present": "past"},
    ),
    "attention of plain ops": (
        f"""({HEADS}) => ({RESULTS}) {SPLIT} {{
        f = Reshape(x, h) k = Transpose<perm=[0,2,1,3]>(f) present_k = Concat<axis=2>(past_k, k)
        e = Exp(k) present_v = Concat<axis=-2>(past_v, e)
        u = Transpose<perm=[0,1,3,2]>(present_k) s = MatMul(k, u) d = Mul(s, r) w = Softmax(d)
        o = MatMul(w, present_v) q = Transpose<perm=[0,2,1,3]>(o) y = Reshape(q, back) }}""",
        {"present_k": "past_k", "present_v": "past_v"},
    ),
    "keys that lie transposed": (
        f"""({HEADS.replace("2,p,4] past_k", "2,4,p] past_k")}) =>
        ({RESULTS.replace("2,t,4] present_k", "2,4,t] present_k")}) {SPLIT} {{
        f = Reshape(x, h) q = Transpose<perm=[0,2,1,3]>(f) k = Transpose<perm=[0,2,3,1]>(f)
        present_k = Concat<axis=3>(past_k, k) present_v = Concat<axis=2>(past_v, q)
        s = MatMul(q, present_k) d = Mul(s, r) w = Softmax(d)
        o = MatMul(w, present_v) g = Transpose<perm=[0,2,1,3]>(o) y = Reshape(g, back) }}""",
        {"present_k": "past_k", "present_v": "past_v"},
    ),
    "keys and values in one tensor": (
        f"""(float[b,n,8] x, float[2,b,2,p,4] past) => (float[b,n,8] y, float[2,b,2,t,4] present)
        {SPLIT.replace(">", ", int64 zero = {0}, int64 one = {1}, int64[1] first = {0}>")} {{
        f = Reshape(x, h) k = Transpose<perm=[0,2,1,3]>(f) v = Neg(k)
        past_k = Gather(past, zero) past_v = Gather(past, one)
        all_k = Concat<axis=2>(past_k, k) all_v = Concat<axis=2>(past_v, v)
        i = Unsqueeze(all_k, first) j = Unsqueeze(all_v, first) present = Concat<axis=0>(i, j)
        u = Transpose<perm=[0,1,3,2]>(all_k) s = MatMul(k, u) d = Mul(s, r) w = Softmax(d)
        o = MatMul(w, all_v) q = Transpose<perm=[0,2,1,3]>(o) y = Reshape(q, back) }}""",
        {"present": "past"},
    ),
    "the op Attention": (
        """(float[b,n,8] x, float[b,2,p,4] past_k, float[b,2,p,4] past_v) =>
        (float[b,n,16] y, float[b,2,t,4] present_k, float[b,2,t,4] present_v) {
        z = Concat<axis=2>(x, x)
        y, present_k, present_v = Attention<q_num_heads=4, kv_num_heads=2, is_causal=1>(z, x, x, , past_k, past_v) }""",
        {"present_k": "past_k", "present_v": "past_v"},
    ),
    "Attention of com.microsoft": (
        """(float[b,n,8] x, float[2,b,2,p,4] past) => (float[b,n,8] y, float[2,b,2,t,4] present)
        <float[8,24] w, float[24] c> {
        y, present = com.microsoft.Attention<num_heads=2, unidirectional=1>(x, w, c, , past) }""",
        {"present": "past"},
    ),
    "MultiHeadAttention of com.microsoft": (
        """(float[b,n,8] x, float[b,2,p,4] past_k, float[b,2,p,4] past_v) =>
        (float[b,n,8] y, float[b,2,t,4] present_k, float[b,2,t,4] present_v) {
        y, present_k, present_v =
            com.microsoft.MultiHeadAttention<num_heads=2>(x, x, x, , , , past_k, past_v) }""",
        {"present_k": "past_k", "present_v": "past_v"},
    ),
}


def in_half(text: str) -> str:
    """The model in float16."""
    return text.replace("float[", "float16[").replace("float r = {0.5}", "float16[1] r")


def compiled_of(text: str, **options: object) -> CompiledModel:
    head = '<ir_version: 10, opset_import: ["" : 23, "com.microsoft" : 1]> m '
    return compile_model(parse_text(head + text), convert_options(options))[0]


def session_of(text: str, **options: object) -> Session:
    return InferenceSession(writer.to_bytes(compiled_of(text, **options)), threads=1)


def empty(session: Session, states: Mapping[str, str], batch: int) -> dict[str, Array]:
    """The caches of a first run."""
    shapes = {port.name: port.shape for port in session.get_inputs()}
    sizes = {"b": batch, "p": 0}
    dtype = dtype_of(session)
    return {name: np.zeros([sizes.get(dim, dim) for dim in shapes[name]], dtype) for name in states.values()}


def dtype_of(session: Session) -> np.dtype[Any]:
    return np.dtype(np.float16 if session.get_inputs()[0].type == "tensor(float16)" else np.float32)


def steps(batch: int, lengths: Sequence[int], width: int, seed: int = 0, dtype: Any = np.float32) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((batch, length, width)).astype(dtype) for length in lengths]


def fed(session: Session, states: Mapping[str, str], inputs: Sequence[Array]) -> list[dict[str, Array]]:
    """All outputs of each step, with caches that are fed."""
    names = [port.name for port in session.get_outputs()]
    caches, results = empty(session, states, inputs[0].shape[0]), []
    for x in inputs:
        results.append(dict(zip(names, session.run(None, {"x": x, **caches}), strict=True)))
        caches = {past: results[-1][present] for present, past in states.items()}
    return results


def width_of(session: Session) -> int:
    [x] = [port for port in session.get_inputs() if port.name == "x"]
    return int(x.shape[-1])


@pytest.mark.parametrize("lengths", [[3, 1, 1, 4, 1], pytest.param([1, 1, 2, 6], marks=pytest.mark.slow)])
@pytest.mark.parametrize("is_half", [False, True], ids=["f32", "f16"])
@pytest.mark.parametrize("name", MODELS)
def test_states_give_what_fed_caches_give(
    name: str, is_half: bool, lengths: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    text, states = MODELS[name]
    session = session_of(in_half(text) if is_half else text)
    inputs = steps(2, lengths, width_of(session), dtype=dtype_of(session))
    rtol, atol = (2e-3, 1e-3) if is_half else (2e-6, 1e-6)
    expected = fed(session, states, inputs)
    session.bind_state(states, capacity=10)
    computed: list[object] = []
    compute = session._compute
    monkeypatch.setattr(session, "_compute", lambda *args: computed.append(args) or compute(*args))
    for x, result in zip(inputs, expected, strict=True):
        outputs = session.run([*result], {"x": x})
        for output, (key, value) in zip(outputs, result.items(), strict=True):
            np.testing.assert_allclose(output, value, rtol=rtol, atol=atol, err_msg=key)
    assert len(computed) == 1, "only the first run, which has no rows yet, is not extended in place"
    assert session.state_length == 10


def test_the_arena_of_bounded_caches_is_planned() -> None:
    text, states = MODELS["attention of plain ops"]
    bounds = "x:1~2,1~4,8;past_k:1~2,2,0~9,4;past_v:1~2,2,0~9,4"
    [bound] = [cluster for cluster in compiled_of(text, input_shape=bounds).clusters if cluster.states]
    arenas = [planned_arena_bytes(plan.program) for variant in bound.variants for plan in variant.plans]
    assert arenas and None not in arenas
    session = session_of(text, input_shape=bounds)
    inputs = steps(2, [3, 1, 1, 4, 1], 8)
    expected = fed(session, states, inputs)
    session.bind_state(states, capacity=10)
    for x, result in zip(inputs, expected, strict=True):
        [y] = session.run(["y"], {"x": x})
        np.testing.assert_allclose(y, result["y"], rtol=2e-6, atol=1e-6)


def decoder(capacity: int) -> Session:
    text, states = MODELS["attention of plain ops"]
    session = session_of(text)
    session.bind_state(states, capacity=capacity)
    return session


def test_a_cache_takes_as_many_rows_as_its_capacity_and_none_more() -> None:
    session = decoder(5)
    one, two = steps(1, [1, 2], 8)
    for _ in range(5):
        session.run(None, {"x": one})
    with pytest.raises(UsageError, match=r"E10406.*present_k.*room for 5 rows, not for 6") as refused:
        session.run(None, {"x": one})
    assert "larger capacity" in str(refused.value)
    session.reset_state(3)
    session.run(None, {"x": two})
    assert session.state_length == 5
    with pytest.raises(UsageError, match="room for 5 rows, not for 7"):
        session.run(None, {"x": two})
    assert session.state_length == 5


def test_a_first_run_that_fills_the_cache_and_one_that_overflows_it() -> None:
    four, five = steps(1, [4, 5], 8)
    session = decoder(4)
    with pytest.raises(UsageError, match="room for 4 rows, not for 5"):
        session.run(None, {"x": five})
    assert session.state_length == 0
    session.run(None, {"x": four})
    assert session.state_length == 4


def test_rows_that_are_reset_are_computed_anew() -> None:
    session, inputs = decoder(8), steps(2, [3, 1, 2], 8)
    for x in inputs:
        session.run(None, {"x": x})
    expected = session.run(["y", "present_k"], {"x": steps(2, [1], 8, seed=3)[0]})
    session.reset_state(3)
    for x in inputs[1:]:
        session.run(None, {"x": x})
    for result, value in zip(
        session.run(["y", "present_k"], {"x": steps(2, [1], 8, seed=3)[0]}), expected, strict=True
    ):
        np.testing.assert_array_equal(result, value)
    for length in (-1, 8):
        with pytest.raises(UsageError, match=f"E10013: reset_state: {length} rows of 7"):
            session.reset_state(length)
    session.reset_state()
    assert session.state_length == 0


def test_states_that_are_asked_for_belong_to_the_caller() -> None:
    session = decoder(8)
    x = steps(1, [2], 8)[0]
    assert len(session.run(None, {"x": x})) == 1
    keys, y = session.run(["present_k", "y"], {"x": x})
    assert keys.shape == (1, 2, 4, 4)
    assert y.shape == (1, 2, 8)
    before = keys.copy()
    keys[...] = 7
    np.testing.assert_array_equal(session.run(["present_k"], {"x": x})[0][:, :, :4], before)


def test_a_run_that_fails_adds_no_rows() -> None:
    text = """(int64[b,n] i, float[b,p,4] past) => (float[b,t,4] present, float[b,t,4] y) <float[3,4] w> {
        x = Gather(w, i) present = Concat<axis=1>(past, x) y = Exp(present) }"""
    session = session_of(text)
    session.bind_state({"present": "past"}, capacity=4)
    for index in (0, 2, 1):
        session.run(None, {"i": np.array([[index]])})
        with pytest.raises(AtcError, match=r"D0001.*index 3"):
            session.run(None, {"i": np.array([[3]])})
    assert session.state_length == 3
    [rows] = session.run(["y"], {"i": np.array([[0]])})
    [alone] = session_of(text).run(["y"], {"i": np.array([[0, 2, 1, 0]]), "past": np.zeros((1, 0, 4), np.float32)})
    np.testing.assert_array_equal(rows, alone)


def test_the_sizes_of_a_cache_are_those_of_the_first_run() -> None:
    session = decoder(8)
    session.run(None, {"x": steps(2, [1], 8)[0]})
    with pytest.raises(UsageError, match=r"E10405.*x.*b is 2 elsewhere"):
        session.run(None, {"x": steps(3, [1], 8)[0]})
    session.reset_state()
    session.run(None, {"x": steps(3, [1], 8)[0]})
    assert session.run(["present_v"], {"x": steps(3, [1], 8)[0]})[0].shape == (3, 2, 2, 4)


REFUSED = {
    "an output that is not there": ({"nope": "past_k"}, "E13031.*nope.*the outputs are y, present_k"),
    "an input that is not there": ({"present_k": "nope"}, "E13025.*nope.*the inputs are x, past_k"),
    "two outputs for an input": ({"present_k": "past_k", "present_v": "past_k"}, "E13025.*two outputs"),
    "another rank": ({"y": "past_k"}, "E13031.*other ranks"),
    "more dims that differ": ({"y": "x"}, r"E13031.*one open axis"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_a_state(case: str) -> None:
    states, message = REFUSED[case]
    session = session_of(MODELS["attention of plain ops"][0])
    with pytest.raises(UsageError) as refused:
        session.bind_state(states, capacity=4)
    assert all(part in str(refused.value) for part in message.replace(r"\[", "[").split(".*"))


@pytest.mark.parametrize(("capacity", "is_valid"), [(0, False), (1, True), (MAX_DIM, True), (MAX_DIM + 1, False)])
def test_the_limits_of_a_capacity(capacity: int, is_valid: bool) -> None:
    session = session_of(CONCAT)
    if is_valid:
        session.bind_state({"present": "past"}, capacity=capacity)
        return
    with pytest.raises(UsageError, match=f"E10013.*{capacity}"):
        session.bind_state({"present": "past"}, capacity=capacity)


def test_types_and_fixed_dims_that_differ() -> None:
    text = """(float[b,p,4] x, float[b,p,4] u, float[3,4] w) =>
        (double[b,t,4] y, float[b,t,4] v, float[5,4] z) <float[2,4] c> {
        d = Concat<axis=1>(x, x) y = Cast<to=11>(d) v = Concat<axis=1>(u, u) z = Concat<axis=0>(w, c) }"""
    session = session_of(text)
    with pytest.raises(UsageError, match=r"tensor\(float\) and tensor\(double\)"):
        session.bind_state({"y": "x"}, capacity=4)
    with pytest.raises(UsageError, match=r"\[3,4\] does not become \[5,4\]"):
        session.bind_state({"z": "w"}, capacity=4)


def test_a_bound_input_is_not_fed() -> None:
    session = decoder(4)
    with pytest.raises(UsageError, match=r'E13025.*"past_k" is a state'):
        session.run(None, {"x": steps(1, [1], 8)[0], "past_k": np.zeros((1, 2, 0, 4), np.float32)})


def test_without_states_there_is_nothing_to_reset() -> None:
    session = session_of(CONCAT)
    with pytest.raises(UsageError, match="no state is bound"):
        session.reset_state()
    session.bind_state({"present": "past"}, capacity=4)
    session.bind_state({}, capacity=4)
    with pytest.raises(UsageError, match="no state is bound"):
        _ = session.state_length
    x = steps(1, [2], 4)[0]
    assert len(session.run(None, {"x": x, "past": x})) == 2


def test_two_threads_do_not_share_a_cache() -> None:
    """Either all of a thread's runs come before the others, or one is refused; no rows are mixed up."""
    session, x = decoder(2000), steps(1, [1], 8)[0]
    session.run(None, {"x": x})
    refused: list[UsageError] = []

    def extend() -> None:
        for _ in range(50):
            try:
                session.run(None, {"x": x})
            except UsageError as error:
                refused.append(error)

    threads = [threading.Thread(target=extend) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert session.state_length == 201 - len(refused)
    assert all("in use by another run" in str(error) for error in refused)


def test_some_of_the_caches_alone_may_be_states() -> None:
    """The plans of the package are for all; with fewer, caches are copied."""
    text, states = MODELS["attention of plain ops"]
    session = session_of(text)
    inputs = steps(1, [2, 1], 8)
    expected = fed(session, states, inputs)
    session.bind_state({"present_k": "past_k"}, capacity=3)
    values = np.zeros((1, 2, 0, 4), np.float32)
    for x, result in zip(inputs, expected, strict=True):
        y, values = session.run(None, {"x": x, "past_v": values})
        np.testing.assert_allclose(y, result["y"], rtol=1e-6)


def test_a_cache_whose_sizes_no_input_tells() -> None:
    text = """(float[n,1] x, float[p,h] past) => (float[t,h] present) {
        n = Shape<end=1>(x) h = Shape<start=1>(past) s = Concat<axis=0>(n, h) e = Expand(x, s)
        present = Concat<axis=0>(past, e) }"""
    session = session_of(text)
    session.bind_state({"present": "past"}, capacity=3)
    with pytest.raises(UsageError, match=r"E13025.*no input tells the size h of the state .past.") as refused:
        session.run(None, {"x": np.ones((2, 1), np.float32)})
    assert "--input_shape" in str(refused.value)


def test_the_plans_for_states_are_checked_when_states_are_bound() -> None:
    text, states = MODELS["attention of plain ops"]
    good = compiled_of(text)
    damaged = tuple(
        replace(cluster, variants=tuple(map(_damaged, cluster.variants))) if cluster.states else cluster
        for cluster in good.clusters
    )
    session = InferenceSession(writer.to_bytes(replace(good, clusters=damaged)), threads=1)
    x = steps(1, [3], 8)
    expected = fed(session, states, x)
    for _ in range(2):
        with pytest.raises(PackageCorrupt, match=r"P0005.*the plan is refused"):
            session.bind_state(states, capacity=10)
    for key, value in fed(session, states, x)[0].items():
        np.testing.assert_array_equal(value, expected[0][key])


def _damaged(variant: ClusterVariant[tuple[Task, ...]]) -> ClusterVariant[tuple[Task, ...]]:
    return replace(variant, plans=tuple(replace(plan, program=plan.program[:-4]) for plan in variant.plans))


def test_a_limit_counts_for_the_plans_of_states() -> None:
    text, states = MODELS["attention of plain ops"]
    bounds = "x:1~2,1~4,8;past_k:1~2,2,0~9,4;past_v:1~2,2,0~9,4"
    compiled = compiled_of(text, input_shape=bounds)
    arenas = {
        bool(cluster.states): max(planned_arena_bytes(plan.program) or 0 for plan in plans_of([cluster]))
        for cluster in compiled.clusters
    }
    content = writer.to_bytes(compiled)
    Session(content, threads=1, memory_limit=max(arenas.values())).bind_state(states, capacity=10)
    with pytest.raises(ResourceLimit, match="R0001"):
        session = Session(content, threads=1, memory_limit=max(arenas[True] - 1, 0))
        session.bind_state(states, capacity=10)


def test_a_cache_that_memory_cannot_hold() -> None:
    session = session_of(CONCAT)
    session.bind_state({"present": "past"}, capacity=MAX_DIM)
    with pytest.raises(ResourceLimit, match=r"R0001.*no memory for states"):
        session.run(None, {"x": steps(1, [1], 4)[0]})


def test_a_profile_of_a_step_adds_its_rows() -> None:
    session, x = decoder(4), steps(1, [1], 8)[0]
    for length in (1, 2, 3):
        assert session.profile({"x": x})
        assert session.state_length == length


@pytest.mark.slow
def test_the_example_generates_the_most_probable_tokens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(REPO / "models")
    import make_models

    path = make_models.write("small_decoder", tmp_path)
    convert(path, tmp_path / "decoder.om", convert_options({}))
    spec = importlib.util.spec_from_file_location("generate_text", REPO / "examples" / "generate_text.py")
    assert spec is not None and spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    text = example.generate(str(tmp_path / "decoder.om"), "ab", tokens=6)
    assert capsys.readouterr().out.endswith(" tokens/s\n")
    oracle = onnxruntime.InferenceSession(path)
    caches = [port.name for port in oracle.get_inputs() if port.name != "input_ids"]
    empty = {name: np.zeros((1, 4, 0, 16), np.float32) for name in caches}
    for end in range(2, 8):
        tokens = np.frombuffer(text[:end].encode("latin-1"), np.uint8)[None].astype(np.int64)
        [logits] = oracle.run(["logits"], {"input_ids": tokens, **empty})
        assert chr(logits[0, -1].argmax()) == text[end]


def test_what_is_put_behind_an_input_of_fixed_size_is_no_state() -> None:
    text = "(float[b,n,4] x, float[b,3,4] past) => (float[b,t,4] present) { present = Concat<axis=1>(past, x) }"
    session = session_of(text)
    with pytest.raises(UsageError, match=r"E13031.*\[b,3,4\] does not become"):
        session.bind_state({"present": "past"}, capacity=8)
    x = steps(1, [2, 3], 4)
    [present] = session.run(None, {"x": x[0], "past": x[1]})
    np.testing.assert_array_equal(present, np.concatenate([x[1], x[0]], axis=1))
