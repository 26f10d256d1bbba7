"""Random inputs that fit a model: ids inside their tables, masks of 0 and 1, otherwise noise of unit size.

The range of an integer input comes from three sources, of which the strictest wins: the model's metadata
(`below:NAME`), the tables that it indexes (Gather, followed through casts and views), and its name.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from atcpy.errors import UsageError
from atcpy.ir import DType

if TYPE_CHECKING:
    import onnx

    from atcpy import InferenceSession

Array = NDArray[Any]
Feeds = dict[str, Array]

DEFAULT_BELOW = 2  # 0 and 1 do as ids, as masks and as flags
OPEN_DIM = 1
_MASK = re.compile(r"mask|segment|token_type|is_|flag", re.IGNORECASE)
_VIEWS = frozenset({"Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Transpose", "Expand"})
_TEXTS = ("atc", "graph", "engine", "kernel")


@dataclass(frozen=True, slots=True)
class Port:
    """An input to feed; an open dim is a name or None. `gears` are its shapes in the gears of the package."""

    name: str
    dtype: DType
    shape: tuple[int | str | None, ...]
    gears: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Fill:
    """How an array is filled: `ones`, `zeros`, or `random` from a seed."""

    kind: str = "random"
    seed: int = 0

    @staticmethod
    def read(text: str) -> Fill:
        """`ones`, `zeros`, `random` or `random:SEED`."""
        match = re.fullmatch(r"(ones|zeros|random)(?::(\d{1,9}))?", text.strip())
        if match is None or (match[2] and match[1] != "random"):
            raise UsageError("E10001", f'--fill: "{text}" is not ones, zeros or random:SEED')
        return Fill(match[1], int(match[2] or 0))


def make_feeds(ports: Iterable[Port], fill: Fill, below: Mapping[str, int] | None = None) -> Feeds:
    """An array for each port; `below` bounds the integers of an input, as `integer_bounds` finds them."""
    return {port.name: make_array(port, fill, (below or {}).get(port.name)) for port in ports}


def session_ports(session: InferenceSession) -> list[Port]:
    """The inputs of a loaded package."""
    return [Port(arg.name, arg.dtype, tuple(arg.shape or ()), arg.gears) for arg in session.get_inputs()]


def feeds_of(model: onnx.ModelProto, ports: Sequence[Port], trial: int) -> Feeds:
    """Inputs of a model at these sizes, others for each trial; integers stay inside the tables that they index."""
    has_integers = model.metadata_props or not all(port.dtype.is_float for port in ports)
    return make_feeds(ports, Fill("random", trial), integer_bounds(model) if has_integers else {})


def model_ports(model: onnx.ModelProto, defaults: Collection[str] = ()) -> list[Port]:
    """The inputs of a model that have no default, in the model or by name; inputs that are no tensors are left out."""
    known = {tensor.name for tensor in model.graph.initializer}.union(defaults)
    return [
        Port(
            value.name,
            DType.from_onnx(value.type.tensor_type.elem_type),
            value_dims(value),
        )
        for value in model.graph.input
        if value.name not in known and value.type.HasField("tensor_type")
    ]


def value_dims(value: onnx.ValueInfoProto) -> tuple[int | str | None, ...]:
    """The dims of a tensor of a model: sizes, names, and None for those that have neither."""
    from atcpy.parsers.onnx.value_types import dim_name  # a rank that runs packages needs no onnx

    return tuple(
        dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else dim_name(dim) or None
        for dim in value.type.tensor_type.shape.dim
    )


def make_array(port: Port, fill: Fill, below: int | None = None) -> Array:
    """One input; it depends on its name and the seed, not on the other inputs."""
    shape = tuple(dim if isinstance(dim, int) and dim >= 0 else OPEN_DIM for dim in port.shape)
    if port.dtype is DType.STRING:
        texts = np.array(_TEXTS, dtype=np.object_)
        return (
            texts[_generator(port, fill).integers(len(texts), size=shape)]
            if fill.kind == "random"
            else np.full(shape, texts[0])
        )
    if fill.kind != "random":
        return np.full(shape, fill.kind == "ones").astype(port.dtype.numpy)
    rng = _generator(port, fill)
    if port.dtype.is_float and not _MASK.search(port.name):
        return rng.standard_normal(shape).astype(port.dtype.numpy)
    if port.dtype in (DType.COMPLEX64, DType.COMPLEX128):
        return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(port.dtype.numpy)
    if port.dtype in (DType.UINT8, DType.INT8) and below is None and not _MASK.search(port.name):
        low = 0 if port.dtype is DType.UINT8 else -128
        return rng.integers(low, low + 256, size=shape).astype(port.dtype.numpy)  # pixels, quantised values
    return rng.integers(below or DEFAULT_BELOW, size=shape).astype(port.dtype.numpy)


def _generator(port: Port, fill: Fill) -> np.random.Generator:
    return np.random.default_rng((zlib.crc32(port.name.encode("utf-8", "backslashreplace")), fill.seed))


def integer_bounds(model: onnx.ModelProto) -> dict[str, int]:
    """For integer inputs of a model: values below this number index every table that they index."""
    graph = model.graph
    sizes = _table_sizes(graph)
    readers: dict[str, list[onnx.NodeProto]] = {}
    for node in graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    bounds = {}
    for value in graph.input:
        found = _axis_sizes(value.name, readers, sizes)
        if found:
            bounds[value.name] = DEFAULT_BELOW if _MASK.search(value.name) else min(found)
    for entry in model.metadata_props:
        if entry.key.startswith("below:") and entry.value.isdigit():
            bounds[entry.key.removeprefix("below:")] = max(1, int(entry.value))
    return bounds


def _table_sizes(graph: onnx.GraphProto) -> dict[str, Sequence[int]]:
    sizes: dict[str, Sequence[int]] = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant":
            for attribute in node.attribute:
                if attribute.name == "value":
                    sizes[node.output[0]] = tuple(attribute.t.dims)
    for value in (*graph.input, *graph.value_info):
        dims = value.type.tensor_type.shape.dim
        if dims and all(dim.HasField("dim_value") for dim in dims):
            sizes.setdefault(value.name, tuple(dim.dim_value for dim in dims))
    return sizes


def _axis_sizes(
    name: str, readers: Mapping[str, list[onnx.NodeProto]], sizes: Mapping[str, Sequence[int]]
) -> list[int]:
    """Lengths of the axes that a value indexes, itself or after casts and views."""
    found: list[int] = []
    pending, seen = [name], {name}
    while pending:
        value = pending.pop()
        for node in readers.get(value, ()):
            if node.op_type in ("Gather", "GatherElements") and len(node.input) > 1 and node.input[1] == value:
                axis = next((a.i for a in node.attribute if a.name == "axis"), 0)
                dims = sizes.get(node.input[0], ())
                if -len(dims) <= axis < len(dims) and dims[axis] > 0:
                    found.append(dims[axis])
            elif node.op_type in _VIEWS and node.input[0] == value and node.output[0] not in seen:
                seen.add(node.output[0])
                pending.append(node.output[0])
    return found
