"""Recurrence against its definition in numpy on every instruction set; LSTM, GRU and RNN against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from atcpy.errors import ModelInvalid
from atcpy.ir import DType, Graph, Tensor, TensorDesc
from atcpy.ir.tensor import Array
from atcpy.kernels import _kernels
from atcpy.om import reader, writer
from atcpy.ops.core.reference import known_constant
from atcpy.ops.recurrent import infer_recurrence
from atcpy.options import ConvertOptions
from atcpy.runtime import InferenceSession
from atcpy.stages.pipeline import compile_model
from tests.effort import trials
from tests.harness import make_node, run_op
from tests.isa import ISAS

GATES = {"lstm": 4, "gru": 3, "rnn": 1}
DIRECTIONS = ["forward", "reverse", "bidirectional"]
FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "Tanh": np.tanh,
    "Relu": lambda x: np.maximum(x, 0),
    "Softsign": lambda x: x / (1 + np.abs(x)),
}


def floats(rng: np.random.Generator, *shape: int) -> Array:
    return (rng.standard_normal(shape) / 2).astype(np.float32)


# --- Recurrence --------------------------------------------------------------------------------


def run_row(
    x: Array, r: Array, rb: Array, p: Array, h: Array, c: Array, attrs: Mapping[str, object], acts: Sequence[str]
) -> tuple[list[Array], Array, Array]:
    """All time steps of one batch row in one direction, in float64; x is [steps, gates, hidden]."""
    f, g, last = (FUNCTIONS[name] for name in (*acts, "Tanh", "Tanh")[:3])
    clip = float(str(attrs["clip"])) or np.inf

    def gate(function: Callable[[Array], Array], value: Array) -> Array:
        return function(np.clip(value, -clip, clip))

    hs: list[Array] = []
    for step in x.astype(np.float64):
        if attrs["kind"] == "lstm":
            i, o, forget, cell = (step[k] + h @ r[k] for k in range(4))
            i = gate(f, i + p[0] * c)
            forget = 1 - i if attrs["input_forget"] else gate(f, forget + p[2] * c)
            c = forget * c + i * gate(g, cell)
            h = gate(f, o + p[1] * c) * last(c)
        elif attrs["kind"] == "gru":
            z, reset = (gate(f, step[k] + h @ r[k]) for k in range(2))
            late = attrs["linear_before_reset"]
            h = (1 - z) * gate(g, step[2] + (reset * (h @ r[2] + rb) if late else (reset * h) @ r[2])) + z * h
        else:
            h = gate(f, step[0] + h @ r[0])
        hs.append(h)
    return hs, h, c


@pytest.mark.parametrize("isa", ISAS)
@settings(max_examples=trials(40), deadline=None)
@given(
    kind=st.sampled_from(list(GATES)),
    direction=st.sampled_from(DIRECTIONS),
    sizes=st.tuples(st.integers(0, 4), st.integers(0, 9), st.sampled_from([1, 7, 8, 16, 17, 33])),
    flags=st.tuples(*[st.booleans()] * 6),
    acts=st.sampled_from([("Sigmoid", "Tanh", "Tanh"), ("Softsign", "Relu", "Tanh")]),
    clip=st.sampled_from([0.0, 0.25]),
)
def test_recurrence_agrees_with_the_definition(
    isa: str,
    kind: str,
    direction: str,
    sizes: tuple[int, int, int],
    flags: tuple[bool, ...],
    acts: tuple[str, ...],
    clip: float,
) -> None:
    (steps, batch, n), (packed, has_lens, has_state, late, coupled, by_row) = sizes, flags
    d, gates, rng = 1 + (direction == "bidirectional"), GATES[kind], np.random.default_rng(n * 10 + batch)
    names = acts[: {"lstm": 3, "gru": 2, "rnn": 1}[kind]]
    attrs: dict[str, object] = {
        "kind": kind, "direction": direction, "layout": int(by_row), "clip": clip, "linear_before_reset": int(late),
        "input_forget": int(coupled), "activations": names * d,
        "activation_alpha": (0.0,) * len(names) * d, "activation_beta": (0.0,) * len(names) * d,
    }  # fmt: skip
    x, r = floats(rng, batch, steps, d, gates, n), floats(rng, d, gates, n, n)
    rb, p, h, c = floats(rng, d, n), floats(rng, d, 3, n), floats(rng, batch, d, n), floats(rng, batch, d, n)
    lens = rng.integers(0, steps + 1, batch).astype(np.int32)
    y, ends = np.zeros((batch, steps, d, n)), [np.zeros((batch, d, n)) for _ in range(2)]
    for row in range(batch):
        for way in range(d):
            length = int(lens[row]) if has_lens else steps
            begins = has_state and (length > 0 or not has_lens)
            zero = np.zeros(n)
            order = slice(None, None, -1 if way or direction == "reverse" else 1)
            hs, ends[0][row, way], ends[1][row, way] = run_row(
                x[row, :length, way][order], r[way], rb[way], p[way] if kind == "lstm" else np.zeros((3, n)),
                h[row, way] if begins else zero, c[row, way] if begins else zero, attrs, names,
            )  # fmt: skip
            if length:
                y[row, :length, way] = hs[order]
    sums = np.ascontiguousarray(x if by_row else x.swapaxes(0, 1))
    sums = sums.reshape(*sums.shape[:2], d * gates * n)
    state = (lambda a: a) if by_row else (lambda a: np.ascontiguousarray(a.swapaxes(0, 1)))
    peepholes = p.reshape(d, 3 * n) if kind == "lstm" else None
    arrays = [
        sums, r, rb if kind == "gru" else None, peepholes, lens if has_lens else None,
        state(h) if has_state else None, state(c) if has_state and kind == "lstm" else None,
    ]  # fmt: skip
    outputs = 3 if kind == "lstm" else 2
    node = make_node("Recurrence", arrays, attrs, constants=[1] if packed else [], outputs=outputs)
    ours = run_op(node, arrays, isa=isa, threads=2)
    expected = [y if by_row else y.transpose(1, 2, 0, 3), *[state(end) for end in ends]]
    for value, reference in zip(ours, expected, strict=False):
        np.testing.assert_allclose(value, reference, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("isa", ISAS)
def test_a_length_beyond_the_steps_is_a_fault(isa: str) -> None:
    rng = np.random.default_rng(0)
    attrs = {"kind": "rnn", "activations": ("Tanh",), "activation_alpha": (0.0,), "activation_beta": (0.0,)}
    arrays = [floats(rng, 3, 1, 4), floats(rng, 1, 1, 4, 4), None, None, np.array([4], np.int32)]
    with pytest.raises(_kernels.Fault):
        run_op(make_node("Recurrence", arrays, attrs), arrays, isa=isa)


# --- the ops of ONNX ---------------------------------------------------------------------------


def recurrent_model(
    op: str, steps: int, batch: int, hidden: int, *, results: str = "yhc", states: bool = True, constant: bool = True,
    bias: bool = True, **attrs: object,
) -> tuple[onnx.ModelProto, dict[str, Array]]:  # fmt: skip
    """Build a model of one op, and inputs for it."""
    rng, gates = np.random.default_rng(3), GATES[op.lower()]
    d, by_row = 1 + (attrs.get("direction") == "bidirectional"), attrs.get("layout") == 1
    state = (batch, d, hidden) if by_row else (d, batch, hidden)
    arrays = {
        "x": floats(rng, *((batch, steps) if by_row else (steps, batch)), 5),
        "w": floats(rng, d, gates * hidden, 5),
        "r": floats(rng, d, gates * hidden, hidden),
    }
    if bias:
        arrays["b"] = floats(rng, d, 2 * gates * hidden)
    if states:
        arrays |= {"h": floats(rng, *state)} | ({"c": floats(rng, *state)} if op == "LSTM" else {})
    if op == "LSTM" and states:
        arrays["p"] = floats(rng, d, 3 * hidden)
    names = ["x", "w", "r", "b", "", "h"] + (["c", "p"] if op == "LSTM" else [])
    outputs = [f"y{letter}" if letter in results else "" for letter in ("yhc" if op == "LSTM" else "yh")]
    feeds = {name: array for name, array in arrays.items() if name in "xhc" or not constant}
    graph = helper.make_graph(
        [
            helper.make_node(
                op, [name if name in arrays else "" for name in names], outputs, hidden_size=hidden, **attrs
            )
        ],
        op,
        [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, array.shape) for name, array in feeds.items()],
        [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in outputs if name],
        [numpy_helper.from_array(array, name) for name, array in arrays.items() if name not in feeds],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10), feeds


CASES: dict[str, tuple[str, dict[str, object]]] = {
    "lstm with all": ("LSTM", {"direction": "bidirectional"}),
    "lstm without states": ("LSTM", {"states": False, "direction": "reverse", "results": "y"}),
    "lstm, coupled and clipped": ("LSTM", {"input_forget": 1, "clip": 0.3, "results": "c"}),
    "lstm, weights computed": ("LSTM", {"constant": False, "results": "h"}),
    "lstm, other activations": (
        "LSTM",
        {
            "direction": "bidirectional",
            "activations": ["HardSigmoid", "LeakyRelu", "Tanh", "Affine", "ScaledTanh", "Elu"],
            "activation_alpha": [0.3, 0.05, 0.5, 0.6, 0.7],
            "activation_beta": [0.4, 0.1, 0.2],
        },
    ),
    "gru": ("GRU", {"direction": "bidirectional"}),
    "gru, linear before reset": ("GRU", {"linear_before_reset": 1, "results": "h"}),
    "gru, reset behind, weights computed": ("GRU", {"linear_before_reset": 1, "constant": False}),
    "gru without bias": ("GRU", {"bias": False, "linear_before_reset": 1, "clip": 0.2}),
    "rnn": ("RNN", {"direction": "bidirectional", "activations": ["Softplus", "ThresholdedRelu"],
                    "activation_alpha": [0.2]}),
}  # fmt: skip


_BOUNDED = ("lstm with all", "lstm, weights computed", "gru", "gru, reset behind, weights computed")


@pytest.mark.parametrize(
    ("case", "batch", "hidden"),
    # The last panel of 17 is one vector, that of 27 two.
    [*((case, 3, 17) for case in CASES), *((case, 6, 27) for case in _BOUNDED)],
)
def test_agrees_with_onnx_runtime(case: str, batch: int, hidden: int) -> None:
    op, options = CASES[case]
    model, feeds = recurrent_model(op, 4, batch, hidden, **options)  # type: ignore[arg-type]
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    check(model, feeds, session.run(None, feeds))


@pytest.mark.parametrize("op", ["LSTM", "GRU", "RNN"])
def test_batch_first_agrees_with_the_reference(op: str) -> None:
    model, feeds = recurrent_model(op, 4, 3, 17, layout=1, states=False)
    check(model, feeds, ReferenceEvaluator(model).run(None, feeds))  # type: ignore[arg-type]


def check(model: onnx.ModelProto, feeds: Mapping[str, Array], expected: Sequence[Array]) -> None:
    package = writer.to_bytes(compile_model(model, ConvertOptions())[0])
    assert {task.kernel for task in reader.parse_package(package).tasks} >= {"matmul", "recurrent"}
    names = [value.name for value in model.graph.output]
    for ours, theirs in zip(InferenceSession(package, threads=1).run(names, dict(feeds)), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-6, atol=3e-6)


@pytest.mark.parametrize(
    "attrs", [{"activations": ["Sigmoid"]}, {"activations": ["Sigmoid", "Tanh", "Sine"]}, {"direction": "reverse "}]
)
def test_unknown_activations_and_directions_are_refused(attrs: dict[str, object]) -> None:
    model, _ = recurrent_model("LSTM", 2, 2, 3, **attrs)  # type: ignore[arg-type]
    with pytest.raises(ModelInvalid):
        compile_model(model, ConvertOptions())


@pytest.mark.parametrize("shape", [(4, 8), (4, 1, 1, 8)])
def test_sums_of_another_rank_are_invalid(shape: tuple[int, ...]) -> None:
    graph = Graph("g")
    x = graph.append("Data", name="x").output
    x.desc = TensorDesc.plain(DType.FLOAT32, shape)
    r = graph.add_const(Tensor.of(np.zeros((1, 4, 2, 2), np.float32)), "r")
    node = graph.append("Recurrence", [x, r])
    with pytest.raises(ModelInvalid, match=f"sums of rank {len(shape)}, 3 is needed"):
        infer_recurrence(node, known_constant)
