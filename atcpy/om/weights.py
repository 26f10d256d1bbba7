"""WEIGHTS_DATA: the bytes of constants in the format of their descs, one after the other at planned offsets."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from atcpy.errors import InternalError
from atcpy.formats import find_format
from atcpy.ir import DType, Tensor, TensorDesc, Weight, is_static
from atcpy.ir.shape import element_count
from atcpy.ir.tensor import Array
from atcpy.om import attrs
from atcpy.om.bits import pack_bits, unpack_bits

GE_ALIGN = 512  # GE begins its constants at 512 and ends the partition at a multiple of it
_GE_TAIL = 32
_MAX_ELEMENTS = 1 << 47


def partition_bytes(weights: Iterable[Weight]) -> int:
    """Size of the partition: GE's rule, which leaves 1024 bytes to a model without constants."""
    end = max((weight.offset + weight.nbytes for weight in weights), default=0)
    return -(-(max(end, GE_ALIGN) + _GE_TAIL) // GE_ALIGN) * GE_ALIGN


def partition_buffers(weights: Sequence[Weight]) -> Iterator[memoryview]:
    """The partition in pieces."""
    return packed_buffers(weights, partition_bytes(weights))


def packed_buffers(weights: Iterable[Weight], size: int) -> Iterator[memoryview]:
    """`size` bytes with constants in pieces, each packed when it is asked for: a model's weights are never in memory
    twice.
    """
    ordered = sorted(weights, key=lambda weight: (weight.offset, weight.nbytes))
    at = 0
    for weight in ordered:
        if weight.offset + weight.nbytes <= at:
            continue  # equal constants share one offset
        if weight.offset < at:
            raise InternalError(f"weight {weight.name} overlaps the one before it", where=weight.name)
        yield memoryview(bytes(weight.offset - at))
        packed = tensor_to_bytes(weight.tensor, weight.desc)
        if packed.nbytes != weight.nbytes:
            raise InternalError(f"weight {weight.name} has {packed.nbytes} bytes, {weight.nbytes} are planned")
        yield packed
        at = weight.offset + weight.nbytes
    yield memoryview(bytes(size - at))


def tensor_to_bytes(tensor: Tensor, desc: TensorDesc) -> memoryview:
    """The constant as it lies in memory under `desc`."""
    if tensor.dtype is DType.STRING:
        return memoryview(attrs.tensor_to_text(tensor).encode(errors="surrogateescape"))
    array = tensor.array if desc.format.is_plain else find_format(desc.format).pack(tensor.array)
    if tensor.dtype.bits < 8:
        return pack_bits(array, tensor.dtype).data
    flat = np.ascontiguousarray(array).reshape(-1)
    return flat.view(np.uint8).data


def bytes_to_tensor(raw: memoryview, desc: TensorDesc) -> Tensor:
    """A constant over bytes of the package, unpacked when somebody asks; ValueError if the sizes do not fit."""
    if desc.dtype is DType.STRING:
        return attrs.text_to_tensor(bytes(raw).decode(errors="surrogateescape"))
    if not is_static(desc.shape) or desc.dtype is DType.UNDEFINED:
        raise ValueError(f"a constant of type {desc}")
    if element_count(tuple(dim or 1 for dim in desc.shape)) > _MAX_ELEMENTS:
        raise ValueError(f"a constant of shape {desc.shape}")  # numpy refuses it even where a dim is 0
    if desc.format.is_plain:
        expected = desc.shape
    else:
        form = find_format(desc.format)
        expected = form.storage_shape(desc.shape) if form.accepts(desc.shape) else ()
    if desc.memory_shape != expected or raw.nbytes != desc.nbytes:
        raise ValueError(f"{raw.nbytes} bytes of {desc} for a constant of shape {desc.shape}")
    return Tensor(desc.dtype, desc.static_shape, lambda: _unpack(raw, desc))


def _unpack(raw: memoryview, desc: TensorDesc) -> Array:
    flat = np.frombuffer(raw, np.uint8)
    if desc.dtype.bits < 8:
        flat = unpack_bits(flat, desc.dtype, element_count(desc.memory_shape))
    array: Array = flat.view(desc.dtype.numpy).reshape(desc.memory_shape)
    return array if desc.format.is_plain else find_format(desc.format).unpack(array, desc.static_shape)
