"""`atcpy.jit`: a function that is traced and compiled once for each signature of its arguments."""

from __future__ import annotations

import functools
import inspect
import logging
import types
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import RLock
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from atcpy.errors import ModelInvalid, Unsupported, UsageError, did_you_mean
from atcpy.ir.tensor import Array
from atcpy.jit.config import CALLED_CELLS, JitConfig, current_context
from atcpy.jit.structure import (
    Structure,
    as_arrays,
    is_numpy,
    key_of,
    native,
    paths,
    put_together,
    take_apart,
)
from atcpy.jit.tracing import Traced, name_of, ndonnx, trace, untraceable

if TYPE_CHECKING:
    import onnx

    from atcpy.jit.execution import RunGraph

P = ParamSpec("P")
R = TypeVar("R")
OpenShapes = Mapping[str, Sequence[int | str | None]]

LOGGER = logging.getLogger("atcpy")
# How many signatures of a function stay compiled; the one that was used longest ago goes first.
MAX_SIGNATURES = 64


@dataclass(frozen=True)
class _Call:
    """The arguments of one call: arrays, their names, their shapes with names for open sizes, and the rest."""

    structure: Structure
    arrays: Sequence[Array]
    names: Sequence[str]
    shapes: Sequence[tuple[int | str, ...]]


@dataclass(frozen=True)
class _Compiled:
    """What one signature was compiled to. `run` is None if it runs as Python. `cells` have what was read while the
    function was traced: a Cell, and its attributes then.
    """

    run: Callable[[Sequence[Array]], Any] | None
    cells: tuple[tuple[weakref.ref[Any], tuple[object, ...]], ...] = ()

    @property
    def is_current(self) -> bool:
        """Whether the Cells are as they were. One that is gone, such as a Cell of the function's own, cannot change."""
        return all((cell := ref()) is None or _same(cell.state(), state) for ref, state in self.cells)


@dataclass
class _Cache:
    """The signatures of a function, or of a method of one object, that are compiled."""

    entries: OrderedDict[Hashable, _Compiled] = field(default_factory=OrderedDict)
    lock: RLock = field(default_factory=RLock)

    def find(self, key: Hashable, compile_: Callable[[], _Compiled]) -> _Compiled:
        """The entry of a signature, compiled if there is none that is current. Only who needs an entry that is being
        compiled waits for it, or for another one.
        """
        entry = self._current(key)
        if entry is None:
            with self.lock:
                entry = self._current(key)
                if entry is None:
                    self.entries.pop(key, None)
                    entry = self.entries[key] = compile_()
                    if len(self.entries) > MAX_SIGNATURES:
                        self.entries.popitem(last=False)
        elif self.lock.acquire(blocking=False):
            if key in self.entries:
                self.entries.move_to_end(key)
            self.lock.release()
        return entry

    def _current(self, key: Hashable) -> _Compiled | None:
        entry = self.entries.get(key)
        return entry if entry is not None and entry.is_current else None


