"""`verify --suggest`: which lowered nodes must keep their types, and the proof."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import atcpy
from atcpy.errors import AtcError
from atcpy.options import convert_options, repeated_options
from atcpy.precision_options import keep_file_text, read_keep_file
from atcpy.verify.compare import Tolerance
from atcpy.verify.fewest import shortest_beginning, without_needless
from atcpy.verify.suggestion import Suggestion, SuggestOutcome
from atcpy.verify.verification import VerifyReport, verify
from tests.models_in_text import model
from tests.verify.planted import plant

# The weights of large and of WIDE reach beyond float16.
OVERFLOWS = """net (float[4,64] x) => (float[4,8] y, float[4,8] z) <float[64,64] w> {
    [first] a = MatMul(x, w)  [act] b = Softmax(a)
    [large] c = MatMul(b, huge)  [relu] y = Relu(c)  [WIDE] d = MatMul(b, normal)  [abs] z = Abs(d) }"""
NODES = ("first", "act", "large", "relu", "WIDE", "abs")
FP16 = {"precision_mode_v2": "fp16"}


def saved(folder: Path, *, too_wide: bool = False) -> Path:
    """The model with weights beyond float16 at large, and at WIDE if asked for."""
    weights = np.abs(np.random.default_rng(0).standard_normal((64, 8))).astype(np.float32)
    whole = model(OVERFLOWS)
    whole.graph.initializer.append(numpy_helper.from_array(weights * 50_000, "huge"))
    whole.graph.initializer.append(numpy_helper.from_array(weights[::-1] * (35_000 if too_wide else 1), "normal"))
    onnx.save(whole, folder / "m.onnx")
    return folder / "m.onnx"


def suggestion_of(report: VerifyReport) -> Suggestion:
    assert report.suggestion is not None
    return report.suggestion


def passes_with(path: Path, kept: Sequence[str]) -> bool:
    package = path.with_name("one.om")
    atcpy.convert(path, package, keep_fp32=list(kept), **FP16) if kept else atcpy.convert(path, package, **FP16)
    return verify(package, path).passed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("too_wide", "needed"), [(False, {"large"}), pytest.param(True, {"large", "WIDE"}, marks=pytest.mark.slow)]
)
def test_just_the_nodes_that_lose_are_kept(tmp_path: Path, too_wide: bool, needed: set[str]) -> None:
    path, package, file = saved(tmp_path, too_wide=too_wide), tmp_path / "m.om", tmp_path / "new" / "keep.cfg"
    atcpy.convert(path, package, **FP16)
    report = verify(package, suggest=file)
    found = suggestion_of(report)
    assert not report.passed
    assert report.lowered == found.lowered == len(NODES)
    assert found.outcome is SuggestOutcome.FOUND
    assert {node.node for node in found.kept} == needed == set(file.read_text().split())
    assert all(node.own_error and node.allowed and node.own_error > 10 * node.allowed for node in found.kept)
    assert all(output.passed for output in found.outputs)
    assert found.trials <= 3 if len(needed) == 1 else found.trials <= 7  # the ranking has them first
    # No other choice of as many nodes does it, and none of fewer.
    enough = [
        set(some) for size in range(len(needed) + 1) for some in combinations(NODES, size) if passes_with(path, some)
    ]
    assert enough == [needed]
    # The package that was verified is the one that the file makes.
    atcpy.convert(path, tmp_path / "kept.om", keep_dtype=file, **FP16)
    again = verify(tmp_path / "kept.om", path)
    assert again.passed
    assert again.outputs == found.outputs
    assert again.lowered == found.left == len(NODES) - len(needed)


def test_a_bound_of_the_user_on_both_sides(tmp_path: Path) -> None:
    text = """net (float[4,32] x) => (float[4,8] y) <float[32,32] w, float[32,8] v> {
        [first] a = MatMul(x, w)  [act] b = Softmax(a)  [last] c = MatMul(b, v)  [end] y = Tanh(c) }"""
    onnx.save(model(text), tmp_path / "m.onnx")
    atcpy.convert(tmp_path / "m.onnx", tmp_path / "m.om", **FP16)
    error = verify(tmp_path / "m.om").outputs[0].max_abs
    loose = suggestion_of(verify(tmp_path / "m.om", tolerance=Tolerance(atol=error), suggest=tmp_path / "loose.cfg"))
    assert loose.outcome is SuggestOutcome.NOT_NEEDED
    assert not (tmp_path / "loose.cfg").exists()
    tight = suggestion_of(verify(tmp_path / "m.om", tolerance=Tolerance(atol=error / 2), suggest=tmp_path / "k.cfg"))
    assert tight.outcome is SuggestOutcome.FOUND
    assert 0 < len(tight.kept) < tight.lowered
    assert tight.outputs[0].max_abs <= error / 2 < error
    in_order = [name for name in ("first", "act", "last", "end") if name in {node.node for node in tight.kept}]
    assert (tmp_path / "k.cfg").read_text().split() == in_order


def test_the_search_ends_with_nodes_that_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("atcpy.verify.suggestion.MAX_TRIALS", 3)
    text = """net (float[4,32] x) => (float[4,8] y) <float[32,32] w, float[32,8] v> {
        [first] a = MatMul(x, w)  [act] b = Softmax(a)  [last] c = MatMul(b, v)  [end] y = Tanh(c) }"""
    onnx.save(model(text), tmp_path / "m.onnx")
    atcpy.convert(tmp_path / "m.onnx", tmp_path / "m.om", **FP16)
    tight = Tolerance(atol=verify(tmp_path / "m.om").outputs[0].max_abs / 2)
    found = suggestion_of(verify(tmp_path / "m.om", tolerance=tight, suggest=tmp_path / "keep.cfg"))
    assert (found.outcome, found.is_minimal) == (SuggestOutcome.FOUND, False)
    assert all(output.passed for output in found.outputs)


def test_what_the_package_keeps_already_stays_in_the_file(tmp_path: Path) -> None:
    path, old, new = saved(tmp_path, too_wide=True), tmp_path / "old.cfg", tmp_path / "new.cfg"
    old.write_text("WI?E  # a pattern\n")
    atcpy.convert(path, tmp_path / "m.om", keep_dtype=old, keep_fp32=["relu", "abs"], **FP16)
    found = suggestion_of(verify(tmp_path / "m.om", suggest=new))
    assert [node.node for node in found.kept] == ["large"]
    assert set(found.kept_before) >= {"WIDE"}
    assert {"large", "WIDE"} <= set(new.read_text().split())
    atcpy.convert(path, tmp_path / "kept.om", keep_dtype=new, keep_fp32=["relu", "abs"], **FP16)
    assert verify(tmp_path / "kept.om", path).passed


def test_where_no_list_helps_what_remains_is_shown(tmp_path: Path) -> None:
    path = saved(tmp_path)
    atcpy.convert(path, tmp_path / "m.om", **FP16)
    report = verify(tmp_path / "m.om", tolerance=Tolerance(atol=0.0, rtol=1e-12), suggest=tmp_path / "keep.cfg")
    found = suggestion_of(report)
    assert (found.outcome, found.path, found.kept, found.left) == (SuggestOutcome.IMPOSSIBLE, "", (), 0)
    assert not all(output.passed for output in found.outputs)
    assert max(output.max_abs / 1e4 for output in found.outputs) < 1e-3  # float32's error, not float16's
    assert not (tmp_path / "keep.cfg").exists()


def test_a_fault_of_the_package_itself_is_not_blamed_on_types(tmp_path: Path) -> None:
    text = "net (float[4,32] x) => (float[4,8] y) <float[32,8] w> { [mul] a = MatMul(x, w)  [act] y = Softmax(a) }"
    onnx.save(model(text), tmp_path / "m.onnx")
    atcpy.convert(tmp_path / "m.onnx", tmp_path / "m.om", precision_mode_v2="cube_fp16in_fp32out")
    assert verify(tmp_path / "m.om").passed
    plant(tmp_path / "m.om", 1, factor=100.0, share=1)
    found = suggestion_of(verify(tmp_path / "m.om", suggest=tmp_path / "keep.cfg"))
    assert found.outcome is SuggestOutcome.NOT_REPRODUCED
    assert not (tmp_path / "keep.cfg").exists()


def refusal(package: Path, tmp_path: Path, against: Path | None = None) -> AtcError:
    with pytest.raises(AtcError) as caught:
        verify(package, against, suggest=tmp_path / "keep.cfg")
    assert not (tmp_path / "keep.cfg").exists()
    return caught.value


def test_refusals(tmp_path: Path) -> None:
    path = saved(tmp_path)
    package = tmp_path / "m.om"
    atcpy.convert(path, package)
    error = refusal(package, tmp_path)
    assert (error.code, "is origin, and no node is lowered" in error.what) == ("E10057", True)
    (tmp_path / "mix.json").write_text('{"black-list": {"to-add": ["Relu"]}}')
    atcpy.convert(path, package, precision_mode_v2="mixed_float16", modify_mixlist=tmp_path / "mix.json")
    error = refusal(package, tmp_path)
    assert (error.code, "--modify_mixlist" in error.what) == ("E10055", True)
    atcpy.convert(path, package, **FP16)
    other = onnx.load(path)
    other.doc_string = "another file"
    onnx.save(other, tmp_path / "other.onnx")
    assert refusal(package, tmp_path, tmp_path / "other.onnx").code == "E10054"
    path.unlink()
    assert refusal(package, tmp_path).code == "E10054"
    with pytest.raises(AtcError):
        verify(package, tmp_path / "other.onnx", suggest=tmp_path)  # a folder, seen before anything runs


@pytest.mark.parametrize(
    "name",
    ["a b", " a", "a#b", "a\nb", "OpType::Relu", "a\u2028b", "é", "\ufeffa", "a*b", "a\ud800"],
)
def test_any_name_can_be_listed(tmp_path: Path, name: str) -> None:
    from atcpy.passes.prepare.precision.choice import _Entries

    (tmp_path / "keep.cfg").write_text(keep_file_text([name]), encoding="utf-8")
    lines = read_keep_file("keep_dtype", str(tmp_path / "keep.cfg")).lines
    assert not list(_Entries((line, line) for line in lines).unused({name}))
    assert len(lines) == 1


def test_options_are_repeated_as_they_were() -> None:
    options = convert_options(
        {
            "precision_mode_v2": "mixed_float16", "keep_fp32": ["a", "b c", "OpType::Relu"], "oo_level": "O1",
            "input_shape": "x:1,2;y:3", "is_weight_clip": 0, "skip_pass": ["ConvReluFusionPass"], "max_growth": 2.5,
        },
        recorded={"log": "error"},
    )  # fmt: skip
    again = repeated_options(options.atc_cmdline, {"threads": 1})
    assert again.atc_cmdline == options.atc_cmdline
    assert again.prepare == options.prepare
    assert again.parse == options.parse
    with pytest.raises(AtcError) as caught:
        repeated_options("atcpy convert '--keep_fp32", {})
    assert caught.value.code == "P0005"


@pytest.mark.parametrize("needed", [{0}, {11}, {3, 9}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, {5, 6, 7}])
def test_searches_end_with_what_is_needed(needed: set[int]) -> None:
    names = [str(number) for number in range(12)]

    def is_enough(some: Sequence[str]) -> bool:
        return needed <= {int(name) for name in some}

    beginning = shortest_beginning(names, 1, len(names), is_enough)
    assert beginning == names[: max(needed) + 1]
    assert without_needless(beginning, is_enough) == [str(number) for number in sorted(needed)]
