"""Writes the SavedModel of models/scores: prob = softmax(x · kernel + bias), in the layout of Keras.

python -m tests.parsers.tensorflow.scores models/scores
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from atcpy.parsers.tensorflow.schema.tensorflow_pb2 import DataType, FunctionDef, OpDef
from tests.parsers.tensorflow.checkpoints import signature, tensor_info, write_saved_model
from tests.parsers.tensorflow.graphs import Function, TfBuilder, Type, node, shape_proto
from tests.parsers.tensorflow.test_saved import restore_function

FLOAT = Type("float32")


def write_scores(folder: Path) -> None:
    """Write the model."""
    g = TfBuilder()
    for name, shape in (("dense/kernel", (4, 3)), ("dense/bias", (3,))):
        g.add("VarHandleOp", name=name, dtype=FLOAT, shape=shape_proto(shape))
    x = g.input("serving_default_features", "float32", (None, 4))
    handles = ("dense/kernel", "dense/bias")
    call = "StatefulPartitionedCall"
    g.add(call, x, *handles, name=call, f=Function("serve"), Tout=[FLOAT])
    g.add("Placeholder", name="saver_filename")
    g.add(call, "saver_filename", *handles, name=f"{call}_1", f=Function("restore"))
    serve = FunctionDef(signature=OpDef(name="serve"))
    for name, number in (("x", DataType.DT_FLOAT), ("k", DataType.DT_RESOURCE), ("b", DataType.DT_RESOURCE)):
        serve.signature.input_arg.add(name=name, type=number)
    serve.signature.output_arg.add(name="prob", type=DataType.DT_FLOAT)
    serve.ret["prob"] = "prob:softmax:0"
    serve.node_def.extend(
        [
            node("ReadVariableOp", "kernel", "k", dtype=FLOAT),
            node("ReadVariableOp", "bias", "b", dtype=FLOAT),
            node("MatMul", "product", "x", "kernel:value:0", T=FLOAT),
            node("BiasAdd", "sum", "product:product:0", "bias:value:0", T=FLOAT),
            node("Softmax", "prob", "sum:output:0", T=FLOAT),
        ]
    )
    g.graph.library.function.append(serve)
    keys = [f"_all_variables/{index}/.ATTRIBUTES/VARIABLE_VALUE" for index in range(2)]
    g.graph.library.function.append(restore_function(*keys))
    inputs = {"features": tensor_info("serving_default_features:0", "float32", (None, 4))}
    served = signature(inputs, {"prob": f"{call}:0"})
    served.outputs["prob"].dtype = DataType.DT_FLOAT
    tensors = {keys[0]: np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3), keys[1]: np.float32([0.1, 0, -0.1])}
    write_saved_model(folder, {"serve": (g, {"serving_default": served}, f"{call}_1")}, tensors)


if __name__ == "__main__":
    write_scores(Path(sys.argv[1]))
