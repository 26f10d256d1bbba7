"""Layers shared by the architectures, as PyTorch exports them.

A `gain` is the standard deviation of the result for an input of deviation 1. Gains keep activations near unit size
even in the deepest networks, so that nothing overflows or becomes denormal.
"""

from __future__ import annotations

import math
from typing import Final

from graph_builder import Graph

RELU_GAIN: Final = math.sqrt(2.0)
SILU_GAIN: Final = 1.45
BIAS_STD: Final = 0.05


def conv(
    g: Graph,
    x: str,
    channels_in: int,
    channels_out: int,
    kernel: int,
    *,
    stride: int = 1,
    groups: int = 1,
    bias: bool = False,
    gain: float = RELU_GAIN,
) -> str:
    """Adds a square convolution with padding that keeps the size for stride 1."""
    taps = channels_in // groups * kernel * kernel
    inputs = [x, g.random("weight", channels_out, channels_in // groups, kernel, kernel, std=gain / math.sqrt(taps))]
    if bias:
        inputs.append(g.random("bias", channels_out, std=BIAS_STD))
    return g.op(
        "Conv",
        *inputs,
        dilations=[1, 1],
        group=groups,
        kernel_shape=[kernel] * 2,
        pads=[kernel // 2] * 4,
        strides=[stride] * 2,
    )


def patch_conv(g: Graph, x: str, channels_in: int, channels_out: int, patch: int) -> str:
    """Adds a convolution that maps each patch to one pixel."""
    std = 1 / math.sqrt(channels_in * patch * patch)
    weight = g.random("weight", channels_out, channels_in, patch, patch, std=std)
    bias = g.random("bias", channels_out, std=BIAS_STD)
    return g.op(
        "Conv",
        *(x, weight, bias),
        dilations=[1, 1],
        group=1,
        kernel_shape=[patch] * 2,
        pads=[0] * 4,
        strides=[patch] * 2,
    )


def conv_transpose2x(g: Graph, x: str, channels_in: int, channels_out: int) -> str:
    """Adds a transposed convolution that doubles height and width."""
    weight = g.random("weight", channels_in, channels_out, 2, 2, std=1 / math.sqrt(channels_in))
    bias = g.random("bias", channels_out, std=BIAS_STD)
    return g.op(
        "ConvTranspose", x, weight, bias, dilations=[1, 1], group=1, kernel_shape=[2, 2], pads=[0] * 4, strides=[2, 2]
    )


def batch_norm(g: Graph, x: str, channels: int, *, scale: float = 1.0) -> str:
    """Adds an inference BatchNormalization whose statistics are near mean 0 and variance 1."""
    return g.op(
        "BatchNormalization",
        x,
        g.random("weight", channels, std=0.1 * scale, mean=scale),
        g.random("bias", channels, std=0.1),
        g.random("running_mean", channels, std=0.1),
        g.random("running_var", channels, std=0.1, mean=1.0),
        epsilon=1e-5,
        momentum=0.9,
        training_mode=0,
    )


def conv_bn(
    g: Graph,
    x: str,
    channels_in: int,
    channels_out: int,
    kernel: int,
    *,
    stride: int = 1,
    groups: int = 1,
    gain: float = RELU_GAIN,
    scale: float = 1.0,
) -> str:
    """Adds a convolution and its BatchNormalization; `scale` multiplies what comes out."""
    with g.scope("conv"):
        x = conv(g, x, channels_in, channels_out, kernel, stride=stride, groups=groups, gain=gain)
    with g.scope("bn"):
        return batch_norm(g, x, channels_out, scale=scale)


def max_pool(g: Graph, x: str, kernel: int, stride: int, pad: int = 0) -> str:
    """Adds a square MaxPool."""
    return g.op(
        "MaxPool",
        x,
        ceil_mode=0,
        dilations=[1, 1],
        kernel_shape=[kernel] * 2,
        pads=[pad] * 4,
        strides=[stride] * 2,
    )


def global_pool(g: Graph, x: str) -> str:
    """Adds the mean over height and width: [n, channels]."""
    return g.op("Flatten", g.op("GlobalAveragePool", x), axis=1)


def upsample2x(g: Graph, x: str) -> str:
    """Doubles height and width by nearest neighbour."""
    return g.op(
        "Resize",
        x,
        "",
        g.floats([1, 1, 2, 2]),
        coordinate_transformation_mode="asymmetric",
        cubic_coeff_a=-0.75,
        mode="nearest",
        nearest_mode="floor",
    )


def relu6(g: Graph, x: str) -> str:
    """Adds ReLU6, which is exported as Clip."""
    return g.op("Clip", x, g.floats(0.0), g.floats(6.0))


def silu(g: Graph, x: str) -> str:
    """Adds x * sigmoid(x)."""
    return g.op("Mul", x, g.op("Sigmoid", x))


def gemm(g: Graph, x: str, features_in: int, features_out: int, *, gain: float = 1.0) -> str:
    """Adds `nn.Linear` on a matrix: Gemm with the weight as PyTorch keeps it."""
    weight = g.random("weight", features_out, features_in, std=gain / math.sqrt(features_in))
    bias = g.random("bias", features_out, std=BIAS_STD)
    return g.op("Gemm", x, weight, bias, alpha=1.0, beta=1.0, transB=1)


def linear(g: Graph, x: str, features_in: int, features_out: int, *, gain: float = 1.0) -> str:
    """Adds `nn.Linear` on more dimensions: MatMul with the weight transposed beforehand, then Add."""
    weight = g.random("weight_t", features_in, features_out, std=gain / math.sqrt(features_in))
    return g.op("Add", g.random("bias", features_out, std=BIAS_STD), g.op("MatMul", x, weight))


def layer_norm(g: Graph, x: str, features: int, epsilon: float) -> str:
    """Adds LayerNormalization as one op, as exports from opset 17 on have it."""
    gamma, beta = _norm_weights(g, features)
    return g.op("LayerNormalization", x, gamma, beta, axis=-1, epsilon=epsilon)


def layer_norm_spelled_out(g: Graph, x: str, features: int, epsilon: float) -> str:
    """Adds LayerNormalization as the nine nodes of older exports."""
    gamma, beta = _norm_weights(g, features)
    centred = g.op("Sub", x, g.op("ReduceMean", x, axes=[-1], keepdims=1))
    variance = g.op("ReduceMean", g.op("Pow", centred, g.floats(2.0)), axes=[-1], keepdims=1)
    deviation = g.op("Sqrt", g.op("Add", variance, g.floats(epsilon)))
    return g.op("Add", g.op("Mul", g.op("Div", centred, deviation), gamma), beta)


def _norm_weights(g: Graph, features: int) -> tuple[str, str]:
    return g.random("weight", features, std=0.1, mean=1.0), g.random("bias", features, std=0.1)


def gelu_erf(g: Graph, x: str) -> str:
    """Adds x * (1 + erf(x / √2)) / 2 as five nodes."""
    erf = g.op("Erf", g.op("Div", x, g.floats(math.sqrt(2.0))))
    return g.op("Mul", g.op("Mul", x, g.op("Add", erf, g.floats(1.0))), g.floats(0.5))


def gelu_tanh(g: Graph, x: str) -> str:
    """Adds GPT-2's approximation, x / 2 * (1 + tanh(√(2/π) * (x + 0.044715 x³))), as eight nodes."""
    half = g.op("Mul", x, g.floats(0.5))
    cubic = g.op("Mul", g.op("Pow", x, g.floats(3.0)), g.floats(0.044715))
    inner = g.op("Mul", g.op("Add", x, cubic), g.floats(math.sqrt(2.0 / math.pi)))
    return g.op("Mul", half, g.op("Add", g.op("Tanh", inner), g.floats(1.0)))
