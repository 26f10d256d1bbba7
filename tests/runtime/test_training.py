"""A data-parallel training step: a small CNN forward and backward, allreduces of the gradients, SGD with momentum.

Gradients are composed of ops of ONNX: that of a convolution's weights is a convolution of the transposed data with the
transposed gradient.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from atcpy import InferenceSession
from atcpy.om.reader import parse_package, read_model
from atcpy.runtime.distributed.simulated_world import run_simulated
from atcpy.runtime.distributed.world import World
from tests.models_in_text import package

PARAMETERS = {"w": (4, 1, 3, 3), "b": (4, 1, 1), "u": (64, 3)}
BATCH = 8  # of all ranks together
STEPS = 100


def step(batch: int) -> str:
    """The step for so many pictures, [1, 6, 6] each, of three classes."""
    sizes = {name: ",".join(map(str, shape)) for name, shape in PARAMETERS.items()}
    ins = ", ".join(f"float[{size}] {name}, float[{size}] {name}_v" for name, size in sizes.items())
    outs = ", ".join(f"float[{size}] {name}_next, float[{size}] {name}_v_next" for name, size in sizes.items())
    update = "\n".join(
        f"""{name}_sum = HcomAllReduce<reduction = "mean">({name}_grad)
        {name}_old = Mul({name}_v, momentum)
        {name}_v_next = Add({name}_old, {name}_sum)
        {name}_move = Mul({name}_v_next, rate)
        {name}_next = Sub({name}, {name}_move)"""
        for name in PARAMETERS
    )
    return f"""step (float[{batch},1,6,6] x, float[{batch},3] truth, {ins}) => (float loss, {outs})
    <float momentum = {{0.9}}, float rate = {{0.1}}, float share = {{{1 / batch}}}, float minus = {{{-1 / batch}}},
     int64[2] rows = {{{batch},64}}, int64[4] planes = {{{batch},4,4,4}}> {{
        c0 = Conv(x, w)
        c = Add(c0, b)
        r = Relu(c)
        h = Reshape(r, rows)
        z = MatMul(h, u)
        logs = LogSoftmax<axis = 1>(z)
        picked = Mul(logs, truth)
        total = ReduceSum<keepdims = 0>(picked)
        loss_own = Mul(total, minus)
        loss = HcomAllReduce<reduction = "mean", fusion = 0>(loss_own)
        p = Exp(logs)
        off = Sub(p, truth)
        z_grad = Mul(off, share)
        h_t = Transpose<perm = [1, 0]>(h)
        u_grad = MatMul(h_t, z_grad)
        u_t = Transpose<perm = [1, 0]>(u)
        h_grad = MatMul(z_grad, u_t)
        r_grad = Reshape(h_grad, planes)
        sign = Sign(r)
        c_grad = Mul(r_grad, sign)
        axes = Constant<value_ints = [0, 2, 3]>()
        b_flat = ReduceSum<keepdims = 0>(c_grad, axes)
        b_shape = Constant<value_ints = [4, 1, 1]>()
        b_grad = Reshape(b_flat, b_shape)
        x_t = Transpose<perm = [1, 0, 2, 3]>(x)
        c_t = Transpose<perm = [1, 0, 2, 3]>(c_grad)
        w_t = Conv(x_t, c_t)
        w_grad = Transpose<perm = [1, 0, 2, 3]>(w_t)
        {update}
    }}"""


def data() -> tuple[np.ndarray, np.ndarray]:
    """Pictures with a bright stripe, whose place is the class."""
    rng = np.random.default_rng(5)
    classes = np.arange(BATCH) % 3
    pictures = rng.normal(0, 0.1, (BATCH, 1, 6, 6)).astype(np.float32)
    for picture, label in zip(pictures, classes, strict=True):
        picture[0, 2 * label] += 1
    return pictures, np.eye(3, dtype=np.float32)[classes]


def train_rank(world: World, om: bytes, steps: int) -> tuple[list[float], dict[str, np.ndarray]]:
    """The losses of one rank, and its parameters after the last step, fed back from step to step."""
    session = InferenceSession(om, threads=1, world=world)
    names = [port.name for port in session.get_outputs()]
    pictures, truth = data()
    rng = np.random.default_rng(0)
    state: dict[str, np.ndarray] = {}
    for name, shape in PARAMETERS.items():
        state[name] = rng.normal(0, 0.3, shape).astype(np.float32)
        state[name + "_v"] = np.zeros(shape, np.float32)
    own = slice(world.rank, None, world.ranks)
    losses = []
    for _ in range(steps):
        found = dict(zip(names, session.run(None, {"x": pictures[own], "truth": truth[own], **state}), strict=True))
        losses.append(float(found["loss"]))
        state = {name: found[name + "_next"] for name in state}
    return losses, state


def train(ranks: int, steps: int, options: dict[str, Any]) -> tuple[list[float], list[dict[str, np.ndarray]]]:
    """The losses, and the parameters of each rank after the last step."""
    om = package(step(BATCH // ranks), options)
    results = run_simulated(lambda world: train_rank(world, om, steps), ranks)
    assert all(losses == results[0][0] for losses, _ in results)
    return results[0][0], [state for _, state in results]


def test_gradients_of_a_training_step_are_not_copied() -> None:
    for options in ({"allreduce_split": "auto"}, {"allreduce_split_size": "100"}, {"allreduce_split_index": "0,2"}):
        plan = read_model(parse_package(package(step(BATCH), options))).graph.decisions.allreduce
        assert plan is not None
        assert (plan.allreduces, plan.fused_copies, plan.port_copies) == (4, 0, 0)


COLLECTIVES = {
    "one": {"allreduce_split_size": "100"},
    "two": {"allreduce_split_index": "0,2"},
    "each": {"skip_pass": ("HcomAllReduceFusionPass",)},
}


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 4])
def test_training_on_several_ranks_is_training_on_the_whole_batch(ranks: int) -> None:
    alone, (expected,) = train(1, STEPS, {})
    assert alone[-1] < alone[0] / 4
    finals = []
    for options in COLLECTIVES.values():
        losses, states = train(ranks, STEPS, options)
        np.testing.assert_allclose(losses, alone, rtol=1e-3, atol=1e-4)
        for state in states:
            for name, array in state.items():
                np.testing.assert_array_equal(array, states[0][name])
                np.testing.assert_allclose(array, expected[name], rtol=1e-3, atol=1e-4)
        finals.append(states[0])
    for name, array in finals[0].items():  # in simulated ranks, sums do not depend on how the gradients meet
        for other in finals[1:]:
            np.testing.assert_array_equal(array, other[name])
