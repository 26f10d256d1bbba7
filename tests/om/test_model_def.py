"""MODEL_DEF is put together from the bytes of nodes and descs; protobuf would write the same bytes."""

import pytest

from atcpy.om import writer
from atcpy.om.container import Partition, parse
from atcpy.om.schema.ge_ir_pb2 import ModelDef
from atcpy.options import convert_options
from atcpy.stages.pipeline import compile_model
from atcpy.wire_format import field_header
from tests.models_in_text import model

ELEMENTWISE = "kernels (float[2,3] x) => (float[2,3] y) { a = Relu(x)  b = Tanh(a)  y = Mul(b, a) }"
LEFT_OUT = "missing (float[1,2,4,4] x) => (float[1,2,8,8] y) <float[4] s = {1, 1, 2, 2}> { y = Resize(x, , s) }"
OPEN = "open (float[N,3] x) => (float[N,3] y) <float[3] b = {1, 2, 3}> { a = Add(x, b)  y = Softmax <axis = 1> (a) }"
BODIES = """bodies (bool c, float[2] x) => (float[2] y) {
    y = If (c) <then_branch = t () => (float[2] u) { u = Relu(x) }, else_branch = e () => (float[2] v) { v = Abs(x) }>
}"""


@pytest.mark.parametrize("text", [ELEMENTWISE, LEFT_OUT, OPEN, BODIES], ids=lambda text: text.split()[0])
def test_fields_come_in_the_order_of_protobuf(text: str) -> None:
    compiled, _ = compile_model(model(text), convert_options())
    written = bytes(parse(writer.to_bytes(compiled)).partition(Partition.MODEL_DEF))
    graphs = list(ModelDef.FromString(written).graph)
    assert any(op.input_desc and op.output_desc for graph in graphs for op in graph.op)
    for graph in graphs:
        assert ModelDef(graph=[graph]).SerializeToString(deterministic=True) in written


@pytest.mark.parametrize("field", [1, 15, 16, 33, 2047, 2048])
@pytest.mark.parametrize("size", [0, 1, 127, 128, 16383, 16384, 1 << 35])
def test_headers_of_fields(field: int, size: int) -> None:
    header = field_header(field, size)
    numbers, at = [], 0
    while at < len(header):  # as the specification reads them: seven bits a byte, the lowest first
        number = shift = 0
        while header[at] & 0x80:
            number, shift, at = number | (header[at] & 0x7F) << shift, shift + 7, at + 1
        numbers.append(number | header[at] << shift)
        at += 1
    assert numbers == [field << 3 | 2, size]
