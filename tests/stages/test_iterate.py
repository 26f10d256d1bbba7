"""`convert --iterations_per_loop`: a package that runs its model again and again, compared with ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from atcpy import InferenceSession
from atcpy.errors import AtcError, PackageCorrupt
from atcpy.ir.tensor import Array
from atcpy.om import writer
from atcpy.om.reader import parse_package, read_model
from atcpy.options import convert_options
from atcpy.stages.pipeline import compile_model, convert
from atcpy.verify.verification import verify
from tests.models_in_text import model, package
from tests.ort import open_ort

RNN = """rnn (float[2,3] x, float[2,5] h) => (float[2,5] h2, float[2,4] y) <float[3,5] w, float[5,5] u, float[5,4] v> {
    a = MatMul(x, w) b = MatMul(h, u) s = Add(a, b) h2 = Tanh(s) y = MatMul(h2, v) }"""
CONV = """conv (float[1,3,8,8] x, float[1,16,8,8] h, float[16] z) => (float[1,16,8,8] h2, float mean)
    <float[16,3,3,3] w, float[16,16,3,3] u> {
    a = Conv<pads=[1,1,1,1]>(x, w) b = Conv<pads=[1,1,1,1]>(h, u, z) s = Add(a, b) h2 = Tanh(s)
    mean = ReduceMean<keepdims=0>(h2) }"""
CROSSWISE = "f (int64[1] a, int64[1] b) => (int64[1] c, int64[1] a2) { c = Add(a, b) a2 = Identity(b) }"
SCALARS = "g (float s, float unread, float[2] z) => (float t, float[2] z2) { t = Neg(s) z2 = Identity(z) }"

CASES: dict[str, tuple[str, Mapping[str, str], tuple[str, ...]]] = {
    "steps and states": (RNN, {"h2": "h"}, ("x",)),
    "no steps": (RNN, {"h2": "h"}, ()),
    "no states": (RNN, {}, ("x", "h")),
    "blocks of channels": (CONV, {"h2": "h"}, ("x", "z")),
    "states crosswise": (CROSSWISE, {"c": "b", "a2": "a"}, ()),
    "scalars, and an output that is an input": (SCALARS, {"t": "unread"}, ("s",)),
}


def random_feeds(session: InferenceSession) -> dict[str, Array]:
    rng = np.random.default_rng(3)
    return {
        port.name: np.asarray(4 * rng.standard_normal(port.shape), port.dtype.numpy)  # type: ignore[arg-type]
        for port in session.get_inputs()
    }


def by_onnxruntime(
    proto: onnx.ModelProto, feeds: Mapping[str, Array], n: int, states: Mapping[str, str], stepped: tuple[str, ...]
) -> list[Any]:
    session = open_ort(proto)
    now, names = dict(feeds), [port.name for port in session.get_outputs()]
    for i in range(n):
        results = session.run(names, {**now, **{name: feeds[name][i, ...] for name in stepped}})
        now |= {old: np.asarray(results[names.index(new)]) for new, old in states.items()}
    return list(results)


@pytest.mark.parametrize("n", [2, 3, 9])
@pytest.mark.parametrize("case", CASES)
def test_one_run_gives_what_onnxruntime_gives_after_n(case: str, n: int) -> None:
    text, states, stepped = CASES[case]
    options = {"iterations_per_loop": n, "state": states, "stepped": stepped}
    session = InferenceSession(package(text, options))
    feeds = random_feeds(session)
    shapes = {port.name: port.shape for port in session.get_inputs()}
    assert all((shapes[name] or ())[0] == n for name in stepped)
    for result, expected in zip(
        session.run(None, feeds), by_onnxruntime(model(text), feeds, n, states, stepped), strict=True
    ):
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_the_control_nodes_have_the_names_of_ge() -> None:
    read = read_model(parse_package(package(RNN, {"iterations_per_loop": 9, "state": "h2=h", "stepped": "x"})))
    [loop] = read.graph.nodes_of("Loop")
    assert (loop.name, loop.passes) == ("IteratorCtrl_StreamSwitch", ("FlowCtrlPass",))
    assert loop.operand(0).name == "npu_runconfig/iterations_per_loop"
    assert int(loop.operand(0).array) == 9
    [body] = loop.subgraphs
    assert body.inputs[0].name == "npu_runconfig/loop_cond"
    assert read.cmdline == "atcpy convert --iterations_per_loop=9 --state=h2=h --stepped=x"


@pytest.mark.parametrize("case", CASES)
def test_verify_runs_the_model_as_often(case: str, tmp_path: Path) -> None:
    text, states, stepped = CASES[case]
    onnx.save(model(text), tmp_path / "m.onnx")
    options = convert_options({"iterations_per_loop": 3, "state": states, "stepped": stepped})
    convert(tmp_path / "m.onnx", tmp_path / "m.om", options)
    assert verify(tmp_path / "m.om").passed


def test_verify_finds_what_differs(tmp_path: Path) -> None:
    source, target = tmp_path / "m.onnx", tmp_path / "m.om"
    onnx.save(model(RNN), source)
    convert(source, target, convert_options({"iterations_per_loop": 4, "state": "h2=h", "stepped": "x"}))
    assert verify(target, source).passed
    onnx.save(model(RNN.replace("Tanh", "Sin")), source)
    assert not verify(target, source).passed


@pytest.mark.parametrize(
    "words",
    [
        "--iterations_per_loop=3 --stepped=q",
        "--iterations_per_loop=3 --stepped=h",
        "--iterations_per_loop=3 --state=h2=q",
        "--iterations_per_loop=3 --state=q=h",
        "--iterations_per_loop=many",
        "--state=h2=h",
        "'",
    ],
)
def test_verify_refuses_iterations_that_a_package_cannot_have(words: str, tmp_path: Path) -> None:
    onnx.save(model(RNN), tmp_path / "m.onnx")
    compiled, _ = compile_model(tmp_path / "m.onnx", convert_options({"iterations_per_loop": 3, "state": "h2=h"}))
    writer.write(tmp_path / "m.om", replace(compiled, cmdline=f"atcpy convert {words}"))
    with pytest.raises(PackageCorrupt, match=r"P0005.*its command line"):
        verify(tmp_path / "m.om")


OPEN = "g (float[n,3] x, float[n,3] h) => (float[n,3] h2) { h2 = Add(h, x) }"
MEETING = 'g (float[3] x) => (float[3] y) { y = HcomAllReduce<reduction = "sum">(x) }'
REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "none": (RNN, {"iterations_per_loop": 0}, "E10013.*0 is outside 1..2147483647"),
    "absurdly many": (RNN, {"iterations_per_loop": 2**40}, "E10013"),
    "a text": (RNN, {"iterations_per_loop": "many"}, "E10014"),
    "a state without iterations": (RNN, {"state": "h2=h"}, "E10001.*--state: one run.*iterations_per_loop N"),
    "steps without iterations": (RNN, {"stepped": "x"}, "E10001.*--stepped: one run"),
    "no pair": (RNN, {"iterations_per_loop": 2, "state": "h2"}, '"h2" is no pair'),
    "an output bound twice": (RNN, {"iterations_per_loop": 2, "state": "h2=h;h2=x"}, 'output "h2" is bound twice'),
    "an input bound twice": (
        RNN,
        {"iterations_per_loop": 2, "state": "h2=h;y=h"},
        'two outputs are bound to input "h"',
    ),
    "an unknown output": (
        RNN,
        {"iterations_per_loop": 2, "state": "h3=h"},
        'E10001.*no output "h3".*outputs are h2, y',
    ),
    "an unknown input": (RNN, {"iterations_per_loop": 2, "state": "h2=q"}, 'E10001.*no input "q".*inputs are x, h'),
    "an unknown step": (RNN, {"iterations_per_loop": 2, "stepped": "q"}, 'E10001.*--stepped: no input "q"'),
    "a state that is stepped": (RNN, {"iterations_per_loop": 2, "state": "h2=h", "stepped": "h"}, '"h" is a state'),
    "another shape": (RNN, {"iterations_per_loop": 2, "state": "y=h"}, r"float32 \[2,4\] and float32 \[2,5\]"),
    "another type": (
        "g (int64 i) => (float j) { j = Cast<to=1>(i) }",
        {"iterations_per_loop": 2, "state": "j=i"},
        r"float32 \[\] and int64 \[\]",
    ),
    "an open dim": (OPEN, {"iterations_per_loop": 2, "state": "h2=h"}, r'E10055.*"x" is \[n,3\].*--input_shape'),
    "gears": (
        OPEN,
        {"iterations_per_loop": 2, "input_shape": "x:-1,3;h:-1,3", "dynamic_batch_size": "1,2"},
        "E10001.*--iterations_per_loop and --dynamic_batch_size",
    ),
    "collectives": (MEETING, {"iterations_per_loop": 2}, "E10055.*no collectives.*run --iterations"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str) -> None:
    text, options, message = REFUSED[case]
    with pytest.raises(AtcError, match="(?s)" + message):
        package(text, options)
