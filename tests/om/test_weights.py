"""The partition of constants: bytes at planned offsets; plans that contradict themselves are internal errors."""

import numpy as np
import pytest

from atcpy.errors import InternalError
from atcpy.ir import DType, Tensor, TensorDesc, Weight
from atcpy.om.weights import bytes_to_tensor, partition_buffers, partition_bytes

FOUR = Tensor.of(np.arange(4, dtype=np.float32))
DESC = TensorDesc.plain(DType.FLOAT32, (4,))


def test_gaps_are_zeros_and_the_end_is_that_of_ge() -> None:
    weights = [Weight("b", FOUR, DESC, 544, 16), Weight("a", FOUR, DESC, 512, 16)]
    raw = b"".join(partition_buffers(weights))
    ones = FOUR.array.tobytes()
    assert len(raw) == partition_bytes(weights) == 1024
    assert raw == bytes(512) + ones + bytes(16) + ones + bytes(1024 - 560)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([Weight("a", FOUR, DESC, 512, 16), Weight("b", FOUR, DESC, 520, 16)], "overlaps"),
        ([Weight("a", FOUR, DESC, 512, 12)], "has 16 bytes, 12 are planned"),
    ],
)
def test_plans_that_contradict_themselves_are_not_written(weights: list[Weight], message: str) -> None:
    with pytest.raises(InternalError, match=message):
        list(partition_buffers(weights))


@pytest.mark.parametrize(
    ("desc", "nbytes"),
    [
        (TensorDesc.plain(DType.FLOAT32, None), 16),
        (TensorDesc.plain(DType.UNDEFINED, (4,)), 16),
        (TensorDesc.plain(DType.FLOAT32, (2**47 + 1, 0)), 0),
        (DESC, 12),
        (DESC, 20),
    ],
    ids=str,
)
def test_bytes_of_no_constant_are_refused(desc: TensorDesc, nbytes: int) -> None:
    with pytest.raises(ValueError, match="constant"):
        bytes_to_tensor(memoryview(bytes(nbytes)), desc)
