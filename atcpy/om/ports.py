"""Inputs and outputs with open dims: what MODEL_INOUT_INFO cannot say of them is `atcpy_ports` of TASK_INFO.

It is JSON: `dims`, the names of all open dims of inputs and then outputs, in order, and `types`, the type of each input
and output that is no tensor as ONNX Runtime writes it, "" of the others.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from atcpy.ir import CompiledModel, DType, Sym
from atcpy.om.inout import ModelInfo, TensorInfo
from atcpy.om.numbers import DTYPE_OF_GE
from atcpy.sizes import ANY_SIZE, MAX_DIM, MAX_RANK

_UNKNOWN_RANK = (-2,)


@dataclass(frozen=True, slots=True)
class OpenPort:
    """An input or output: a name stands for an open dim, None for a shape of unknown rank. `ranges` has the lowest and
    the highest size of each dim, -1 where there is no highest; `type` is "" for a tensor.
    """

    name: str
    dtype: DType
    shape: tuple[int | str, ...] | None
    ranges: tuple[tuple[int, int], ...]
    type: str


def ports_text(compiled: CompiledModel) -> str:
    """The names and types as TASK_INFO has them."""
    shapes = [port.desc.shape or () for port in (*compiled.inputs, *compiled.outputs)]
    names = [dim.name for shape in shapes for dim in shape if isinstance(dim, Sym)]
    graph = compiled.graph
    of_outputs = graph.net_output.attrs.get("types") or [""] * len(compiled.outputs)
    assert isinstance(of_outputs, tuple | list)
    types = [*(node.str_attr("type", "") for node in graph.inputs), *of_outputs]
    return json.dumps({"dims": names, "types": types}, ensure_ascii=False, separators=(",", ":"))


def read_ports(info: ModelInfo, text: str) -> tuple[tuple[OpenPort, ...], tuple[OpenPort, ...]]:
    """The inputs and the outputs. Raises ValueError, TypeError, KeyError or RecursionError for a record that is
    malformed, or does not fit the list of inputs and outputs.
    """
    record = json.loads(text)
    names, types = (iter(_texts(record[key])) for key in ("dims", "types"))
    inputs, outputs = (tuple(_ports(infos, names, types)) for infos in (info.inputs, info.outputs))
    if next(names, None) is not None or next(types, None) is not None:
        raise ValueError("it names more open dims or types than there are")
    return inputs, outputs


def _ports(infos: Sequence[TensorInfo], names: Iterator[str], types: Iterator[str]) -> Iterator[OpenPort]:
    for info in infos:
        dtype, kind = DTYPE_OF_GE.get(info.dtype), next(types, None)
        if dtype is None or kind is None:
            raise ValueError(f"{info.name} has no type")
        shape = None if info.dims == _UNKNOWN_RANK else tuple([_dim(dim, info, names) for dim in info.dims])
        if len(shape or ()) > MAX_RANK or len(info.shape_range) not in (0, len(shape or ())):
            raise ValueError(f"{info.name} has {len(info.dims)} dims and {len(info.shape_range)} ranges")
        yield OpenPort(info.name, dtype, shape, info.shape_range, kind)


def _dim(dim: int, info: TensorInfo, names: Iterator[str]) -> int | str:
    found = next(names, None) if dim == ANY_SIZE else dim
    if found is None or (isinstance(found, int) and not 0 <= found <= MAX_DIM):
        raise ValueError(f"{info.name} has a dim of {dim}")
    return found


def _texts(items: object) -> list[str]:
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise TypeError(f"{items!r:.80} is no list of texts")
    return items
