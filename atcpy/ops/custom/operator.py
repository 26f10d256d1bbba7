"""A user's operator: a class of functions becomes an OpDef, and each call of user code is guarded.

What user code raises is C0001 with its line; what it returns is compared with what it promised (C0002).
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

import numpy as np

from atcpy.errors import AtcError, CustomOpError, Where
from atcpy.ir import DType, Engine, Node, Reject, Rewriter, TensorDesc, Value
from atcpy.ir.desc import UNKNOWN
from atcpy.ir.pattern import Op
from atcpy.ir.tensor import Array
from atcpy.ops.core.opdef import KernelCall, Known, OpDef, Trait, is_built_in
from atcpy.ops.custom.builder import Builder
from atcpy.ops.custom.library import CKernel
from atcpy.ops.custom.types import OpContext, TensorType, attributes, type_of_all

ANY_NUMBER = 2**31 - 1
_BESIDE_BUILT_IN = "custom:"  # no domain of a user's has a colon
HOST = "host"  # the kernel family of tasks that Python runs

Hook = Callable[..., Any]


@dataclass(frozen=True)
class CustomOp:
    """One operator of a user's: its functions by name, how many inputs and outputs it has, and where it came from.

    outputs: None if the node says. file, line: where `forward` stands, as far as there is a file. source: the file by
    which `custom_ops` named it; empty for one that was registered by running its decorator.
    """

    name: str
    domain: str
    hooks: dict[str, Hook]
    inputs: tuple[int, int]
    outputs: int | None = 1
    inplace: tuple[int, ...] = ()
    random: bool = False
    patterns: tuple[Op, ...] = ()
    kernel: CKernel | None = None
    summary: str = ""
    file: str = ""
    line: int = 0
    source: str = ""

    @property
    def full_name(self) -> str:
        """Domain and name."""
        return f"{self.domain}::{self.name}"

    @property
    def node_domain(self) -> str:
        """The domain of its nodes in a graph: its own, or where that has a built-in op of the name, one beside it, so
        that conversions that do not name the operator go on to find the built-in record.
        """
        return f"{_BESIDE_BUILT_IN}{self.domain}" if is_built_in(self.domain, self.name) else self.domain

    @property
    def where(self) -> Where:
        """Where it is written."""
        return Where(file=self.file, line=self.line or None, op=self.name)

    def opdef(self) -> OpDef:
        """The record that the compiler works with. Without a kernel of its own an operator that can be written in
        others becomes these.
        """
        if self.kernel is None:
            spelled_out = "decompose" in self.hooks
            return replace(self._record(), expand=self.expand if spelled_out else None)
        return replace(
            self._record(), compute=self.compute, engines={Engine.AICPU: self._supports}, lower=_lower_to_host
        )

    def _record(self) -> OpDef:
        return OpDef(
            name=self.name,
            domain=self.node_domain,
            infer=self.infer,
            evaluate=self.evaluate,
            inplace=self.inplace,
            traits=Trait.CUSTOM | (Trait.RANDOM if self.random else Trait.NONE),
        )

    # --- what the compiler and the runtime ask ---------------------------------------------------

    def infer(self, node: Node, known: Known) -> Sequence[TensorDesc]:
        """The types of the outputs; unknown as long as an input's is."""
        types = type_of_all(node)
        if types is None:
            return [UNKNOWN for _ in node.outputs]
        constants = [None if value is None or value.tensor is None else value.array for value in node.inputs]
        return self.infer_types(node, types, constants)

    def infer_types(
        self,
        node: Node,
        types: Sequence[TensorType | None],
        constants: Sequence[Array | None] = (),
        attrs: Mapping[str, object] | None = None,
    ) -> list[TensorDesc]:
        """The types that `infer` gives for these inputs; `attrs` where they are not the node's."""
        ctx = OpContext(attributes(node) if attrs is None else attrs, node.name, constants)
        results = self._as_results("infer", node, self.call("infer", node, ctx, *types))
        descs: list[TensorDesc] = []
        for index, result in enumerate(results):
            if not isinstance(result, TensorType):
                raise self._broken(node, f"infer returned {_kind(result)} for output {index}, not a TensorType")
            try:
                descs.append(result.desc(f"{node.name}.{index}"))
            except ValueError as error:
                raise self._broken(node, f"infer: output {index}: {error}") from error
        return descs

    def evaluate(self, node: Node, arrays: Sequence[Any]) -> list[Array]:
        """The outputs by `forward`."""
        ctx = OpContext(attributes(node), node.name)
        results = self._as_results("forward", node, self.call("forward", node, ctx, *map(_read_only, arrays)))
        descs = self._promised(node, arrays)
        return [self._checked(node, index, *pair) for index, pair in enumerate(zip(results, descs, strict=True))]

    def _promised(self, node: Node, arrays: Sequence[Any]) -> Sequence[TensorDesc]:
        """The types that `infer` promises for these operands, where those of the node leave sizes open."""
        descs = [value.desc for value in node.outputs]
        if all(desc.is_static for desc in descs) or not all(isinstance(array, np.ndarray | None) for array in arrays):
            return descs
        types = [None if array is None else TensorType.of(array) for array in arrays]
        return self.infer_types(node, types, arrays, attributes(node))

    def compute(
        self, node: Node, arrays: Sequence[Array | None], room: Sequence[Array] | None = None
    ) -> Sequence[Array]:
        """The outputs by the C kernel, in `room` if there is some; by `forward` where elements share bytes."""
        assert self.kernel is not None
        if any(array is not None and _dtype_of(array).bits < 8 for array in arrays):
            return self.evaluate(node, arrays)
        inputs = [None if array is None else np.require(array, requirements=["C", "A"]) for array in arrays]
        types = [None if array is None else TensorType.of(array) for array in inputs]
        attrs = attributes(node)
        descs = self.infer_types(node, types, inputs, attrs)  # each time: a kernel writes where it is told
        for index, desc in enumerate(descs):
            if not desc.is_static:
                raise self._broken(node, f"infer does not tell the shape of output {index}, which its kernel needs")
        outputs = room or [np.empty(desc.static_shape, desc.dtype.numpy) for desc in descs]
        for index, (output, desc) in enumerate(zip(outputs, descs, strict=True)):
            if (output.shape, output.dtype) != (desc.static_shape, desc.dtype.numpy):
                raise self._broken(node, f"infer promised another type for output {index} before: {desc}")
        why = self.kernel.run(inputs, outputs, attrs)
        if why:
            raise CustomOpError("C0001", f"{self.name}: {self.kernel} failed: {why}", where=node)
        return outputs

    def expand(self, node: Node, rw: Rewriter) -> Sequence[Value] | Reject | None:
        """The ops that `decompose` makes."""
        builder = Builder(rw, attributes(node))
        results = self._as_results("decompose", node, self.call("decompose", node, builder, *node.inputs))
        for index, result in enumerate(results):
            if not isinstance(result, Value):
                raise self._broken(node, f"decompose returned {_kind(result)} for output {index}, not what an op made")
        return results

    def check_decomposed(self, node: Node, results: Sequence[Value]) -> None:
        """C0002 unless what took the node's place has the types that `infer` promised."""
        for index, (old, new) in enumerate(zip(node.outputs, results, strict=False)):
            if DType.UNDEFINED not in (new.desc.dtype, old.desc.dtype) and _differ(new.desc, old.desc):
                raise self._broken(node, f"decompose makes {new.desc} for output {index}, infer promised {old.desc}")

    def _supports(self, node: Node) -> Iterator[Reject]:
        for value in (*node.operands, *node.outputs):
            if value.desc.shape is None or not value.desc.is_static:
                yield Reject("shape-unknown", node.name)
            elif value.desc.dtype.bits < 8:
                yield Reject("dtype", node.name, value.desc.dtype.long)

    # --- calling user code -----------------------------------------------------------------------

    def call(self, hook: str, node: Node | None, *args: Any) -> Any:
        """Calls a function of the user's. Whatever it raises, an attempt to end the process included, is C0001."""
        try:
            returned = self.hooks[hook](*args)
            return list(returned) if isinstance(returned, Iterator) else returned
        except (AtcError, MemoryError):
            raise
        except (Exception, SystemExit) as error:
            line = line_in(self.file, error.__traceback__)
            where = replace(node.where if node is not None else Where(), file=self.file, line=line)
            what = f"{self.name}.{hook} raised {type(error).__name__}" + (f": {error}" if str(error) else "")
            raise CustomOpError("C0001", what, where=where) from error

    def _as_results(self, hook: str, node: Node, returned: Any) -> list[Any]:
        """One result for each of the node's outputs."""
        results = list(returned) if isinstance(returned, tuple | list) else [returned]
        expected = len(node.outputs) if self.outputs is None else self.outputs
        if len(results) != expected:
            raise self._broken(node, f"{hook} returned {len(results)} results, {expected} are promised")
        return results[: len(node.outputs)]

    def _checked(self, node: Node, index: int, result: Any, promised: TensorDesc) -> Array:
        if not isinstance(result, np.ndarray | np.generic):
            raise self._broken(node, f"forward returned {_kind(result)} for output {index}, not an array")
        array = np.asarray(result)
        if promised.dtype is not DType.UNDEFINED:
            actual = TensorDesc.plain(_dtype_of(array), array.shape)
            if _differ(actual, promised):
                raise self._broken(node, f"forward returned {actual} for output {index}, infer promised {promised}")
        return array

    def _broken(self, node: Node, what: str) -> CustomOpError:
        return CustomOpError("C0002", f"{self.name}: {what}", where=replace(node.where, file=self.file))


