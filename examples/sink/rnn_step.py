"""Reads a sequence with a model of one step of a GRU, whose hidden state is the input of the next step.

python examples/sink/rnn_step.py [steps] [width]
"""

import sys

import numpy as np
import onnx
from onnx import numpy_helper, parser

import atcpy

MODEL = """<ir_version: 10, opset_import: ["" : 21]>
gru_step (float[1,{width}] x, float[1,{width}] h) => (float[1,{width}] h2, float[1,{width}] y)
<float one = {{1}}> {{
    from_x = MatMul(x, w)
    from_h = MatMul(h, u)
    x_reset, x_update, x_new = Split<axis = 1, num_outputs = 3>(from_x)
    h_reset, h_update, h_new = Split<axis = 1, num_outputs = 3>(from_h)
    reset_sum = Add(x_reset, h_reset)
    reset = Sigmoid(reset_sum)
    update_sum = Add(x_update, h_update)
    update = Sigmoid(update_sum)
    kept = Mul(reset, h_new)
    new_sum = Add(x_new, kept)
    new = Tanh(new_sum)
    change = Sub(one, update)
    changed = Mul(change, new)
    left = Mul(update, h)
    h2 = Add(changed, left)
    y = Relu(h2)
}}"""


def gru_step(width: int) -> onnx.ModelProto:
    """One step of a GRU with random weights, and a Relu of its hidden state."""
    model, rng = parser.parse_model(MODEL.format(width=width)), np.random.default_rng(0)
    for name in ("w", "u"):
        weight = rng.standard_normal((width, 3 * width)) / np.sqrt(width)
        model.graph.initializer.append(numpy_helper.from_array(weight.astype(np.float32), name))
    return model


def read_sequence(
    session: atcpy.InferenceSession, sequence: np.ndarray, start: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the hidden state behind a sequence [steps, 1, width], and the outputs of all steps."""
    feeds = {"x": sequence, "h": start}
    hidden, outputs = session.run_iterations(feeds, len(sequence), state={"h2": "h"}, collect=["y"])
    return hidden, outputs


def main(steps: int = 1000, width: int = 64) -> None:
    """Read a random sequence."""
    atcpy.convert(gru_step(width), "gru_step.om")
    session = atcpy.InferenceSession("gru_step.om")
    sequence = np.random.default_rng(1).standard_normal((steps, 1, width)).astype(np.float32)
    hidden, outputs = read_sequence(session, sequence, np.zeros((1, width), np.float32))
    print(f"{len(outputs)} steps, the hidden state is {hidden.min():.3f} to {hidden.max():.3f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
