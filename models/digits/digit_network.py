"""A small residual CNN in numpy: forward, backward, and its export to ONNX.

Training uses NHWC, where a 3x3 convolution is one product of the pixels' neighbourhoods with a [9*in, out] matrix.
The export is NCHW, as other frameworks write it, and keeps BatchNormalization and Dropout.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

Floats = npt.NDArray[np.float32]

OPSET: Final = 17
IR_VERSION: Final = 8
EPSILON: Final = 1e-5
STATISTICS_MOMENTUM: Final = 0.95
DROPOUT: Final = 0.1


@dataclass
class Parameter:
    """Trained values and the gradient of the last backward pass."""

    value: Floats
    gradient: Floats


class Exporter:
    """Collects nodes and initializers; values are identified by name."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def weight(self, name: str, array: npt.NDArray[Any]) -> str:
        self.weights.append(numpy_helper.from_array(np.asarray(array, order="C"), name))
        return name

    def op(self, op_type: str, path: str, *inputs: str, **attributes: Any) -> str:
        output = f"/{path}/{op_type}_output_0"
        self.nodes.append(helper.make_node(op_type, inputs, [output], name=f"/{path}/{op_type}", **attributes))
        return output


class Layer(ABC):
    """One layer of the network; `backward` uses values saved by the preceding training `forward`."""

    @abstractmethod
    def forward(self, x: Floats, *, training: bool) -> Floats: ...

    @abstractmethod
    def backward(self, grad: Floats) -> Floats: ...

    @abstractmethod
    def export(self, to: Exporter, path: str, x: str) -> str:
        """Adds the layer's nodes to `to` and returns the name of their result."""

    def parameters(self) -> Iterator[Parameter]:
        yield from ()


class Conv3x3(Layer):
    """A padded 3x3 convolution without bias, since a BatchNorm follows."""

    def __init__(self, channels_in: int, channels_out: int, rng: np.random.Generator) -> None:
        weight = rng.normal(0.0, math.sqrt(2 / (9 * channels_in)), (3, 3, channels_in, channels_out))
        self._weight = _parameter(weight)

    def forward(self, x: Floats, *, training: bool) -> Floats:
        self._columns = _neighbourhoods(x)
        return _as_matmul(self._columns, self._weight.value)

    def backward(self, grad: Floats) -> Floats:
        weight = self._weight.value
        rows = self._columns.reshape(-1, self._columns.shape[-1])
        self._weight.gradient[...] = (rows.T @ grad.reshape(-1, grad.shape[-1])).reshape(weight.shape)
        return _as_matmul(_neighbourhoods(grad), weight[::-1, ::-1].transpose(0, 1, 3, 2))

    def export(self, to: Exporter, path: str, x: str) -> str:
        weight = to.weight(f"{path}.weight", self._weight.value.transpose(3, 2, 0, 1))
        return to.op(
            "Conv", path, x, weight, kernel_shape=[3, 3], pads=[1] * 4, strides=[1, 1], dilations=[1, 1], group=1
        )

    def parameters(self) -> Iterator[Parameter]:
        yield self._weight


class BatchNorm(Layer):
    def __init__(self, channels: int) -> None:
        self._gamma, self._beta = _parameter(np.ones(channels)), _parameter(np.zeros(channels))
        self._mean, self._variance = np.zeros(channels, np.float32), np.ones(channels, np.float32)

    def forward(self, x: Floats, *, training: bool) -> Floats:
        if training:
            mean, variance = x.mean(axis=(0, 1, 2)), x.var(axis=(0, 1, 2))
            self._mean += (1 - STATISTICS_MOMENTUM) * (mean - self._mean)
            self._variance += (1 - STATISTICS_MOMENTUM) * (variance - self._variance)
        else:
            mean, variance = self._mean, self._variance
        self._scale = (1 / np.sqrt(variance + EPSILON)).astype(np.float32)
        self._unit: Floats = (x - mean) * self._scale
        y: Floats = self._unit * self._gamma.value + self._beta.value
        return y

    def backward(self, grad: Floats) -> Floats:
        count = grad.size // grad.shape[-1]
        self._beta.gradient[...] = grad.sum(axis=(0, 1, 2))
        self._gamma.gradient[...] = (grad * self._unit).sum(axis=(0, 1, 2))
        drift = (self._beta.gradient + self._unit * self._gamma.gradient) / np.float32(count)
        through: Floats = (grad - drift) * (self._gamma.value * self._scale)
        return through

    def export(self, to: Exporter, path: str, x: str) -> str:
        arrays = {
            "weight": self._gamma.value,
            "bias": self._beta.value,
            "running_mean": self._mean,
            "running_var": self._variance,
        }
        names = [to.weight(f"{path}.{leaf}", array) for leaf, array in arrays.items()]
        return to.op("BatchNormalization", path, x, *names, epsilon=EPSILON, momentum=0.9)

    def parameters(self) -> Iterator[Parameter]:
        yield self._gamma
        yield self._beta


