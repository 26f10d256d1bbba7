"""Vision models: classification and segmentation."""

from __future__ import annotations

from graph_builder import Graph
from layers import (
    RELU_GAIN,
    SILU_GAIN,
    conv,
    conv_bn,
    conv_transpose2x,
    gelu_erf,
    gemm,
    global_pool,
    layer_norm,
    linear,
    max_pool,
    patch_conv,
    relu6,
    silu,
)

# A residual branch adds little to its trunk, so that the sum stays near unit size at any depth.
BRANCH_SCALE = 0.3


def mnist(g: Graph) -> None:
    """LeNet-5 with ReLU and max pooling."""
    x = g.input("input", 1, 1, 28, 28)
    for name, channels_in, channels_out in (("conv1", 1, 6), ("conv2", 6, 16)):
        with g.scope(name):
            x = max_pool(g, g.op("Relu", conv(g, x, channels_in, channels_out, 5, bias=True)), 2, 2)
    x = g.op("Flatten", x, axis=1)
    for name, features_in, features_out in (("fc1", 16 * 7 * 7, 120), ("fc2", 120, 84)):
        with g.scope(name):
            x = g.op("Relu", gemm(g, x, features_in, features_out, gain=RELU_GAIN))
    with g.scope("fc3"):
        g.output(g.op("LogSoftmax", gemm(g, x, 84, 10), axis=-1), "output", 1, 10)


def resnet50(g: Graph) -> None:
    """ResNet-50 v1.5: a block's stride sits on its 3x3 convolution."""
    x = g.input("input", 1, 3, 224, 224)
    with g.scope("stem"):
        x = max_pool(g, g.op("Relu", conv_bn(g, x, 3, 64, 7, stride=2)), 3, 2, 1)
    channels = 64
    for stage, (blocks, width) in enumerate(((3, 64), (4, 128), (6, 256), (3, 512)), start=1):
        for block in range(blocks):
            stride = 2 if block == 0 and stage > 1 else 1
            with g.scope(f"layer{stage}", str(block)):
                x = _bottleneck(g, x, channels, width, stride)
            channels = 4 * width
    _classify(g, global_pool(g, x), "fc", channels)


def _bottleneck(g: Graph, x: str, channels: int, width: int, stride: int) -> str:
    with g.scope("1"):
        y = g.op("Relu", conv_bn(g, x, channels, width, 1))
    with g.scope("2"):
        y = g.op("Relu", conv_bn(g, y, width, width, 3, stride=stride))
    with g.scope("3"):
        y = conv_bn(g, y, width, 4 * width, 1, scale=BRANCH_SCALE)
    if channels != 4 * width:
        with g.scope("downsample"):
            x = conv_bn(g, x, channels, 4 * width, 1, stride=stride, gain=1.0)
    return g.op("Relu", g.op("Add", y, x))


def mobilenet_v2(g: Graph) -> None:
    """MobileNetV2: inverted residuals with ReLU6."""
    x = g.input("input", 1, 3, 224, 224)
    with g.scope("features", "0"):
        x = relu6(g, conv_bn(g, x, 3, 32, 3, stride=2))
    channels, index = 32, 0
    for expand, channels_out, repeats, first_stride in (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ):
        for repeat in range(repeats):
            index += 1
            stride = first_stride if repeat == 0 else 1
            with g.scope("features", str(index)):
                y = _inverted_residual(g, x, channels, channels_out, expand, stride)
                x = g.op("Add", x, y) if stride == 1 and channels == channels_out else y
            channels = channels_out
    with g.scope("features", str(index + 1)):
        x = relu6(g, conv_bn(g, x, channels, 1280, 1))
    _classify(g, global_pool(g, x), "classifier", 1280)


def _inverted_residual(g: Graph, x: str, channels: int, channels_out: int, expand: int, stride: int) -> str:
    hidden = channels * expand
    if expand != 1:
        with g.scope("expand"):
            x = relu6(g, conv_bn(g, x, channels, hidden, 1))
    with g.scope("depthwise"):
        x = relu6(g, conv_bn(g, x, hidden, hidden, 3, stride=stride, groups=hidden))
    with g.scope("project"):
        return conv_bn(g, x, hidden, channels_out, 1)


def efficientnet_b0(g: Graph) -> None:
    """EfficientNet-B0: MBConv with SiLU and squeeze-and-excitation."""
    x = g.input("input", 1, 3, 224, 224)
    with g.scope("features", "0"):
        x = silu(g, conv_bn(g, x, 3, 32, 3, stride=2))
    channels, stage = 32, 0
    for expand, kernel, first_stride, channels_out, repeats in (
        (1, 3, 1, 16, 1),
        (6, 3, 2, 24, 2),
        (6, 5, 2, 40, 2),
        (6, 3, 2, 80, 3),
        (6, 5, 1, 112, 3),
        (6, 5, 2, 192, 4),
        (6, 3, 1, 320, 1),
    ):
        stage += 1
        for repeat in range(repeats):
            stride = first_stride if repeat == 0 else 1
            with g.scope("features", str(stage), str(repeat)):
                x = _mbconv(g, x, channels, channels_out, expand, kernel, stride)
            channels = channels_out
    with g.scope("features", str(stage + 1)):
        x = silu(g, conv_bn(g, x, channels, 1280, 1, gain=1.0))
    _classify(g, global_pool(g, x), "classifier", 1280)


