"""TransData that undo or repeat each other, in arrangements that pieces rarely leave behind."""

from __future__ import annotations

from atcpy.ir import NC1HWC0, DType, Format, FormatKind, Graph, PassRecord, TensorDesc, Value
from atcpy.ir.verify import violations
from atcpy.options import OptimizeOptions
from atcpy.passes.optimize.cancel_transdata import NAME, cancel_transdata
from atcpy.passes.optimize.choose_formats import insert_transdata

NCHW = Format(FormatKind.NCHW)


class Chain:
    """A graph in the making: `x` in NCHW, and readers of what TransData make of it."""

    def __init__(self, *shape: int) -> None:
        self.graph = Graph("test")
        data = self.graph.append("Data", (), {"index": 0}, name="x")
        data.output.desc = TensorDesc.plain(DType.FLOAT32, shape)
        self.x = data.output
        self.out = self.graph.append("NetOutput", (), name="out", outputs=())

    def transdata(self, value: Value, form: Format) -> Value:
        return insert_transdata(self.graph, self.out, value, form)

    def read(self, *values: Value) -> None:
        self.graph.set_inputs(self.out, values)

    def run(self) -> list[str]:
        """`result = op(operand)` of what is left."""
        cancel_transdata(self.graph, PassRecord(NAME, "optimize"), OptimizeOptions())
        assert list(violations(self.graph)) == []
        return [f"{node.op_type}({node.operand(0).name})" for node in self.graph.nodes if node.operands]


def test_there_and_back_is_nothing() -> None:
    chain = Chain(1, 20, 3, 3)
    chain.read(chain.transdata(chain.transdata(chain.x, NC1HWC0), NCHW))
    assert chain.run() == ["NetOutput(x)"]


def test_there_and_back_and_there_again_is_once() -> None:
    chain = Chain(1, 20, 3, 3)
    chain.read(chain.transdata(chain.transdata(chain.transdata(chain.x, NC1HWC0), NCHW), NC1HWC0))
    assert [line.partition("(")[0] for line in chain.run()] == ["TransData", "NetOutput"]
    assert chain.out.operand(0).producer.operand(0) is chain.x


def test_siblings_become_one() -> None:
    chain = Chain(1, 20, 3, 3)
    chain.read(chain.transdata(chain.x, NC1HWC0), chain.transdata(chain.x, NC1HWC0))
    assert chain.run() == ["TransData(x)", "NetOutput(x.NC1HWC0)"]
    assert chain.out.operand(0) is chain.out.operand(1)


def test_a_sibling_of_one_that_has_gone_stays() -> None:
    """The first goes with its only reader, which undoes it; the second must not be led to it."""
    chain = Chain(1, 20, 3, 3)
    blocked = chain.transdata(chain.x, NC1HWC0)
    back = chain.transdata(blocked, NCHW)
    late = chain.transdata(chain.x, NC1HWC0)
    chain.read(back, late)
    assert chain.run() == ["TransData(x)", "NetOutput(x)"]
    assert chain.out.operand(1).producer.op_type == "TransData"


def test_whole_blocks_of_one_pixel_are_turned_by_a_view() -> None:
    for channels, op_type in ((32, "ReFormat"), (20, "TransData")):
        chain = Chain(1, channels, 1, 1)
        chain.read(chain.transdata(chain.x, NC1HWC0))
        assert chain.run()[0] == f"{op_type}(x)"
