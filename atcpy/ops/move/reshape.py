"""Views: ops whose output is their input's memory under another shape. Nothing runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from atcpy.errors import ModelInvalid
from atcpy.ir import NC1HWC0, DType, Engine, Format, Node, Reject, TensorDesc
from atcpy.ir.shape import Dim, Shape, format_shape
from atcpy.ir.symbolic import agree
from atcpy.ir.tensor import Array
from atcpy.ops.core.axes import known_integers, normal_axes, normal_axis, unnamed_dim
from atcpy.ops.core.opdef import Known, Layout, OpDef, Trait, register_operator
from atcpy.ops.core.shape_values import integers, is_vector, product, quotient
from atcpy.ops.random import expand_dropout


def supports_view(node: Node) -> Iterable[Reject]:
    """Tensors of a known shape; strings and sequences have no memory of ours."""
    for value in (node.operand(0), node.output):
        if value.desc.dtype in {DType.STRING, DType.UNDEFINED}:
            yield Reject("dtype", node.name, value.desc.dtype.long)
        if not value.desc.is_static:
            yield Reject("shape-unknown", node.name)
            return


def supports_dropout(node: Node) -> Iterable[Reject]:
    """Inference without a mask: that copies nothing and computes nothing."""
    yield from supports_view(node)
    training = node.input(2)
    if training is not None and (training.tensor is None or bool(training.array)):
        yield Reject("training-mode", node.name)
    if len(node.outputs) > 1 and node.outputs[1].use_count:
        yield Reject("mask-used", node.name)


def propagate_view(node: Node, known: Known) -> tuple[Dim, ...] | None:
    """The elements stay what they are, in their order."""
    return known(node.operand(0)) if is_vector(node.output) else None


def layout_view(node: Node, at_hand: tuple[Format, ...]) -> Layout | Reject:
    """Whole blocks of channels of one pixel lie in 5D as they do in NCHW: no TransData is needed."""
    shape = node.operand(0).desc.static_shape
    if at_hand[0] != NC1HWC0:
        return Reject("no-blocked-input", node.name)
    if shape[2:] != (1, 1) or shape[1] % NC1HWC0.c0:
        return Reject("elements-move", node.name)
    return Layout((NC1HWC0, *[None] * (node.input_count - 1)), (None,) * len(node.outputs))


def _as_shape(x: Array, shape: Shape) -> Array:
    sizes = integers(shape)
    assert sizes is not None
    return x.reshape(sizes)


# --- Reshape -----------------------------------------------------------------------------------


def infer_reshape(node: Node, known: Known) -> Sequence[TensorDesc]:
    """The shape that operand 1 asks for: 0 keeps a dim, −1 takes what is left."""
    x = node.operand(0).desc
    target = known(node.operand(1))
    if target is None:
        length = (node.operand(1).desc.shape or (None,))[0]
        if not isinstance(length, int):
            return [TensorDesc.plain(x.dtype, None)]
        return [TensorDesc.plain(x.dtype, tuple(unnamed_dim(node, axis) for axis in range(length)))]
    return [TensorDesc.plain(x.dtype, reshaped(node, x.shape, target))]


def reshaped(node: Node, shape: Shape | None, target: tuple[Dim, ...]) -> Shape:
    """The dims that a target of Reshape stands for. Raises ModelInvalid if they do not fit."""
    allowzero = node.int_attr("allowzero", 0) != 0
    problem = f"shape {format_shape(shape)} cannot become {format_shape(target)}"
    if any(isinstance(dim, int) and dim < -1 for dim in target) or target.count(-1) > 1:
        raise ModelInvalid("EZ8888", where=node, what=f"{problem}: sizes are 0 or more, and −1 at most once")
    if allowzero and -1 in target and 0 in target:
        raise ModelInvalid("EZ8888", where=node, what=f"{problem}: 0 and −1 exclude each other with allowzero")
    dims: list[Dim] = list(target)
    for axis, dim in enumerate(target):
        if dim == 0 and not allowzero:
            if shape is not None and axis >= len(shape):
                raise ModelInvalid("EZ8888", where=node, what=f"{problem}: there is no dim {axis} to keep")
            dims[axis] = shape[axis] if shape is not None else unnamed_dim(node, axis)
    if shape is None:
        return tuple(unnamed_dim(node, axis) if dim == -1 else dim for axis, dim in enumerate(dims))
    if -1 in dims:
        hole = dims.index(-1)
        others = dims[:hole] + dims[hole + 1 :]
        left = quotient(shape, others)
        if left is None and not allowzero:  # what is kept may be 0
            kept = {axis for axis, dim in enumerate(target) if dim == 0}
            rest = [dim for axis, dim in enumerate(dims) if axis != hole and axis not in kept]
            left = quotient([dim for axis, dim in enumerate(shape) if axis not in kept], rest)
        static = all(isinstance(dim, int) for dim in (*shape, *others))
        if left is None and static:
            raise ModelInvalid("EZ8888", where=node, what=problem)
        dims[hole] = unnamed_dim(node, hole) if left is None else left
    before, after = product(shape), product(dims)
    if isinstance(before, int) and isinstance(after, int) and not agree(before, after):
        raise ModelInvalid("EZ8888", where=node, what=f"{problem}: {before} elements are not {after}")
    return tuple(dims)


def evaluate_reshape(node: Node, arrays: Sequence[Array | None]) -> Sequence[Array]:
    """Reshape on numpy."""
    x, target = arrays
    assert x is not None and target is not None
    return [_as_shape(x, reshaped(node, x.shape, tuple(int(dim) for dim in target)))]


# --- Squeeze, Unsqueeze, Flatten ---------------------------------------------------------------


def infer_squeeze(node: Node, known: Known) -> Sequence[TensorDesc]:
    """Without the dims in `axes`; without any of size 1 if there are none."""
    x = node.operand(0).desc
    _check_axes(node)
    axes = known_integers(node, 1, known)
    if x.shape is None or (axes is None and (node.input(1) is not None or not x.is_static)):
        return [TensorDesc.plain(x.dtype, None)]
    return [TensorDesc.plain(x.dtype, _squeezed(node, x.shape, axes))]


def _check_axes(node: Node) -> None:
    """Raise ModelInvalid if the axes are neither a list nor, as some exporters write one axis, a scalar."""
    axes = node.input(1)
    if axes is not None and axes.desc.shape is not None and len(axes.desc.shape) > 1:
        raise ModelInvalid("EZ8888", where=node, what=f"axes of shape {format_shape(axes.desc.shape)}")


def _squeezed(node: Node, shape: Shape, axes: tuple[int, ...] | None) -> Shape:
    if axes is None:
        return tuple(dim for dim in shape if dim != 1)
    gone = normal_axes(node, axes, len(shape))
    for axis in gone:
        if isinstance(shape[axis], int) and shape[axis] != 1:
            raise ModelInvalid("EZ8888", where=node, what=f"dim {axis} of {format_shape(shape)} is not of size 1")
    return tuple(dim for axis, dim in enumerate(shape) if axis not in gone)


def evaluate_squeeze(node: Node, arrays: Sequence[Array | None]) -> Sequence[Array]:
    """Squeeze on numpy."""
    x, axes = arrays[0], arrays[1] if len(arrays) > 1 else None
    assert x is not None
    shape = _squeezed(node, x.shape, None if axes is None else tuple(int(axis) for axis in axes.reshape(-1)))
    return [_as_shape(x, shape)]


def infer_unsqueeze(node: Node, known: Known) -> Sequence[TensorDesc]:
    """With dims of size 1 at `axes`, which count in the result."""
    x = node.operand(0).desc
    _check_axes(node)
    axes = known_integers(node, 1, known)
    if x.shape is None or axes is None:
        return [TensorDesc.plain(x.dtype, None)]
    return [TensorDesc.plain(x.dtype, _unsqueezed(node, x.shape, axes))]


def _unsqueezed(node: Node, shape: Shape, axes: tuple[int, ...]) -> Shape:
    rank = len(shape) + len(axes)
    ones = normal_axes(node, axes, rank)
    rest = iter(shape)
    return tuple(1 if axis in ones else next(rest) for axis in range(rank))


def evaluate_unsqueeze(node: Node, arrays: Sequence[Array | None]) -> Sequence[Array]:
    """Unsqueeze on numpy."""
    x, axes = arrays
    assert x is not None and axes is not None
    shape = _unsqueezed(node, x.shape, tuple(int(axis) for axis in axes.reshape(-1)))
    return [_as_shape(x, shape)]


def infer_flatten(node: Node, known: Known) -> Sequence[TensorDesc]:
    """Two dims: those before `axis`, and the others."""
    x = node.operand(0).desc
    if x.shape is None:
        return [TensorDesc.plain(x.dtype, (unnamed_dim(node, 0), unnamed_dim(node, 1)))]
    axis = normal_axis(node, node.int_attr("axis", 1), len(x.shape), inclusive=True)
    return [TensorDesc.plain(x.dtype, (product(x.shape[:axis]), product(x.shape[axis:])))]


def evaluate_flatten(node: Node, arrays: Sequence[Array | None]) -> Sequence[Array]:
    """Flatten on numpy."""
    x = arrays[0]
    assert x is not None
    axis = normal_axis(node, node.int_attr("axis", 1), x.ndim, inclusive=True)
    return [x.reshape(int(np.prod(x.shape[:axis])), int(np.prod(x.shape[axis:])))]


# --- Identity, Dropout -------------------------------------------------------------------------


def infer_identity(node: Node, known: Known) -> Sequence[TensorDesc]:
    """The type of the input; Dropout's mask is of its shape."""
    x = node.operand(0).desc
    return [x.as_plain(), TensorDesc.plain(DType.BOOL, x.shape)][: len(node.outputs)]