def _lower_to_host(node: Node) -> Iterator[KernelCall]:
    yield KernelCall(HOST, node.inputs, tuple(node.outputs), {})


def _read_only(value: Any) -> Any:
    """An array that user code cannot write to: it is somebody's memory."""
    if not isinstance(value, np.ndarray):
        return value
    view = value.view()
    view.flags.writeable = False
    return view


def _dtype_of(array: Array) -> DType:
    try:
        return DType.from_numpy(array.dtype)
    except KeyError:
        return DType.UNDEFINED


def _differ(actual: TensorDesc, promised: TensorDesc) -> bool:
    """Is it another element type, or another size where both are numbers?"""
    if actual.dtype is not promised.dtype:
        return True
    if actual.shape is None or promised.shape is None:
        return False
    if len(actual.shape) != len(promised.shape):
        return True
    pairs = zip(actual.shape, promised.shape, strict=True)
    return any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in pairs)


def _kind(value: object) -> str:
    return "None" if value is None else f"an object of type {type(value).__name__}"


def line_in(file: str, trace: TracebackType | None) -> int | None:
    """The line of a user's file in which an exception arose, the innermost one."""
    return next((frame.lineno for frame in reversed(traceback.extract_tb(trace)) if frame.filename == file), None)


def arity(function: Hook) -> tuple[int, int]:
    """How many inputs a function takes at least and at most, its context left out."""
    lowest = highest = 0
    for parameter in list(inspect.signature(function).parameters.values())[1:]:
        if parameter.kind is parameter.VAR_POSITIONAL:
            return lowest, ANY_NUMBER
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            highest += 1
            lowest = highest if parameter.default is parameter.empty else lowest
    return lowest, highest
