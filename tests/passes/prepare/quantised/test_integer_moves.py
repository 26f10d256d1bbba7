"""What selects elements works on the integers of a DequantizeLinear, with the same result; what computes does not."""

from __future__ import annotations

import numpy as np
import pytest

from atcpy.om import writer
from atcpy.options import convert_options
from atcpy.runtime import InferenceSession
from atcpy.stages.pipeline import compile_model
from tests.models_in_text import model
from tests.ort import open_ort

# With the rank of the result.
SELECTIONS = {
    "Slice(f, begin, end)": 4,
    "Gather<axis = 2>(f, rows)": 4,
    "GatherND(f, points)": 2,
    "GatherElements<axis = 3>(f, elements)": 4,
    "Expand(f, shape)": 5,
    "Tile(f, twice)": 4,
    "Transpose<perm = [1,0,3,2]>(f)": 4,
    "Flatten(f)": 2,
}
OTHERS = {"Relu(f)": 4, "ReduceMax<keepdims = 0>(f, rows)": 2}
CONSTANTS = """int64[3] begin = {1,0,0}, int64[3] end = {3,3,4}, int64[2] rows = {2,0},
 int64[2,3] points = {0,1,2,3,2,1},
 int64[1,1,1,2] elements = {4,1}, int64[5] shape = {2,1,1,1,1}, int64[4] twice = {2,1,1,1}"""


@pytest.mark.parametrize("move", [*SELECTIONS, *OTHERS])
def test_only_what_selects_elements_moves_integers(move: str) -> None:
    rank = (SELECTIONS | OTHERS)[move]
    dims = ",".join("abcde"[:rank])
    text = f"m (uint8[4,3,5,5] x) => (float[{dims}] y) <float s = {{0.25}}, uint8 z = {{7}}, {CONSTANTS}>"
    source = model(f"{text} {{ f = DequantizeLinear(x, s, z) y = {move} }}")
    compiled, *_ = compile_model(source, convert_options({}))
    (record,) = (record for record in compiled.graph.decisions.passes if record.name == "QuantizedMovePass")
    x = np.random.default_rng(0).integers(0, 256, (4, 3, 5, 5), np.uint8)
    (found,) = InferenceSession(writer.to_bytes(compiled)).run(None, {"x": x})
    np.testing.assert_array_equal(found, open_ort(source).run(None, {"x": x})[0])
    assert record.applied == (move in SELECTIONS)