def _mbconv(g: Graph, x: str, channels: int, channels_out: int, expand: int, kernel: int, stride: int) -> str:
    hidden, y = channels * expand, x
    is_residual = stride == 1 and channels == channels_out
    if expand != 1:
        with g.scope("expand"):
            y = silu(g, conv_bn(g, y, channels, hidden, 1, gain=1.0))
    with g.scope("depthwise"):
        y = silu(g, conv_bn(g, y, hidden, hidden, kernel, stride=stride, groups=hidden, gain=SILU_GAIN))
    with g.scope("se"):
        y = _squeeze_excite(g, y, hidden, channels // 4)
    with g.scope("project"):  # the sigmoid's gate halved the input: the gain is 2
        y = conv_bn(g, y, hidden, channels_out, 1, gain=2.0, scale=BRANCH_SCALE if is_residual else 1.0)
    return g.op("Add", y, x) if is_residual else y


def _squeeze_excite(g: Graph, x: str, channels: int, squeezed: int) -> str:
    s = g.op("GlobalAveragePool", x)
    with g.scope("fc1"):
        s = silu(g, conv(g, s, channels, squeezed, 1, bias=True))
    with g.scope("fc2"):
        s = conv(g, s, squeezed, channels, 1, bias=True, gain=SILU_GAIN)
    return g.op("Mul", g.op("Sigmoid", s), x)


def unet256_half(g: Graph) -> None:
    """The classic U-Net at half its width, padded, with BatchNormalization."""
    base, levels = 32, 4
    x = g.input("input", 1, 3, 256, 256)
    with g.scope("inc"):
        x = _double_conv(g, x, 3, base)
    skips: list[str] = []
    for level in range(levels):
        skips.append(x)
        width = base << level
        with g.scope(f"down{level + 1}"):
            x = _double_conv(g, max_pool(g, x, 2, 2), width, 2 * width)
    for level in reversed(range(levels)):
        width = base << level
        with g.scope(f"up{levels - level}"):
            with g.scope("up"):
                x = conv_transpose2x(g, x, 2 * width, width)
            x = _double_conv(g, g.op("Concat", skips[level], x, axis=1), 2 * width, width)
    with g.scope("outc"):
        g.output(conv(g, x, base, 2, 1, bias=True, gain=1.0), "output", 1, 2, 256, 256)


def _double_conv(g: Graph, x: str, channels_in: int, channels_out: int) -> str:
    for name, channels in (("0", channels_in), ("1", channels_out)):
        with g.scope(name):
            x = g.op("Relu", conv_bn(g, x, channels, channels_out, 3))
    return x


def vit_b16(g: Graph) -> None:
    """ViT-B/16: one product makes query, key and value; LayerNormalization is one op."""
    tokens, width = 197, 768
    x = g.input("input", 1, 3, 224, 224)
    with g.scope("patch_embed"):
        x = g.transpose(g.reshape(patch_conv(g, x, 3, width, 16), 1, width, tokens - 1), 0, 2, 1)
    x = g.op("Concat", g.random("cls_token", 1, 1, width, std=1.0), x, axis=1)
    x = g.op("Add", x, g.random("pos_embed", 1, tokens, width, std=0.2))
    for block in range(12):
        with g.scope("blocks", str(block)):
            with g.scope("norm1"):
                y = layer_norm(g, x, width, 1e-6)
            with g.scope("attn"):
                y = _fused_attention(g, y, tokens, width)
            with g.scope("attn", "proj"):
                x = g.op("Add", x, linear(g, y, width, width, gain=0.5))
            with g.scope("norm2"):
                y = layer_norm(g, x, width, 1e-6)
            with g.scope("mlp", "fc1"):
                y = gelu_erf(g, linear(g, y, width, 4 * width))
            with g.scope("mlp", "fc2"):
                x = g.op("Add", x, linear(g, y, 4 * width, width, gain=0.5))
    with g.scope("norm"):
        x = layer_norm(g, x, width, 1e-6)
    _classify(g, g.op("Gather", x, g.integers(0), axis=1), "head", width)


def _fused_attention(g: Graph, x: str, tokens: int, width: int) -> str:
    heads = 12
    head_width = width // heads
    with g.scope("qkv"):
        x = linear(g, x, width, 3 * width)
    x = g.transpose(g.reshape(x, 1, tokens, 3, heads, head_width), 2, 0, 3, 1, 4)
    parts = g.ops(3, "Split", x, g.integers([1, 1, 1]), axis=0)
    q, k, v = (g.op("Squeeze", part, g.integers([0])) for part in parts)
    # PyTorch scales query and key by the root of 1/√d each, rather than their product by 1/√d.
    root = head_width**-0.25
    q = g.op("Mul", q, g.floats(root))
    k = g.op("Mul", g.transpose(k, 0, 1, 3, 2), g.floats(root))
    y = g.op("MatMul", g.op("Softmax", g.op("MatMul", q, k), axis=-1), v)
    return g.reshape(g.transpose(y, 0, 2, 1, 3), 1, tokens, width)


def _classify(g: Graph, x: str, name: str, features: int) -> None:
    with g.scope(name):
        g.output(gemm(g, x, features, 1000), "output", 1, 1000)
