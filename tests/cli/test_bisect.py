"""`atcpy passes bisect` with passes that are broken on purpose."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from atcpy.debug import trials
from atcpy.ir import Graph, Match, PassRecord, Rewriter, Value
from atcpy.ir.pattern import const, op, var
from atcpy.passes import base
from atcpy.passes.fusion import Fusion
from atcpy.passes.phase import Phase
from atcpy.stages.pipeline import compile_model
from tests.models_in_text import model as model_of

from .conftest import REPO, Invoke

BROKEN_MATCH = 3


@pytest.fixture
def broken_relu() -> Iterator[str]:
    """A pass that makes the third Relu a LeakyRelu."""
    with registered("BrokenReluPass"):

        class BrokenRelu(Fusion, switch="BrokenReluPass", phase=Phase.RECOGNISE):
            """Break one Relu."""

            pattern = op("Relu", var("x"))

            def run(self, graph: Graph, record: PassRecord, options: object) -> None:
                self.seen = 0
                super().run(graph, record, options)

            def replacement(self, m: Match, rw: Rewriter) -> Value:
                self.seen += 1
                return rw.op("LeakyRelu", m["x"], alpha=0.5 if self.seen == BROKEN_MATCH else 0.0)

        yield BrokenRelu.switch


@pytest.fixture
def lost_bias() -> Iterator[str]:
    """A pass that drops the bias of each Gemm."""
    with registered("LostBiasPass"):

        class LostBias(Fusion, switch="LostBiasPass", phase=Phase.RECOGNISE):
            """Drop a bias."""

            pattern = op("Gemm", var("x"), const("w"), const("b"), name="gemm")

            def replacement(self, m: Match, rw: Rewriter) -> Value:
                return rw.op("Gemm", m["x"], m["w"], **m.node("gemm").attrs)

        yield LostBias.switch


@pytest.fixture
def broken_required() -> Iterator[str]:
    """A required pass that breaks all."""
    with registered("BrokenRequiredPass"):

        @base.graph_pass("BrokenRequiredPass", Phase.RECOGNISE, required=True)
        def breaks(graph: Graph, record: PassRecord, options: object) -> None:
            """Break each Relu."""
            for node in graph.nodes:
                if node.op_type == "Relu":
                    node.op_type = "Sigmoid"

        yield "BrokenRequiredPass"


class registered:
    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        from atcpy.stages import pipeline

        assert pipeline  # the order of all passes is known before one is added

    def __exit__(self, *_: object) -> None:
        base._REGISTRY.pop(self._name, None)


@pytest.fixture
def chain(tmp_path: Path) -> Path:
    """Six times MatMul, Add, Relu."""
    lines = ["h0 = Identity(x)"]
    for i in range(6):
        lines += [f"m{i} = MatMul(h{i}, w)", f"a{i} = Add(m{i}, b)", f"h{i + 1} = Relu(a{i})"]
    text = f"chain (float[2,8] x) => (float[2,8] y) <float[8,8] w, float[8] b> {{ {' '.join(lines)} y = Neg(h6) }}"
    onnx.save(model_of(text), tmp_path / "chain.onnx")
    return tmp_path / "chain.onnx"


def test_the_pass_and_the_match_are_found(invoke: Invoke, chain: Path, broken_relu: str) -> None:
    ran = invoke("passes", "bisect", chain, "-o", chain.parent / "repro", "--json")
    assert ran.code == 5
    result = ran.envelope["result"]
    assert result["culprit"]["name"] == broken_relu
    assert (result["culprit"]["match"], result["culprit"]["applied"]) == (BROKEN_MATCH, 6)
    assert result["culprit"]["nodes"] == [["Relu", "h3"]]
    assert result["pass_runs"] <= max(result["bound"], 3)
    assert result["match_runs"] <= 3
    assert not result["required"]


def test_text_tells_each_run_and_the_way_out(invoke: Invoke, chain: Path, broken_relu: str) -> None:
    ran = invoke("passes", "bisect", chain, "--verify", "-o", chain.parent / "repro")
    lines = ran.out.splitlines()
    assert lines[0] == "run 1   BAD  all passes on"
    assert f"culprit  {broken_relu}   match 3 of 6: Relu h3" in lines
    assert f"--skip_pass={broken_relu}" in lines[-1]
    assert ran.err.startswith("error[V0001]")


def test_the_reproducer_is_small_and_shows_the_fault(invoke: Invoke, chain: Path, lost_bias: str) -> None:
    text = """m (float[2,4] x) => (float[2,4] y) <float[4,4] w, float[4] b> {
        a = Neg(x) c = Gemm(a, w, b) d = Abs(c) y = Gemm(d, w, b)
    }"""
    onnx.save(model_of(text), chain)
    repro = chain.parent / "out"
    ran = invoke("passes", "bisect", chain, "--reduce", "-o", repro)
    assert ran.code == 5
    part = onnx.load(repro / "model.onnx")
    assert [node.op_type for node in part.graph.node] == ["Gemm"]
    feeds = np.load(repro / "inputs.npz")
    assert [value.name for value in part.graph.input] == feeds.files == ["a"]
    assert lost_bias in (repro / "README.md").read_text(encoding="utf-8")
    assert "it is right" in ran.out
    again = invoke(
        "convert", "--model", repro / "model.onnx", "-o", repro / "m", "--verify", "--input_data", repro / "inputs.npz"
    )
    assert again.code == 5
    skipped = invoke(
        "convert", "--model", repro / "model.onnx", "-o", repro / "m", "--verify", f"--skip_pass={lost_bias}"
    )
    assert skipped.code == 0


def test_a_pass_that_the_result_needs_is_told_apart(invoke: Invoke, chain: Path, broken_required: str) -> None:
    result = invoke("passes", "bisect", chain, "-o", chain.parent / "repro", "--json").envelope["result"]
    assert (result["broken"], result["required"], result["culprit"]) == (True, True, None)
    ran = invoke("passes", "bisect", chain, "-o", chain.parent / "repro")
    assert "no pass is to blame that can be switched off" in ran.out


def test_a_sound_model_needs_one_run(invoke: Invoke, chain: Path) -> None:
    ran = invoke("passes", "bisect", chain, "-o", chain.parent / "repro")
    assert ran.code == 0
    assert ran.out.splitlines()[-1] == f"nothing to find: {chain} passes with all passes on"
    assert ran.out.count("run ") == 1


@pytest.mark.slow
def test_a_command_of_the_users_decides(
    invoke: Invoke, chain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(REPO))
    script = tmp_path / "check.py"
    script.write_text(
        "import sys, atcpy.om.reader as r; from atcpy.om.container import Verify; from pathlib import Path\n"
        "graph = r.read_model(r.read_package(Path(sys.argv[1]), verify=Verify.FULL)).graph\n"
        "print('noise'); sys.exit(not any('h0' in n.sources for n in graph.nodes))\n"
    )
    check = f"{sys.executable} {script} {{}}"
    ran = invoke("passes", "bisect", chain, "--check", check, "-o", tmp_path / "repro", "--json")
    culprit = ran.envelope["result"]["culprit"]
    assert (culprit["name"], culprit["match"]) == ("IdentityPass", 1)


def test_resume_goes_on_from_what_is_known(
    invoke: Invoke, chain: Path, broken_relu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    repro = chain.parent / "repro"
    first = invoke("passes", "bisect", chain, "-o", repro, "--json").envelope["result"]
    state = json.loads((repro / "bisect.json").read_text())
    forgotten = list(state["outcomes"])[-1]
    del state["outcomes"][forgotten]
    (repro / "bisect.json").write_text(json.dumps(state))
    compiled = []

    def counted(*arguments: Any) -> Any:
        compiled.append(arguments)
        return compile_model(*arguments)

    monkeypatch.setattr(trials, "compile_model", counted)
    again = invoke("passes", "bisect", chain, "-o", repro, "--resume", "--json").envelope["result"]
    assert again == first
    assert len(compiled) == 1
    assert invoke("passes", "bisect", chain, "-o", repro, "--resume", "--random", "1").code == 2
    assert invoke("passes", "bisect", chain, "-o", repro / "nothing", "--resume").code == 2
    for damage in ({"good": True}, [], {**next(iter(state["outcomes"].values())), "applied": {"A": {"count": 1}}}):
        damaged = {**state, "outcomes": {**state["outcomes"], forgotten: damage}}
        (repro / "bisect.json").write_text(json.dumps(damaged))
        assert invoke("passes", "bisect", chain, "-o", repro, "--resume").code == 2
    (repro / "bisect.json").write_text("[" * 20_000)
    assert invoke("passes", "bisect", chain, "-o", repro, "--resume").code == 2


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        ((), "E10054", "a model is required"),
        (("nope.onnx",), "E10410", "does not exist"),
        (("CHAIN", "--check", "x", "--verify"), "E10056", "--check and --verify"),
        (("CHAIN", "--check", "no-such-command-here"), "E13001", "no-such-command-here"),
        (("CHAIN", "--skip_pass", "NoSuch"), "E10016", "NoSuch"),
    ],
)
def test_wrong_arguments(invoke: Invoke, chain: Path, arguments: tuple[str, ...], code: str, word: str) -> None:
    command = [str(chain) if argument == "CHAIN" else argument for argument in arguments]
    ran = invoke("passes", "bisect", *command, "-o", chain.parent / "repro")
    assert ran.code == 2
    assert f"error[{code}]" in ran.err
    assert word in ran.err


def test_a_pass_that_raises_is_found(invoke: Invoke, chain: Path) -> None:
    with registered("RaisingPass"):

        @base.graph_pass("RaisingPass", Phase.RECOGNISE)
        def raises(graph: Graph, record: PassRecord, options: object) -> None:
            """Raise."""
            record.applied += 1
            raise RuntimeError("a bug")

        ran = invoke("passes", "bisect", chain, "-o", chain.parent / "repro", "--json")
        assert ran.envelope["result"]["culprit"]["name"] == "RaisingPass"
