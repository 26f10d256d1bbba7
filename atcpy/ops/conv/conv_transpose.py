"""ConvTranspose, and FusedConvTranspose with its activation and residual in the same kernel.

    y[o] = Σ x[i] · w[k]  over  i · stride + k · dilation = o + pad

FusedConvTranspose(x, w, b?, residual?) {activation, alpha, beta}
    = activation(ConvTranspose(x, w, b) + residual)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from atcpy.errors import ModelInvalid
from atcpy.ir import Engine, Format, FormatKind, Node, Reject, TensorDesc
from atcpy.ir.format import NC1HWC0
from atcpy.ir.shape import Dim, Shape, StaticShape, Sym
from atcpy.ir.tensor import Array
from atcpy.ops.conv.conv import (
    C0,
    check_weights,
    group_params,
    of_unknown_window,
    plain_convolution,
    supports_blocked,
    window_params,
)
from atcpy.ops.conv.conv_direct import lower_direct
from atcpy.ops.core.axes import unnamed_dim
from atcpy.ops.core.opdef import KernelCall, Known, Layout, OpDef, register_operator
from atcpy.ops.core.reference import evaluate_by_onnx
from atcpy.ops.core.spatial import Window, positive_ints, window_of


def infer_conv_transpose(node: Node, known: Known) -> Sequence[TensorDesc]:
    """[N, C, S…] with weights [C, M/group, K…] gives [N, M, S'…]."""
    x, w = node.operand(0).desc, node.operand(1).desc
    if x.shape is None or w.shape is None:
        return [TensorDesc.plain(x.dtype, None)]
    if not w.is_static:
        return [of_unknown_window(node, x, unnamed_dim(node, 1))]
    check_weights(node, x.shape, w.static_shape, node.input(2), transposed=True)
    sizes = result_sizes(node, x.shape[2:], w.static_shape[2:])
    return [TensorDesc.plain(x.dtype, (x.shape[0], w.static_shape[1] * node.int_attr("group", 1), *sizes))]


def _plain_window(node: Node, kernel: StaticShape, spatial: Shape) -> Window:
    """The window with `pads` as they are written; 0 where `auto_pad` or `output_shape` decides."""
    if _pads_are_written(node):
        return window_of(node, kernel, spatial)
    rank = len(kernel)
    strides, dilations = positive_ints(node, "strides", rank, 1), positive_ints(node, "dilations", rank, 1)
    return Window(kernel, strides, dilations, (0,) * rank, (0,) * rank)


def _pads_are_written(node: Node) -> bool:
    return not node.ints_attr("output_shape") and node.str_attr("auto_pad", "NOTSET") in {"NOTSET", "VALID"}


def _output_padding(node: Node, rank: int) -> tuple[int, ...]:
    padding = node.ints_attr("output_padding", [0] * rank)
    if len(padding) != rank or any(value < 0 for value in padding):
        raise ModelInvalid("E13014", where=node, what=f"output_padding = {list(padding)}, needs {rank} of 0 or more")
    return padding


def result_sizes(node: Node, spatial: Shape, kernel: StaticShape) -> tuple[Dim, ...]:
    """Sizes of the result's spatial dims."""
    rank = len(kernel)
    stated, extra = node.ints_attr("output_shape"), _output_padding(node, rank)
    window = _plain_window(node, kernel, spatial)
    if stated:
        if len(stated) not in (rank, rank + 2) or any(value < 1 for value in stated):
            raise ModelInvalid("E13014", where=node, what=f"output_shape = {list(stated)}, needs {rank} above 0")
        return stated[-rank:]  # some exporters write batch and channels before them
    same = not _pads_are_written(node)
    sizes: list[Dim] = []
    for axis, size in enumerate(spatial):
        if not isinstance(size, int):
            sizes.append(Sym(f"{node.name}.{axis}"))
            continue
        if same:
            sizes.append(size * window.strides[axis])
            continue
        natural = _natural_size(size, window, extra, axis) - window.pads_begin[axis] - window.pads_end[axis]
        if natural < 1:
            raise ModelInvalid("EZ8888", where=node, what=f"spatial dim {axis} of the result has size {natural}")
        sizes.append(natural)
    return tuple(sizes)


def _natural_size(size: int, window: Window, extra: tuple[int, ...], axis: int) -> int:
    """Size of the result without padding."""
    return window.strides[axis] * (size - 1) + extra[axis] + window.effective(axis)


def transposed_window(node: Node) -> Window:
    """The window with all pads at the beginning resolved."""
    spatial, kernel = node.operand(0).desc.static_shape[2:], node.operand(1).desc.static_shape[2:]
    window = _plain_window(node, kernel, spatial)
    if _pads_are_written(node):
        return window
    extra, upper = _output_padding(node, len(kernel)), node.str_attr("auto_pad", "NOTSET") == "SAME_UPPER"
    sizes = node.output.desc.static_shape[2:]
    totals = [max(_natural_size(size, window, extra, axis) - sizes[axis], 0) for axis, size in enumerate(spatial)]
    begins = tuple(total // 2 if upper else total - total // 2 for total in totals)
    ends = tuple(total - begin for total, begin in zip(totals, begins, strict=True))
    return Window(kernel, window.strides, window.dilations, begins, ends)


def layout_conv_transpose(node: Node, at_hand: tuple[Format, ...]) -> Layout | Reject:
    """Activations in NC1HWC0, weights as the kernel reads them."""
    if node.engine is not Engine.AICORE:
        return Reject("direct-kernel", node.name)
    weights = Format(FormatKind.N1C1HWC0N0_T, C0, node.int_attr("group", 1))
    inputs: list[Format | None] = [NC1HWC0, weights, None, NC1HWC0]
    return Layout(tuple(inputs[: node.input_count]), (NC1HWC0,))


def lower_conv_transpose(node: Node) -> Iterable[KernelCall]:
    """One launch of `conv_transpose2d` on AIcoreEngine, of the direct kernel on VectorEngine."""
    if node.engine is not Engine.AICORE:
        yield from lower_direct(node, transposed_window(node), transposed=True)
        return
    params = window_params(node, transposed_window(node)) | group_params(node)
    yield KernelCall("conv_transpose2d", (*node.inputs, None, None)[:4], (node.output,), params)


def count_multiplications(node: Node) -> int:
    """Each element of the input goes into a window of one group's channels."""
    return node.operand(0).desc.elements * prod(node.operand(1).desc.static_shape[1:])


def evaluate_conv_transpose(node: Node, arrays: Sequence[Array | None]) -> Sequence[Array]:
    """Each group by itself: the reference op gives groups the weights and the bias of others."""
    group = node.int_attr("group", 1)
    axes = zip(arrays, (1, 0, 0), strict=False)
    split = [[None] * group if array is None else np.split(array, group, axis) for array, axis in axes]
    results = [evaluate_by_onnx(node, operands, group=1)[0] for operands in zip(*split, strict=True)]
    return [np.concatenate(results, axis=1)]


_FUSED = OpDef(
    name="FusedConvTranspose",
    ge_type="ConvTranspose",
    infer=infer_conv_transpose,
    engines={Engine.AICORE: supports_blocked},
    layout=layout_conv_transpose,
    lower=lower_conv_transpose,
    half_weights=(1,),
    inplace=(3,),
    fused="FusedConvTranspose",
)
register_operator(_FUSED)
register_operator(
    replace(
        plain_convolution(_FUSED, "ConvTranspose", count_multiplications), ge_type="", evaluate=evaluate_conv_transpose
    )
)
