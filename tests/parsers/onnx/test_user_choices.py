"""--input_shape, --out_nodes and --static."""

from typing import Any

import onnx
import pytest

from atcpy.errors import UsageError
from atcpy.ir import Sym
from atcpy.ir.shape import Shape
from atcpy.options import DimRange, ParseOptions
from atcpy.parsers.onnx import import_onnx
from tests.parsers.onnx.canonical import parsed

TEXT = """<ir_version: 8, opset_import: ["" : 17]> g (float[N,3,H,8] image, float[N,4] state, float[] any) => (c, d) {
    [conv] c = Relu(image) [split] d, e = Split<axis = 1>(state) f = Neg(any) }"""
TEXT = TEXT.replace('"" : 17', '"" : 13')


def shapes(**options: Any) -> dict[str, Shape | None]:
    return {node.name: node.output.desc.shape for node in parsed(TEXT, **options).graph.inputs}


def refusal(**options: Any) -> UsageError:
    with pytest.raises(UsageError) as raised:
        import_onnx(onnx.parser.parse_model(TEXT), ParseOptions(**options))
    return raised.value


def test_fixing_a_symbol_fixes_all_its_uses() -> None:
    assert shapes(input_shape={"image": (2, 3, 16, 8)}) == {"image": (2, 3, 16, 8), "state": (2, 4), "any": None}


def test_conflicting_sizes_of_a_symbol_are_applied_per_input() -> None:
    input_shape = {"image": (2, 3, -1, 8), "state": (3, 4), "any": (5,)}
    assert shapes(input_shape=input_shape) == {"image": (2, 3, Sym("H"), 8), "state": (3, 4), "any": (5,)}


def test_ranges_stay_symbolic_and_are_recorded() -> None:
    graph = parsed(TEXT, input_shape={"image": (DimRange(1, 8), DimRange(1, 4), DimRange(32, None), 8)}).graph
    image = graph.inputs[0]
    assert image.output.desc.shape == (Sym("N"), 3, Sym("H"), 8)
    assert image.attrs["shape_range"] == (1, 8, 3, 3, 32, -1, 8, 8)
    assert parsed(TEXT, input_shape={"any": (-1, 2)}).graph.inputs[2].output.desc.shape == (Sym("any.0"), 2)


@pytest.mark.parametrize(
    ("input_shape", "code", "what", "hint"),
    [
        ({"imag": (1, 3, 8, 8)}, "E10016", '--input_shape: no input "imag" in the model', 'did you mean "image"?'),
        ({"c": (1,)}, "E10017", '--input_shape: "c" is not an input', 'the inputs are "image", "state", "any"'),
        ({"image": (1, 3, 8)}, "E10049", "--input_shape: image has rank 4 in the model, 3 given",
         'the model says --input_shape="image:-1,3,-1,8"'),
        ({"image": (1, 4, 8, 8)}, "E10050", "--input_shape: image dimension 1: the model says 3, not 4",
         "the model's shape is [N,3,H,8]"),
        ({"image": (1, DimRange(4, 6), 8, 8)}, "E10050",
         "--input_shape: image dimension 1: the model says 3, outside 4~6", "the model's shape is [N,3,H,8]"),
    ],
)  # fmt: skip
def test_wrong_shapes_are_refused(input_shape: Any, code: str, what: str, hint: str) -> None:
    error = refusal(input_shape=input_shape)
    assert (error.code, error.what, error.hint) == (code, what, hint)


@pytest.mark.parametrize(
    ("names", "outputs"),
    [(("c",), ["c"]), (("split:1",), ["e"]), (("split:1", "conv:0", "f"), ["e", "c", "f"]), (("c", "conv:0"), ["c"]),
     (("image",), ["image"])],
)  # fmt: skip
def test_outputs_are_selected_by_value_or_by_node(names: tuple[str, ...], outputs: list[str]) -> None:
    assert [value.name for value in parsed(TEXT, out_nodes=names).graph.outputs] == outputs


@pytest.mark.parametrize(
    ("name", "code", "what", "hint"),
    [
        ("split:2", "E11016", "--out_nodes: split has 2 outputs, 2 asked", "the first is 0"),
        ("splt:0", "E10016", '--out_nodes: no node "splt:0" in the model', 'did you mean "split"?'),
        ("state2", "E11017", '--out_nodes: no value "state2" in the model', 'did you mean "state"?'),
        ("conv", "E11017", '--out_nodes: no value "conv" in the model', '"conv" is a node: --out_nodes="conv:0"'),
    ],
)
def test_wrong_outputs_are_refused(name: str, code: str, what: str, hint: str) -> None:
    error = refusal(out_nodes=(name,))
    assert (error.code, error.what, error.hint) == (code, what, hint)


def test_an_output_with_an_index_is_refused_with_a_hint() -> None:
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (output_prob) { [last] output_prob = Relu(x) }'
    with pytest.raises(UsageError) as raised:
        parsed(text, out_nodes=("output_pro:0",))
    assert raised.value.hint == 'did you mean "output_prob"? ONNX outputs are named without an index'


def test_static_reports_every_input_with_symbolic_dims() -> None:
    error = refusal(static=True)
    assert [problem.code for problem in error.problems] == ["E11005"] * 3
    assert error.problems[0].hint == '--input_shape="image:<N>,3,<H>,8"'
    parsed(TEXT, static=True, input_shape={"image": (1, 3, 8, 8), "any": ()})


def test_wrong_shapes_and_wrong_outputs_are_reported_together() -> None:
    error = refusal(input_shape={"imag": (1,)}, out_nodes=("nothing",))
    assert sorted(problem.code for problem in error.problems) == ["E10016", "E11017"]
