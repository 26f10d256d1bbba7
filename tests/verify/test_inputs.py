import numpy as np
import onnx
import pytest

from atcpy.errors import UsageError
from atcpy.ir import DType
from atcpy.verify.inputs import Fill, Port, integer_bounds, make_array, make_feeds


def bounds(body: str, inputs: str = "int64[4] ids") -> dict[str, int]:
    text = (
        f'<ir_version: 8, opset_import: ["" : 17]> g ({inputs}, float[7,3] table, float[5,3] other) => (y) {{ {body} }}'
    )
    return integer_bounds(onnx.parser.parse_model(text))


def test_ids_stay_within_the_table_that_they_index() -> None:
    assert bounds("y = Gather<axis = 0>(table, ids)") == {"ids": 7}
    assert bounds("y = Gather<axis = -1>(table, ids)") == {"ids": 3}


def test_the_smallest_table_bounds_ids_also_through_views() -> None:
    body = "a = Gather(table, ids) c = Cast<to = 6>(ids) u = Identity(c) b = Gather(other, u) y = Add(a, b)"
    assert bounds(body) == {"ids": 5}


def test_masks_are_zero_and_one_even_where_they_index() -> None:
    assert bounds("y = Gather(table, token_type_ids)", "int64[4] token_type_ids") == {"token_type_ids": 2}


def test_metadata_takes_precedence() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17], metadata_props: ["below:ids": "30"]>
              g (int64[4] ids) => (y) { y = Neg(ids) }"""
    assert integer_bounds(onnx.parser.parse_model(text)) == {"ids": 30}


def test_a_table_in_a_constant_node_bounds_ids() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]> g (int64[4] ids) => (y)
              { t = Constant<value = float[3] {1,2,3}>()  y = Gather(t, ids) }"""
    assert integer_bounds(onnx.parser.parse_model(text)) == {"ids": 3}


def test_values_are_in_range() -> None:
    ids = make_array(Port("ids", DType.INT64, (1000,)), Fill(), 7)
    assert (ids.dtype, ids.min(), ids.max()) == (np.dtype(np.int64), 0, 6)
    mask = make_array(Port("attention_mask", DType.FLOAT32, (1000,)), Fill())
    assert set(np.unique(mask)) == {0, 1}
    noise = make_array(Port("x", DType.FLOAT32, (1000,)), Fill())
    assert 0.9 < noise.std() < 1.1
    pixels = make_array(Port("image", DType.UINT8, (1000,)), Fill())
    assert pixels.max() > 200
    assert make_array(Port("b", DType.BOOL, (100,)), Fill()).dtype == np.bool_
    assert make_array(Port("s", DType.STRING, (2,)), Fill()).dtype == object
    assert make_array(Port("c", DType.COMPLEX64, (2,)), Fill()).dtype == np.complex64


def test_an_array_depends_only_on_its_name_and_the_seed() -> None:
    a, b = Port("a", DType.FLOAT32, (3,)), Port("b", DType.FLOAT32, (3,))
    both, one = make_feeds([a, b], Fill()), make_feeds([b], Fill())
    assert np.array_equal(both["b"], one["b"])
    assert not np.array_equal(both["a"], both["b"])
    assert not np.array_equal(make_feeds([b], Fill(seed=1))["b"], one["b"])


def test_symbolic_dims_are_one() -> None:
    assert make_array(Port("x", DType.FLOAT32, ("batch", None, -1, 3)), Fill("ones")).shape == (1, 1, 1, 3)


@pytest.mark.parametrize(
    ("text", "fill"),
    [("ones", Fill("ones")), ("zeros", Fill("zeros")), ("random", Fill()), ("random:7", Fill("random", 7))],
)
def test_fills_are_parsed(text: str, fill: Fill) -> None:
    assert Fill.read(text) == fill


@pytest.mark.parametrize("text", ["", "twos", "ones:1", "random:", "random:-1", "random:x"])
def test_unknown_fills_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not ones, zeros or random:SEED"):
        Fill.read(text)
