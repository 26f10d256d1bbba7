"""Operations on batches of sets, in a domain of our own, as TensorFlow defines them: numpy computes them on the host.

The last dim of a batch holds the elements of a set, in any order and any number of times; the dims before it count the
sets. A batch is dense, or sparse: indices [N, rank], values [N] and shape [rank]. Indices that do not increase are
refused as it runs (D0001); without `validate_indices` only the sets must come in order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from atcpy.errors import ModelInvalid
from atcpy.ir import DType, Engine, Node, Sym, TensorDesc
from atcpy.ir.tensor import Array
from atcpy.ops.core.opdef import Known, OpDef, always, register_operator

DOMAIN = "atcpy.sets"
OPERATIONS: dict[str, Callable[[Array, Array], Array]] = {
    "a-b": np.setdiff1d,
    "b-a": lambda a, b: np.setdiff1d(b, a),
    "intersection": np.intersect1d,
    "union": np.union1d,
}


def _rank(node: Node, first: int) -> int | None:
    """The rank of the batch whose values are input `first`; None if it is not known."""
    values, shape = node.operand(first).desc, node.input(first + 2)
    rank = None if values.shape is None else len(values.shape)
    if shape is not None:
        rank = shape.desc.static_shape[0] if shape.desc.is_static and len(shape.desc.static_shape) == 1 else None
    if rank is not None:
        _check_rank(node, first, rank)
    return rank


def _check_rank(node: Node, first: int, rank: int) -> None:
    if rank < 2:
        what = f"input {first} is of rank {rank}: a batch of sets has two dims or more"
        raise ModelInvalid("E13014", what, where=node)


def infer_operation(node: Node, known: Known) -> Sequence[TensorDesc]:
    """The indices [N, rank], values [N] and shape [rank] of a sparse batch."""
    ranks = _rank(node, 0), _rank(node, 3)
    if None not in ranks and ranks[0] != ranks[1]:
        raise ModelInvalid("E13014", f"batches of sets of ranks {ranks[0]} and {ranks[1]}", where=node)
    dtypes = [node.operand(index).desc.dtype for index in (0, 3)]
    if dtypes[0] is not dtypes[1] and DType.UNDEFINED not in dtypes:
        what = f"sets of {dtypes[0].long} and {dtypes[1].long} have no element in common"
        raise ModelInvalid("E13014", what, where=node)
    rank = ranks[0] or ranks[1] or Sym(f"{node.name}.rank")
    count = Sym(f"{node.name}.N")
    return [
        TensorDesc.plain(DType.INT64, (count, rank)),
        TensorDesc.plain(dtypes[0], (count,)),
        TensorDesc.plain(DType.INT64, (rank,)),
    ]


def infer_size(node: Node, known: Known) -> Sequence[TensorDesc]:
    """A number for each set."""
    rank, sizes = _rank(node, 0), known(node.input(2))
    if sizes is None and rank is not None:
        sizes = tuple(Sym(f"{node.name}.{axis}") for axis in range(rank))
    return [TensorDesc.plain(DType.INT32, None if sizes is None else sizes[:-1])]


def _entries(node: Node, arrays: Sequence[Array | None], first: int) -> tuple[Array, Array, tuple[int, ...]]:
    """For each element of a batch the indices of its set [n, rank − 1], and its value; and how many sets there are."""
    values = np.asarray(arrays[first])
    if first + 1 >= len(arrays) or arrays[first + 1] is None:
        _check_rank(node, first, values.ndim)
        *sizes, length = values.shape
        rows = np.indices(sizes).reshape(len(sizes), -1).T
        return np.repeat(rows, length, axis=0), values.reshape(-1), tuple(sizes)
    indices, shape = np.asarray(arrays[first + 1]), np.asarray(arrays[first + 2])
    _check_rank(node, first, len(shape))
    if indices.shape != (len(values), len(shape)):
        what = f"indices of shape {list(indices.shape)} for {len(values)} values of {len(shape)} dims"
        raise ModelInvalid("D0001", what, where=node)
    beyond = np.flatnonzero(((indices < 0) | (indices >= shape)).any(axis=1))
    if beyond.size:
        what = f"the indices {indices[beyond[0]].tolist()} are outside of the shape {shape.tolist()}"
        raise ModelInvalid("D0001", what, where=node)
    sets = indices[:, :-1]
    in_order = indices if node.int_attr("validate_indices", 1) else sets
    steps = np.diff(in_order, axis=0)
    signs = np.sign(steps[np.arange(len(steps)), (steps != 0).argmax(axis=1)])
    wrong = np.flatnonzero(signs <= 0 if in_order is indices else signs < 0)
    if wrong.size:
        what = f"the indices {indices[wrong[0] + 1].tolist()} come after {indices[wrong[0]].tolist()}"
        raise ModelInvalid("D0001", f"{what}: those of a sparse batch increase", where=node)
    return sets, values, tuple(shape[:-1].tolist())


def _ranked(values: Array) -> tuple[Array, Array]:
    """The different values in order, texts by their bytes; and where each value is among them."""
    keys = values
    if values.dtype == object:
        keys = np.empty(len(values), object)
        keys[:] = [text.encode("utf-8", "surrogateescape") for text in values]
    _, first, ranks = np.unique(keys, return_index=True, return_inverse=True)
    return values[first], ranks.reshape(-1)


def evaluate_operation(node: Node, arrays: Sequence[Array | None]) -> Sequence[Array]:
    """Number all (set, value) pairs in their order, so that operations on sets of numbers give those of all sets."""
    (sets1, values1, sizes1), (sets2, values2, sizes2) = (_entries(node, arrays, first) for first in (0, 3))
    if sizes1 != sizes2:
        what = f"{list(sizes1)} sets and {list(sizes2)} sets: both batches must have as many"
        raise ModelInvalid("D0001", what, where=node)
    values, value_ranks = _ranked(np.concatenate([values1, values2]))
    sets, set_ranks = np.unique(np.concatenate([sets1, sets2]), axis=0, return_inverse=True)
    pairs = set_ranks.reshape(-1) * len(values) + value_ranks
    kept = OPERATIONS[node.str_attr("set_operation", "union")](pairs[: len(values1)], pairs[len(values1) :])
    of_set, of_value = np.divmod(kept, max(len(values), 1))
    positions = np.arange(len(kept)) - np.searchsorted(of_set, of_set)
    shape = (*sizes1, positions.max(initial=-1) + 1)
    return [
        np.concatenate([sets[of_set], positions[:, None]], axis=1),
        values[of_value],
        np.array(shape, np.int64),
    ]


def evaluate_size(node: Node, arrays: Sequence[Array | None]) -> Sequence[Array]:
    """How many different values each set has."""
    sets, values, sizes = _entries(node, arrays, 0)
    _, ranks = _ranked(values)
    counts = np.zeros(sizes, np.int32)
    pairs = np.unique(np.column_stack([sets, ranks]), axis=0)
    np.add.at(counts, tuple(pairs[:, :-1].T), 1)
    return [counts]


_HOST = {Engine.HOST_CPU: always}
register_operator(
    OpDef(name="SetOperation", domain=DOMAIN, infer=infer_operation, evaluate=evaluate_operation, engines=_HOST)
)
register_operator(OpDef(name="SetSize", domain=DOMAIN, infer=infer_size, evaluate=evaluate_size, engines=_HOST))