class Relu(Layer):
    def forward(self, x: Floats, *, training: bool) -> Floats:
        self._alive = x > 0
        return np.maximum(x, 0)

    def backward(self, grad: Floats) -> Floats:
        return grad * self._alive

    def export(self, to: Exporter, path: str, x: str) -> str:
        return to.op("Relu", path, x)


class MaxPool2x2(Layer):
    def forward(self, x: Floats, *, training: bool) -> Floats:
        n, h, w, c = x.shape
        windows = x.reshape(n, h // 2, 2, w // 2, 2, c)
        pooled: Floats = windows.max(axis=(2, 4))
        self._is_largest: npt.NDArray[np.bool_] = windows == pooled[:, :, None, :, None]
        return pooled

    def backward(self, grad: Floats) -> Floats:
        n, h, w, c = grad.shape
        return (self._is_largest * grad[:, :, None, :, None]).reshape(n, 2 * h, 2 * w, c)

    def export(self, to: Exporter, path: str, x: str) -> str:
        return to.op("MaxPool", path, x, kernel_shape=[2, 2], strides=[2, 2], pads=[0] * 4, ceil_mode=0)


class Residual(Layer):
    """Relu(x + body(x))."""

    def __init__(self, body: dict[str, Layer]) -> None:
        self._body, self._relu = Chain(body), Relu()

    def forward(self, x: Floats, *, training: bool) -> Floats:
        return self._relu.forward(x + self._body.forward(x, training=training), training=training)

    def backward(self, grad: Floats) -> Floats:
        grad = self._relu.backward(grad)
        return grad + self._body.backward(grad)

    def export(self, to: Exporter, path: str, x: str) -> str:
        total = to.op("Add", path, self._body.export(to, path, x), x)
        return self._relu.export(to, path, total)

    def parameters(self) -> Iterator[Parameter]:
        yield from self._body.parameters()


class GlobalAveragePool(Layer):
    """The mean over height and width; the export flattens it to [batch, channels]."""

    def forward(self, x: Floats, *, training: bool) -> Floats:
        self._shape = x.shape
        mean: Floats = x.mean(axis=(1, 2))
        return mean

    def backward(self, grad: Floats) -> Floats:
        _, height, width, _ = self._shape
        return np.broadcast_to(grad[:, None, None] / np.float32(height * width), self._shape)

    def export(self, to: Exporter, path: str, x: str) -> str:
        return to.op("Flatten", path, to.op("GlobalAveragePool", path, x), axis=1)


class Dropout(Layer):
    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def forward(self, x: Floats, *, training: bool) -> Floats:
        if not training:
            return x
        self._mask = (self._rng.random(x.shape, np.float32) >= DROPOUT) * np.float32(1 / (1 - DROPOUT))
        return x * self._mask

    def backward(self, grad: Floats) -> Floats:
        return grad * self._mask

    def export(self, to: Exporter, path: str, x: str) -> str:
        return to.op("Dropout", path, x, to.weight(f"{path}.ratio", np.array(DROPOUT, np.float32)))


class Linear(Layer):
    def __init__(self, features_in: int, features_out: int, rng: np.random.Generator) -> None:
        self._weight = _parameter(rng.normal(0.0, 1 / math.sqrt(features_in), (features_in, features_out)))
        self._bias = _parameter(np.zeros(features_out))

    def forward(self, x: Floats, *, training: bool) -> Floats:
        self._x = x
        return x @ self._weight.value + self._bias.value

    def backward(self, grad: Floats) -> Floats:
        self._weight.gradient[...] = self._x.T @ grad
        self._bias.gradient[...] = grad.sum(axis=0)
        return grad @ self._weight.value.T

    def export(self, to: Exporter, path: str, x: str) -> str:
        weight = to.weight(f"{path}.weight", self._weight.value.T)
        bias = to.weight(f"{path}.bias", self._bias.value)
        return to.op("Gemm", path, x, weight, bias, alpha=1.0, beta=1.0, transB=1)

    def parameters(self) -> Iterator[Parameter]:
        yield self._weight
        yield self._bias


class Chain(Layer):
    """Named layers in sequence."""

    def __init__(self, layers: dict[str, Layer]) -> None:
        self._layers = layers

    def forward(self, x: Floats, *, training: bool) -> Floats:
        for layer in self._layers.values():
            x = layer.forward(x, training=training)
        return x

    def backward(self, grad: Floats) -> Floats:
        for layer in reversed(self._layers.values()):
            grad = layer.backward(grad)
        return grad

    def export(self, to: Exporter, path: str, x: str) -> str:
        for name, layer in self._layers.items():
            x = layer.export(to, f"{path}/{name}" if path else name, x)
        return x

    def parameters(self) -> Iterator[Parameter]:
        for layer in self._layers.values():
            yield from layer.parameters()


def build(rng: np.random.Generator) -> Chain:
    """Returns the untrained network: [n, 28, 28, 1] to ten logits."""

    def conv_bn_relu(channels_in: int, channels_out: int) -> dict[str, Layer]:
        return {"conv": Conv3x3(channels_in, channels_out, rng), "bn": BatchNorm(channels_out), "relu": Relu()}

    def residual(channels: int) -> Residual:
        return Residual(
            {
                "conv1": Conv3x3(channels, channels, rng),
                "bn1": BatchNorm(channels),
                "relu1": Relu(),
                "conv2": Conv3x3(channels, channels, rng),
                "bn2": BatchNorm(channels),
            }
        )

    return Chain(
        {
            "stem": Chain(conv_bn_relu(1, 16)),
            "pool1": MaxPool2x2(),
            "block1": residual(16),
            "widen": Chain(conv_bn_relu(16, 32)),
            "pool2": MaxPool2x2(),
            "block2": residual(32),
            "head": GlobalAveragePool(),
            "dropout": Dropout(rng),
            "classifier": Linear(32, 10, rng),
        }
    )


def export(network: Chain, side: int, metadata: dict[str, str]) -> onnx.ModelProto:
    """Returns the network as an ONNX model: `image` [1, 1, side, side] to `probabilities` [1, 10]."""
    to = Exporter()
    logits = network.export(to, "", "image")
    to.nodes.append(helper.make_node("Softmax", [logits], ["probabilities"], name="/Softmax", axis=-1))
    graph = helper.make_graph(
        to.nodes,
        "digits",
        [helper.make_tensor_value_info("image", onnx.TensorProto.FLOAT, [1, 1, side, side])],
        [helper.make_tensor_value_info("probabilities", onnx.TensorProto.FLOAT, [1, 10])],
        initializer=to.weights,
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION, producer_name="make_digits"
    )
    helper.set_model_props(model, metadata)
    return model


def _parameter(value: npt.NDArray[np.float64]) -> Parameter:
    return Parameter(value.astype(np.float32), np.zeros(value.shape, np.float32))


def _neighbourhoods(x: Floats) -> Floats:
    """Returns each pixel's 3x3 neighbourhood, zero outside the picture: [n, h, w, 9*c]."""
    n, height, width, channels = x.shape
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    shifted = [padded[:, dy : dy + height, dx : dx + width] for dy in range(3) for dx in range(3)]
    return np.concatenate(shifted, axis=-1).reshape(n, height, width, 9 * channels)


def _as_matmul(columns: Floats, weight: Floats) -> Floats:
    return columns @ weight.reshape(-1, weight.shape[-1])
