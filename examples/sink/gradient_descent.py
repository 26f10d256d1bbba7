"""Trains a small network by a package of one training step, whose weights are states.

python examples/sink/gradient_descent.py [steps]
"""

import sys

import numpy as np
import onnx
from onnx import parser

import atcpy

WEIGHTS = {"w": (2, 16), "b": (16,), "u": (16, 1)}
STATE = {f"{name}_next": name for name in WEIGHTS}


def training_step(rows: int, *, reduce: str = "Identity") -> onnx.ModelProto:
    """A step of gradient descent for tanh(x·w + b)·u on `rows` examples: the loss, and the next weights.

    `reduce` is an op that each gradient goes through.
    """
    sizes = {name: ",".join(map(str, shape)) for name, shape in WEIGHTS.items()}
    olds = ", ".join(f"float[{size}] {name}" for name, size in sizes.items())
    news = ", ".join(f"float[{size}] {name}_next" for name, size in sizes.items())
    updates = "\n".join(
        f"""{name}_mean = {reduce}({name}_grad)
        {name}_move = Mul({name}_mean, rate)
        {name}_next = Sub({name}, {name}_move)"""
        for name in WEIGHTS
    )
    return parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 21, "hccl" : 1]>
    step (float[{rows},2] x, float[{rows},1] truth, {olds}) => (float loss, {news})
    <float one = {{1}}, float rate = {{0.05}}, float scale = {{{2 / rows}}}> {{
        z = MatMul(x, w)
        a = Add(z, b)
        h = Tanh(a)
        y = MatMul(h, u)
        off = Sub(y, truth)
        square = Mul(off, off)
        loss_own = ReduceMean<keepdims = 0>(square)
        loss = {reduce}(loss_own)
        y_grad = Mul(off, scale)
        h_t = Transpose(h)
        u_grad = MatMul(h_t, y_grad)
        u_t = Transpose(u)
        h_grad = MatMul(y_grad, u_t)
        h_square = Mul(h, h)
        slope = Sub(one, h_square)
        a_grad = Mul(h_grad, slope)
        x_t = Transpose(x)
        w_grad = MatMul(x_t, a_grad)
        axes = Constant<value_ints = [0]>()
        b_grad = ReduceSum<keepdims = 0>(a_grad, axes)
        {updates}
    }}""")


def batches(steps: int, rows: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Examples of sin(2·x0)·x1 for all steps."""
    x = np.random.default_rng(seed).uniform(-1, 1, (steps, rows, 2)).astype(np.float32)
    return {"x": x, "truth": np.sin(2 * x[..., :1]) * x[..., 1:]}


def first_weights() -> dict[str, np.ndarray]:
    """Small random weights."""
    rng = np.random.default_rng(1)
    return {name: rng.normal(0, 0.5, shape).astype(np.float32) for name, shape in WEIGHTS.items()}


def train(
    session: atcpy.InferenceSession, weights: dict[str, np.ndarray], examples: dict[str, np.ndarray]
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return the losses of all steps, and the weights behind the last one."""
    steps = len(examples["x"])
    names = ["loss", *STATE]
    loss, *trained = session.run_iterations(
        {**examples, **weights}, steps, state=STATE, output_names=names, collect=["loss"]
    )
    return loss, dict(zip(STATE.values(), trained, strict=True))


def main(steps: int = 2000) -> None:
    """Train in two calls, the second of which goes on with the weights of the first."""
    atcpy.convert(training_step(rows=32), "training_step.om")
    session = atcpy.InferenceSession("training_step.om")
    weights = first_weights()
    for epoch in range(2):
        losses, weights = train(session, weights, batches(steps, rows=32, seed=epoch))
        print(f"epoch {epoch}: loss {losses[:50].mean():.4f} to {losses[-50:].mean():.4f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
