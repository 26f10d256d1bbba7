"""Types of outputs by calling `forward`: for operators without `infer`.

Inputs that are not constant are ones. If sizes are open, `forward` is called with several sizes each: a size of the
result is fixed if it is always the same, open by the name of the open size that it always equals, and else open.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from atcpy.ir.tensor import Array
from atcpy.ops.custom.types import OpContext, OpenDim, TensorType

_MAX_CACHED = 64
# Of each trial: the size of the first open dim, and how much larger each further one is.
_TRIALS = ((7, 2), (12, 3), (29, 5))


class DerivedTypes:
    """The function `infer` of an operator that has none. `forward(ctx, …)` may be slow: what it told is kept."""

    def __init__(self, forward: Callable[..., Any]) -> None:
        self._forward = forward
        self._found: OrderedDict[Hashable, list[TensorType]] = OrderedDict()

    def __call__(self, ctx: OpContext, *types: TensorType | None) -> list[TensorType]:
        """The types of the outputs. Raises what `forward` does, TypeError where it fails at some of the sizes only."""
        key = (types, _key(ctx.attrs.items()), _key(enumerate(ctx.constants)))
        if key not in self._found:
            self._found[key] = self._try(ctx, types)
            if len(self._found) > _MAX_CACHED:
                self._found.popitem(last=False)
        return list(self._found[key])

    def _try(self, ctx: OpContext, types: Sequence[TensorType | None]) -> list[TensorType]:
        shapes = [found.shape for found in types if found is not None]
        symbols = list(dict.fromkeys(size for shape in shapes for size in shape if isinstance(size, str)))
        trials: list[tuple[Mapping[str, int], list[TensorType]]] = []
        for first, step in _TRIALS if symbols else _TRIALS[:1]:
            sizes = {symbol: first + step * index for index, symbol in enumerate(symbols)}
            try:
                with np.errstate(all="ignore"):
                    own = OpContext(ctx.attrs, ctx.node)
                    returned = self._forward(own, *sample_arrays(types, ctx.constants, sizes))
            except Exception as error:
                if not symbols:
                    raise
                tried = ", ".join(f"{symbol or '?'}={size}" for symbol, size in sizes.items())
                why = f"{type(error).__name__}: {error}"
                raise TypeError(f"without infer, forward is called with open sizes as {tried}: {why}") from error
            results = returned if isinstance(returned, tuple | list) else (returned,)
            trials.append((sizes, [_type_of(result) for result in results]))
        return [_common([(sizes, found[index]) for sizes, found in trials]) for index in range(len(trials[0][1]))]


def sample_arrays(
    types: Sequence[TensorType | None], constants: Sequence[Array | None], sizes: Mapping[str, int]
) -> list[Array | None]:
    """An array for each input: the constant, or ones. `sizes` are those of open dims."""
    padded = [*constants, *[None] * (len(types) - len(constants))]
    return [
        constant if constant is not None or found is None else _ones(found, sizes)
        for found, constant in zip(types, padded, strict=True)
    ]


def _ones(found: TensorType, sizes: Mapping[str, int]) -> Array:
    shape = [sizes.get(size, 1) if isinstance(size, str) else size or 0 for size in found.shape]
    return np.ones(shape, found.dtype)


def _type_of(result: object) -> TensorType:
    if not isinstance(result, np.ndarray | np.generic):
        raise TypeError(f"forward returned {type(result).__name__}, not an array")
    return TensorType(result.dtype, result.shape)


def _common(trials: Sequence[tuple[Mapping[str, int], TensorType]]) -> TensorType:
    """The type that all trials agree with."""
    (sizes, first), others = trials[0], trials[1:]
    if any(len(found.shape) != len(first.shape) for _, found in others):
        raise TypeError("without infer, forward must return arrays of the same number of dims for all sizes")
    shape: list[int | str | None] = []
    for axis, size in enumerate(first.shape):
        if all(found.shape[axis] == size for _, found in others):
            shape.append(size)
        else:
            names = [name for name in sizes if name and all(found.shape[axis] == s[name] for s, found in trials)]
            shape.append(OpenDim(names[0]) if names else None)
    return TensorType(first.dtype, shape)


def _key(items: Iterable[tuple[object, Any]]) -> Hashable:
    """What tells arrays and other values apart."""
    return tuple(
        (name, value.dtype.str, value.shape, hashlib.sha256(value.tobytes()).digest())
        if isinstance(value, np.ndarray)
        else (name, repr(value))
        for name, value in items
    )
