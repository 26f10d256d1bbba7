"""The sizes that a package of open dims is verified at."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

import atcpy
from atcpy.errors import AtcError
from atcpy.ir import DType
from atcpy.verify.inputs import Port
from atcpy.verify.sizes import find_sums, more_trials, trials
from atcpy.verify.verification import verify
from tests.e2e.test_real_models import MODELS, needs_models
from tests.models_in_text import model

MASKED = """net (float[b,new] x, float[b,past] p, float[b,all] mask) => (float[b,all] y, float[b,all] c) {
    c = Concat<axis = 1>(p, x)  d = Mul(c, mask)  y = Tanh(d) }"""


def compiled(folder: Path, text: str) -> Path:
    onnx.save(model(text), folder / "m.onnx")
    atcpy.convert(folder / "m.onnx", folder / "m.om")
    return folder / "m.om"


def port(name: str, *shape: int | str | None) -> Port:
    return Port(name, DType.FLOAT32, shape)


def sizes_of(text: str) -> dict[str, tuple[int, ...]]:
    return {name: tuple(map(int, dims.split(","))) for name, dims in (part.split(":") for part in text.split(";"))}


def test_a_dim_that_is_a_sum_of_others_gets_it(tmp_path: Path) -> None:
    report = verify(compiled(tmp_path, MASKED))
    assert report.passed
    assert len(report.shapes) == 3
    for shapes in map(sizes_of, report.shapes):
        assert shapes["mask"][1] == shapes["x"][1] + shapes["p"][1] > 2


def test_sizes_of_the_user_count_in_sums(tmp_path: Path) -> None:
    report = verify(compiled(tmp_path, MASKED), shapes={"p": (2, 5)})
    for shapes in map(sizes_of, report.shapes):
        assert (shapes["p"], shapes["x"][0]) == ((2, 5), 2)
        assert shapes["mask"] == (2, 5 + shapes["x"][1])


def test_a_dim_behind_the_first_may_be_the_batch(tmp_path: Path) -> None:
    report = verify(compiled(tmp_path, "net (float[b,n] x, float[4,c] s) => (float[4,n] y) { y = MatMul(s, x) }"))
    assert report.passed
    assert len(report.shapes) == 3
    assert all(shapes["x"][0] == shapes["s"][1] for shapes in map(sizes_of, report.shapes))


def test_a_dim_may_be_a_sum_that_no_output_shows(tmp_path: Path) -> None:
    text = """net (float[b,n] x, float[b,k] p, float[4,t] w) => (float[4,b] y) {
        c = Concat<axis = 1>(x, p)  d = Transpose<perm = [1, 0]>(c)  y = MatMul(w, d) }"""
    report = verify(compiled(tmp_path, text))
    assert report.passed
    assert len(report.shapes) == 3
    assert all(s["w"][1] == s["x"][1] + s["p"][1] for s in map(sizes_of, report.shapes))


@pytest.mark.slow
def test_where_no_sizes_do_the_user_is_asked_for_all(tmp_path: Path) -> None:
    text = """net (float[b,n] x, float[b,3,k] z) => (float[m,97] y) {
        s = Constant<value_ints = [-1, 97]>()  r = Reshape(x, s)  t = ReduceSum<keepdims = 0>(z)  y = Mul(r, t) }"""
    package = compiled(tmp_path, text)
    with pytest.raises(AtcError) as caught:
        verify(package)
    assert (caught.value.code, caught.value.exit_code) == ("V0003", 3)
    assert '--shape "x=1,1" --shape "z=1,3,1"' in caught.value.hint
    assert verify(package, shapes={"x": (2, 97)}).passed


def test_only_sums_of_known_names_count() -> None:
    ports = [port("x", "a", "b"), port("y", "c", "d"), port("z", None, 4)]
    both = {"o": ("c", "d", "b", "e", None)}
    right = {"(a+b)": ("a", "b"), "a+b+2": ("a", "b", 2)}
    for text, found in {**right, **dict.fromkeys(("(a+q)", "(a*b)", "a", "(c+1)", "(a+-1)"))}.items():
        sums = find_sums(ports, both, {"o": (text, 3, "b"), "other": ("(a+b)",)})
        assert sums == ({} if found is None else {"c": found})
    # None is computed of itself by way of another.
    assert find_sums(ports, both, {"o": ("(d+1)", "(c+1)", "(c+a)")}) == {"c": ("d", 1)}


def test_the_number_of_trials_is_bounded() -> None:
    ports = [port("x", "b", *(f"n{number}" for number in range(20)))]
    assert len(list(more_trials(ports))) <= (15 + 12) * 12
    assert not list(more_trials([port("x", "b", 3)]))
    sizes = [tuple(port.shape for port in sized) for sized in (*trials(ports), *more_trials(ports))]
    assert len(set(sizes)) > 100


@needs_models
@pytest.mark.slow
@pytest.mark.parametrize("name", ["tiny_gpt2_past", "silero_vad", "ppocr_v2_cls"])
def test_real_models_need_no_sizes(tmp_path: Path, name: str) -> None:
    atcpy.convert(MODELS / f"{name}.onnx", tmp_path / "m.om")
    report = verify(tmp_path / "m.om", MODELS / f"{name}.onnx")
    assert report.passed
    assert len(report.shapes) == 3