def evaluate_identity(node: Node, arrays: Sequence[Array | None]) -> Sequence[Array]:
    """The input itself."""
    x = arrays[0]
    assert x is not None
    return [x]


for _name, _ge_type, _infer, _evaluate in (
    ("Reshape", "Reshape", infer_reshape, evaluate_reshape),
    ("Squeeze", "Squeeze", infer_squeeze, evaluate_squeeze),
    ("Unsqueeze", "Unsqueeze", infer_unsqueeze, evaluate_unsqueeze),
    ("Flatten", "FlattenV2", infer_flatten, evaluate_flatten),
):
    register_operator(
        OpDef(
            name=_name,
            ge_type=_ge_type,
            infer=_infer,
            propagate=propagate_view,
            evaluate=_evaluate,
            engines={Engine.GE_LOCAL: supports_view},
            layout=layout_view,
            traits=Trait.VIEW | Trait.RESHAPE | Trait.CONVERSION,
        )
    )
register_operator(
    OpDef(
        name="Identity",
        infer=infer_identity,
        propagate=propagate_view,
        evaluate=evaluate_identity,
        engines={Engine.GE_LOCAL: supports_view},
        traits=Trait.VIEW | Trait.CONVERSION,
    )
)
# No `evaluate`: a Dropout in training mode must not be folded into its input.
register_operator(
    OpDef(
        name="Dropout",
        infer=infer_identity,
        expand=expand_dropout,
        engines={Engine.GE_LOCAL: supports_dropout},
        traits=Trait.VIEW,
    )
)
