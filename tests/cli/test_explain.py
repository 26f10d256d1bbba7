"""`atcpy explain F --fusion | --pass | --node | --engine`."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from tests.models_in_text import model as model_of

from .conftest import Invoke, Ran

# Conv + Relu twice: fused where nobody else reads the Conv; the third Conv's weights come at run time.
TEXT = """m (float[1,4,8,8] x, float[4,4,1,1] v) => (float[1,4,8,8] y, float[1,4,8,8] z, float[1,4,1,1] g)
<float[4,4,1,1] w, float[4,4,1,1] w2> {
    [first] a = Conv(x, w)
    [act] b = Relu(a)
    [second] c = Conv(b, w2)
    [act2] d = Relu(c)
    [pool] g = GlobalAveragePool(c)
    [third] e = Conv(d, v)
    [act3] y = Relu(e)
    [same] i = Identity(b)
    [neg] z = Abs(i)
}"""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("explain")
    model = model_of(TEXT)
    onnx.save(model, folder / "m.onnx")
    from atcpy.cli.app import execute

    assert execute(["convert", "--model", str(folder / "m.onnx"), "-o", str(folder / "m"), "-q"]) == 0
    return folder


@pytest.fixture(params=["m.om", "m.onnx"])
def subject(request: pytest.FixtureRequest, files: Path) -> Path:
    """A package, or its model, which is converted first."""
    return files / str(request.param)


def result(ran: Ran) -> list[dict[str, object]]:
    assert ran.code == 0, ran.err
    found: list[dict[str, object]] = ran.envelope["result"]
    return found


def test_a_fusion_tells_each_pair(invoke: Invoke, subject: Path) -> None:
    found = result(invoke("explain", subject, "--fusion", "Conv+Relu", "--json"))
    assert [(entry["nodes"], entry["fired"]) for entry in found] == [
        (["first", "act"], True),
        (["second", "act2"], False),
        (["third", "act3"], False),
    ]
    assert found[1]["pass"] == "ConvReluFusionPass"
    assert found[1]["reason"] == "second-consumer"
    assert found[1]["detail"] == {"value": "second", "consumer": "pool"}
    assert found[2]["unmet"] == ["weights-not-constant", "no-cube-producer"]


def test_a_fusion_in_words(invoke: Invoke, files: Path) -> None:
    lines = invoke("explain", files / "m.om", "--fusion", "Conv+Relu").out.splitlines()
    assert lines[0] == "fired 1 of 3.  second + act2: not fused: second has a second consumer pool; and 1 more"
    assert lines[1] == "               third + act3: not fused: third: weights-not-constant; and 1 more"
    assert lines[2] == "by  ConvReluFusionPass 1"


def test_what_nobody_fuses_is_said(invoke: Invoke, files: Path) -> None:
    out = invoke("explain", files / "m.om", "--fusion", "Relu+Abs").out
    assert "fired 0 of 1.  act + neg: not fused: no pass matched the pair" in out
    assert "no pass has a pattern in which Abs reads Relu" in out
    assert invoke("explain", files / "m.om", "--fusion", "Abs+Relu").out.startswith("fired 0 of 0.")


def test_a_pass_that_was_off_is_said(invoke: Invoke, files: Path) -> None:
    model = files / "m.onnx"
    out = invoke("explain", model, "--fusion", "Conv+Relu", "--skip_pass", "ConvReluFusionPass").out
    assert "ConvReluFusionPass has a pattern for it, and did not run: it was switched off" in out
    out = invoke("explain", model, "--pass", "ConvReluFusionPass", "--oo_level", "O1").out
    assert out.endswith("it runs from O2 on, this was O1\n")


def test_a_pass_tells_what_it_did_and_left_alone(invoke: Invoke, subject: Path) -> None:
    found = result(invoke("explain", subject, "--pass", "ConvReluFusionPass", "--json"))
    assert [(entry["nodes"], entry["fired"], entry["unmet"]) for entry in found] == [(["first", "act"], True, [])]
    out = invoke("explain", subject, "--pass", "ConvReluFusionPass").out
    assert out.splitlines()[0] == "ConvReluFusionPass  optimize: matched 1, applied 1"
    assert out.splitlines()[1] == "  fired  first + act"


def test_a_pass_tells_near_misses_first(invoke: Invoke, tmp_path: Path) -> None:
    text = """m (float[1,4,8,8] x) => (float[1,4,8,8] y, float[1,4,8,8] z)
        <float[4,4,1,1] w, float[4] g, float[4] b, float[4] m, float[4] v> {
            [one] a = Conv(x, w)
            [norm] y = BatchNormalization(a, g, b, m, v)
            [other] z = Abs(a)
        }"""
    onnx.save(model_of(text), tmp_path / "m.onnx")
    (miss,) = result(invoke("explain", tmp_path / "m.onnx", "--pass", "ConvBatchnormFusionPass", "--json"))
    assert (miss["nodes"], miss["reason"]) == (["one", "norm"], "second-consumer")
    assert miss["detail"] == {"value": "one", "consumer": "other"}
    out = invoke("explain", tmp_path / "m.onnx", "--fusion", "Conv+BatchNormalization").out
    assert out.startswith("fired 0 of 1.  one + norm: not fused: one has a second consumer other")


def test_a_node_tells_what_became_of_it(invoke: Invoke, files: Path) -> None:
    story = invoke("explain", files / "m.om", "--node", "act", "--json").envelope["result"]
    assert story["became"][0]["op"] == "FusedConv"
    assert set(story["became"][0]["sources"]) == {"first", "act"}
    assert story["became"][0]["passes"] == ["ConvReluFusionPass"]
    (task,) = story["became"][0]["tasks"]
    assert task["kernel"]
    assert {"offset", "bytes"} <= set(task["outputs"][0])
    out = invoke("explain", files / "m.om", "--node", "act", "--time").out
    assert "  became    FusedConv" in out
    assert "  engine    AIcoreEngine" in out
    assert "NC1HWC0, of [1,4,8,8]" in out
    assert "  memory    " in out
    assert "s\n" in next(line for line in out.splitlines(keepends=True) if "  kernel    " in line)


def test_a_node_that_is_gone_tells_why(invoke: Invoke, files: Path) -> None:
    out = invoke("explain", files / "m.om", "--node", "same").out
    assert "  removed   identity" in out
    assert "fired     IdentityPass: same" in out


def test_a_node_is_found_by_the_value_that_it_makes(invoke: Invoke, files: Path) -> None:
    assert "GlobalAveragePool pool" in invoke("explain", files / "m.om", "--node", "g").out


def test_an_engine_tells_its_nodes_and_why_they_are_not_elsewhere(invoke: Invoke, files: Path) -> None:
    found = result(invoke("explain", files / "m.om", "--engine", "AIcoreEngine", "--json"))
    assert [(entry["op"], entry["nodes"]) for entry in found] == [("Conv", ["second"]), ("FusedConv", ["first"])]
    lines = invoke("explain", files / "m.om", "--engine", "VectorEngine").out.splitlines()
    assert lines[0].startswith("VectorEngine runs ")
    assert "  Relu ×2  act2, act3   not on a cheaper engine: no-cube-producer" in lines


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--node", "firs"), "E10016"),
        (("--pass", "NoSuchPass"), "E10016"),
        (("--engine", "VectorEngin"), "E10001"),
        (("--fusion", "Conv"), "E10001"),
        (("--fusion", "Conv+"), "E10001"),
        (("--node", "a", "--pass", "b"), "E10056"),
        ((), "E10054"),
    ],
)
def test_wrong_questions(invoke: Invoke, files: Path, arguments: tuple[str, ...], code: str) -> None:
    ran = invoke("explain", files / "m.om", *arguments)
    assert ran.code == 2
    assert f"error[{code}]" in ran.err


def test_a_code_is_still_explained(invoke: Invoke) -> None:
    assert invoke("explain", "error[E10016]:").out.startswith("E10016  ")
    assert invoke("explain", "E99999").code == 2
