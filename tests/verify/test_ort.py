import numpy as np
from onnx import TensorProto, helper

from tests.ort import open_ort


def test_8_bit_products_do_not_saturate() -> None:
    """255·127 + 255·127 overflows the 16-bit intermediate sums of CPUs without VNNI."""
    node = helper.make_node("MatMulInteger", ["a", "b"], ["y"])
    graph = helper.make_graph(
        [node],
        "saturation",
        [helper.make_tensor_value_info("a", TensorProto.UINT8, [8, 64])],
        [helper.make_tensor_value_info("y", TensorProto.INT32, [8, 16])],
        [helper.make_tensor("b", TensorProto.INT8, [64, 16], np.full(64 * 16, 127, np.int8).tobytes(), raw=True)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    (y,) = open_ort(model, optimized=True).run(None, {"a": np.full((8, 64), 255, np.uint8)})
    assert (y == 255 * 127 * 64).all()
