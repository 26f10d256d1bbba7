"""Operators as CANN's article on custom fused operators writes them: objects with weights, methods without a context.

Adapts such a class to the functions that every operator has: `forward(ctx, …)`, `infer(ctx, …)` and the others. The
inputs of a node are those of `forward`, followed by the constructor's parameters, which may be attributes instead.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from atcpy.ops.custom.derived_types import sample_arrays
from atcpy.ops.custom.types import OpContext, TensorType

Hook = Callable[..., Any]
_KEPT = "_kept_inputs"


class Operator:
    """Base of an operator whose `forward(self, x, y)` computes and whose `backward(self, grad)` has the gradients.

    `forward` keeps its inputs as attributes of their names, for `backward`, unless the object has such attributes.
    A graph that is run makes a new object for each call, so that what `forward` keeps on `self` belongs to the call.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        forward = vars(cls).get("forward")
        if inspect.isfunction(forward):
            cls.forward = _keeping_inputs(forward)  # type: ignore[method-assign]

    def forward(self, *inputs: Any) -> Any:
        """Compute the outputs: for subclasses."""
        raise NotImplementedError(f"{type(self).__name__} has no forward")

    def __call__(self, *inputs: Any) -> Any:
        """Compute the outputs."""
        return self.forward(*inputs)


def _keeping_inputs(forward: Hook) -> Hook:
    signature = inspect.signature(forward)

    @functools.wraps(forward)
    def keep_and_compute(self: Any, *args: Any, **kwargs: Any) -> Any:
        inputs = list(signature.bind(self, *args, **kwargs).arguments.items())[1:]
        kept = vars(self).get(_KEPT, frozenset())
        own = {name: value for name, value in inputs if name in kept or not hasattr(self, name)}
        vars(self).update(own, **{_KEPT: kept | own.keys()})
        return forward(self, *args, **kwargs)

    return keep_and_compute


class OperatorClass:
    """A subclass of Operator as the functions of an operator: `hooks`, by name."""

    def __init__(self, cls: type[Operator]) -> None:
        self._cls = cls
        self._inputs = list(inspect.signature(cls.forward).parameters.values())[1:]
        self._weights = [
            parameter
            for parameter in list(inspect.signature(cls.__init__).parameters.values())[1:]
            if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        ]

    @property
    def hooks(self) -> dict[str, Hook]:
        """The functions, which take a context first. Raises ValueError for a class that cannot be an operator."""
        names = [parameter.name for parameter in (*self._inputs, *self._weights)]
        if twice := {name for name in names if names.count(name) > 1}:
            raise ValueError(f'"{min(twice)}" is a parameter of both forward and the constructor')
        adapted: dict[str, Hook] = {"infer": self._infer, "backward": self._backward, "decompose": self._decompose}
        found = {hook: function for hook, function in adapted.items() if hasattr(self._cls, hook)}
        if self._cls.forward is not Operator.forward:
            found["forward"] = self._forward
        signature = self._signature()
        for hook in ("forward", "infer", "decompose"):
            if hook in found:
                found[hook] = _with_signature(found[hook], signature)
        static = ("attributes", "meet_requirements")
        return found | {hook: getattr(self._cls, hook) for hook in static if hasattr(self._cls, hook)}

    @property
    def _takes_weights(self) -> bool:
        """Whether weights may be inputs of a node: behind any number of inputs they cannot be told apart."""
        return all(parameter.kind is not parameter.VAR_POSITIONAL for parameter in self._inputs)

    def _signature(self) -> inspect.Signature:
        weights = self._weights if self._takes_weights else []
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters = [inspect.Parameter("ctx", kind), *self._inputs]
        parameters += [inspect.Parameter(weight.name, kind, default=None) for weight in weights]
        return inspect.Signature(parameters)

    def _split(self, values: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
        count = len(self._inputs) if self._takes_weights else len(values)
        return values[:count], values[count:]

    def _object(self, attrs: Mapping[str, Any], weights: Sequence[Any]) -> Any:
        named = zip((weight.name for weight in self._weights), weights, strict=False)
        return self._cls(**{**attrs, **{name: value for name, value in named if value is not None}})

    # --- the functions, with a context ------------------------------------------------------------

    def _forward(self, ctx: OpContext, *arrays: Any) -> Any:
        inputs, weights = self._split(arrays)
        own = self._object(ctx.attrs, weights)
        ctx.save(own)
        return own.forward(*inputs)

    def _backward(self, ctx: OpContext, *grads: Any) -> Any:
        [own] = ctx.saved
        return own.backward(*grads)

    def _decompose(self, ops: Any, *values: Any) -> Any:
        inputs, weights = self._split(values)
        for value in weights:
            if value is not None and value.tensor is None:
                raise TypeError(f"decompose needs constant weights, and {value.name} is computed")
        own = self._object(ops.attrs, [None if value is None else value.array for value in weights])
        return own.decompose(ops, *inputs)

    def _infer(self, ctx: OpContext, *types: TensorType | None) -> Any:
        inputs, _ = self._split(types)
        own = self._object(ctx.attrs, self._split(sample_arrays(types, ctx.constants, {}))[1])
        return own.infer(*inputs)


def _with_signature(function: Hook, signature: inspect.Signature) -> Hook:
    def call(*args: Any) -> Any:
        return function(*args)

    call.__signature__ = signature  # type: ignore[attr-defined]
    return call