class JitFunction(Generic[P, R]):
    """A function that is compiled when it is called with arguments of a new signature: element types and shapes of
    arrays, values of all else.
    """

    def __init__(
        self,
        function: Callable[P, R],
        jit_config: JitConfig | None,
        input_shape: OpenShapes,
        cache: _Cache | None = None,
    ) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._config = jit_config
        self._input_shape = input_shape
        self._cache = cache or _Cache()
        self._methods: dict[int, tuple[weakref.ref[object], _Cache]] = {}

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the function on arrays. Results that are arrays are new arrays of numpy.

        Raises Unsupported (J0001) for what cannot be traced if the level is STRICT, UsageError for arguments that do
        not fit `input_shape`.
        """
        if CALLED_CELLS.get() is not None:
            return self._function(*args, **kwargs)
        call = self._take_apart(args, kwargs)
        config = self._config or current_context().jit_config
        try:
            types_ = tuple((array.dtype, shape) for array, shape in zip(call.arrays, call.shapes, strict=True))
            key: Hashable = (key_of(call.structure), types_, config)
        except TypeError as error:
            why, key = f"an argument is neither an array nor hashable: {error}", ("not hashable", config)
            entry = self._cache.find(key, lambda: _give_up(untraceable(self._function, why), config))
        else:
            entry = self._cache.find(key, lambda: self._compile(call, config))
        if entry.run is None:
            return self._function(*args, **kwargs)
        result: R = entry.run(call.arrays)
        return result

    @overload
    def __get__(self, instance: None, owner: type) -> JitFunction[P, R]: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> JitFunction[..., R]: ...
    def __get__(self, instance: object, owner: type | None = None) -> JitFunction[..., R]:
        """The method of an object. What is compiled for an object is kept as long as the object."""
        if instance is None:
            return self
        key = id(instance)
        if key not in self._methods:
            try:
                alive = weakref.ref(instance, lambda _: self._methods.pop(key, None))
            except TypeError as error:
                what = f"{name_of(self._function)}: a jit method needs objects that can be referenced weakly"
                raise UsageError("E10003", what, hint='add "__weakref__" to __slots__') from error
            self._methods.setdefault(key, (alive, _Cache()))
        method = types.MethodType(self._function, instance)
        return JitFunction(method, self._config, self._input_shape, self._methods[key][1])

    @property
    def signatures(self) -> int:
        """How many signatures are compiled, or known to run as Python."""
        return len(self._cache.entries)

    def to_model_proto(self, *args: P.args, **kwargs: P.kwargs) -> onnx.ModelProto:
        """The traced graph for these arguments, before it is compiled. Raises Unsupported (J0001) if none is."""
        model = self._trace(self._take_apart(args, kwargs)).model
        if model is None:
            raise untraceable(self._function, "no result is an array that depends on the arguments")
        return model

    @functools.cached_property
    def _signature(self) -> inspect.Signature:
        return inspect.signature(self._function)

    def _take_apart(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> _Call:
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        found: list[Any] = []
        values = {name: as_arrays(value) for name, value in bound.arguments.items()}
        structure = take_apart(values, is_numpy, found)
        names = list(paths(structure))
        if unknown := [name for name in self._input_shape if name not in names]:
            what = f'{name_of(self._function)}: input_shape names "{unknown[0]}", which is no array'
            raise UsageError("E10404", what, hint=did_you_mean(unknown[0], names))
        arrays = [native(array) for array in found]
        if len(set(names)) < len(names):  # keys of a dict such as 1 and "1"
            names = [f"{name}.{index}" for index, name in enumerate(names)]
        return _Call(structure, arrays, names, _open_shapes(names, arrays, self._input_shape))

    def _compile(self, call: _Call, config: JitConfig) -> _Compiled:
        from atcpy.jit.execution import compile_graph

        ndonnx()  # that it is missing is no reason to run as Python
        try:
            traced = self._trace(call)
            graph: RunGraph | None = None
            if traced.model is not None:
                graph = compile_graph(traced.model, call.names, traced.outputs, config)
        except (Unsupported, ModelInvalid) as error:
            return _give_up(error, config)

        def run(arrays: Sequence[Array]) -> Any:
            return put_together(traced.result, graph(arrays) if graph is not None else ())

        owner = getattr(self._function, "__self__", None)
        cells = [cell for cell in (owner, *traced.cells) if hasattr(cell, "state")]
        return _Compiled(run, tuple((weakref.ref(cell), cell.state()) for cell in cells))

    def _trace(self, call: _Call) -> Traced:
        def call_with(values: Mapping[str, Any]) -> Any:
            bound = inspect.BoundArguments(self._signature, OrderedDict(values))
            return self._function(*bound.args, **bound.kwargs)

        return trace(self._function, call_with, call.structure, call.arrays, call.names, call.shapes)


def _give_up(error: Unsupported | ModelInvalid, config: JitConfig) -> _Compiled:
    """Raise the error if the level is STRICT, else log it: the function runs as Python."""
    if config.is_strict:
        raise error
    LOGGER.warning("%s; it runs as Python\n  at %s", error.what, error.where)
    return _Compiled(None)


def _same(now: tuple[object, ...], then: tuple[object, ...]) -> bool:
    return len(now) == len(then) and all(a is b for a, b in zip(now, then, strict=True))


def _open_shapes(names: Sequence[str], arrays: Sequence[Array], asked: OpenShapes) -> list[tuple[int | str, ...]]:
    """The shape of each array, with names for the sizes that are open. Raises UsageError where one does not fit."""
    sizes: dict[str, int] = {}
    shapes: list[tuple[int | str, ...]] = []
    for name, array in zip(names, arrays, strict=True):
        dims = asked.get(name, array.shape)
        if len(dims) != array.ndim:
            raise UsageError("E10402", f'"{name}" has {array.ndim} dims, input_shape says {len(dims)}')
        shape: list[int | str] = []
        for axis, (dim, size) in enumerate(zip(dims, array.shape, strict=True)):
            is_open = dim is None or dim == -1 or isinstance(dim, str)
            expected = sizes.setdefault(dim, size) if isinstance(dim, str) else size if is_open else dim
            if expected != size:
                what = f'"{name}" has size {size} in axis {axis}, input_shape says {dim}'
                raise UsageError("E10405", what + (f", which is {expected}" if isinstance(dim, str) else ""))
            shape.append(dim if isinstance(dim, str) else f"{name}.{axis}" if is_open else size)
        shapes.append(tuple(shape))
    return shapes


@overload
def jit(
    function: Callable[P, R], *, jit_config: JitConfig | None = None, input_shape: OpenShapes | None = None
) -> JitFunction[P, R]: ...
@overload
def jit(
    function: None = None, *, jit_config: JitConfig | None = None, input_shape: OpenShapes | None = None
) -> Callable[[Callable[P, R]], JitFunction[P, R]]: ...
def jit(
    function: Callable[..., Any] | None = None,
    *,
    jit_config: JitConfig | None = None,
    input_shape: OpenShapes | None = None,
) -> Any:
    """Compile a function over arrays when it is called: `@atcpy.jit`, `@atcpy.jit(…)` or `atcpy.jit(function)`.

    The function uses the array API standard (`x.__array_namespace__()`, operators). It is compiled once for each
    signature: element types and shapes of the arrays, values of all other arguments. `input_shape` leaves sizes open:
    `{"x": ["n", 4]}` serves every number of rows; equal names are equal sizes, None is any size.

    Raises UsageError for what is no function.
    """
    if function is None:
        return functools.partial(jit, jit_config=jit_config, input_shape=input_shape)
    if isinstance(function, type) or not callable(function):
        what = f"atcpy.jit compiles functions and methods, not {function!r}"
        raise UsageError("E10003", what, hint="decorate a method, as construct of a Cell")
    return JitFunction(function, jit_config, input_shape or {})
