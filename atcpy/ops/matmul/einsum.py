"""Einsum, written in products, sums and permutations.

Einsum(a, b, c) {equation=…}  →  operands are taken in from left to right; what nobody reads later is summed up

Two operands become a MatMul where they sum up a label together, else a Mul. An ellipsis stands for labels of its own,
counted from the right; a label of size 1 in one operand and more in another spreads.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from atcpy.errors import ModelInvalid
from atcpy.ir import Node, Reject, Rewriter, TensorDesc, Value
from atcpy.ir.shape import Dim
from atcpy.ir.symbolic import same
from atcpy.ops.core.axes import unnamed_dim
from atcpy.ops.core.opdef import Known, OpDef, register_operator
from atcpy.ops.matmul.matmul import BATCH_RANK, KERNEL_DTYPES

Labels = tuple[str, ...]  # a letter each, or "…k", the k-th dim of the ellipsis from the right
_TERM = re.compile(r"([A-Za-z]*)(\.\.\.)?([A-Za-z]*)")


class _SizeUnknown(Exception):
    """A size that only running the model tells decides what to write; its argument is the label."""


@dataclass(frozen=True, slots=True)
class _Term:
    """A value and the labels of its dims."""

    value: Value
    labels: Labels


def expand_einsum(node: Node, rw: Rewriter) -> Sequence[Value] | Reject:
    """Takes in one operand after the other."""
    dtype = node.operand(0).desc.dtype
    if dtype not in KERNEL_DTYPES:
        return Reject("dtype", node.name, dtype.long)
    if any(value.desc.shape is None for value in node.operands):
        return Reject("shape-unknown", node.name)
    labels, result = parse_equation(node)
    try:
        return [_Writer(node, rw, labels).write(result)]
    except _SizeUnknown as unknown:
        return Reject("shape-unknown", node.name, str(unknown))


# --- the equation ------------------------------------------------------------------------------


def parse_equation(node: Node) -> tuple[list[Labels], Labels]:
    """The labels of each operand and of the result."""
    equation = node.str_attr("equation", "").replace(" ", "")
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) != node.input_count:
        raise _invalid(node, f"names {len(terms)} operands, there are {node.input_count}")
    labels = [
        _labels(node, term, len(value.desc.shape or ())) for term, value in zip(terms, node.operands, strict=True)
    ]
    every = [label for one in labels for label in one]
    dots = sorted({label for label in every if label.startswith("…")}, key=lambda label: -int(label[1:]))
    if arrow:
        result = _labels(node, right, len(right.replace("...", "")) + len(dots))
    else:
        result = (*dots, *sorted(label for label in set(every) if label.isalpha() and every.count(label) == 1))
    if len(set(result)) != len(result) or not set(result) <= set(every):
        raise _invalid(node, "its result has labels twice, or of no operand")
    return labels, result


def _labels(node: Node, term: str, rank: int) -> Labels:
    found = _TERM.fullmatch(term)
    if found is None:
        raise _invalid(node, f'"{term}" is not a list of letters')
    before, dots, after = found.groups()
    missing = rank - len(before) - len(after)
    if missing < 0 or (missing > 0 and not dots):
        raise _invalid(node, f'"{term}" does not fit an operand of rank {rank}')
    return (*before, *(f"…{missing - k}" for k in range(missing)), *after)


def _invalid(node: Node, what: str) -> ModelInvalid:
    return ModelInvalid("E13014", where=node, what=f'equation "{node.str_attr("equation", "")}": {what}')


def label_size(node: Node, labels: Sequence[Labels], label: str) -> Dim:
    """The size that all dims of a label have, those of size 1 aside."""
    dims = [
        dim
        for own, value in zip(labels, node.operands, strict=True)
        for name, dim in zip(own, value.desc.shape or (), strict=True)
        if name == label
    ]
    others = set(dims) - {1}
    if len(others) < 2:
        return others.pop() if others else 1
    if all(isinstance(dim, int) for dim in others):
        raise _invalid(node, f'"{label}" has the sizes {", ".join(map(str, dims))}')
    raise _SizeUnknown(label)


def infer_einsum(node: Node, known: Known) -> Sequence[TensorDesc]:
    """A dim for each label of the result."""
    dtype = node.operand(0).desc.dtype
    if any(value.desc.shape is None for value in node.operands):
        return [TensorDesc.plain(dtype, None)]
    labels, result = parse_equation(node)
    dims: list[Dim] = []
    for axis, label in enumerate(result):
        try:
            dims.append(label_size(node, labels, label))
        except _SizeUnknown:
            dims.append(unnamed_dim(node, axis))
    return [TensorDesc.plain(dtype, tuple(dims))]


# --- the nodes ---------------------------------------------------------------------------------


class _Writer:
    """Makes the nodes of one Einsum."""

    def __init__(self, node: Node, rw: Rewriter, labels: list[Labels]) -> None:
        self._node = node
        self._rw = rw
        self._terms = [_Term(value, own) for value, own in zip(node.operands, labels, strict=True)]
        self._sizes = {label: label_size(node, labels, label) for term in self._terms for label in term.labels}

    def write(self, result: Labels) -> Value:
        terms = [self._single(term) for term in self._terms]
        total = terms[0]
        for position, term in enumerate(terms[1:], start=1):
            later = {label for other in terms[position + 1 :] for label in other.labels}
            total = self._join(total, term, later | set(result))
        return self._ordered(self._summed(total, set(result)), result).value

    def _single(self, term: _Term) -> _Term:
        """Without dims of size 1 that spread, and each label once."""
        shape = term.value.desc.shape or ()
        broadcast = [
            axis
            for axis, label in enumerate(term.labels)
            if not same(shape[axis], self._sizes[label]) and shape[axis] == 1 and self._sizes[label] != 1
        ]
        if broadcast:
            value = self._rw.op("Squeeze", term.value, self._ints(broadcast))
            term = _Term(value, tuple(label for axis, label in enumerate(term.labels) if axis not in broadcast))
        for label in dict.fromkeys(term.labels):
            while term.labels.count(label) > 1:
                term = self._diagonal(term, label)
        return term

    def _diagonal(self, term: _Term, label: str) -> _Term:
        """Two dims of a label become one: every (n + 1)-th of their n · n elements."""
        n = self._sizes[label]
        if not isinstance(n, int):
            raise _SizeUnknown(label)
        axes = [axis for axis, own in enumerate(term.labels) if own == label][:2]
        order = axes + [axis for axis in range(len(term.labels)) if axis not in axes]
        value = self._rw.op("Transpose", term.value, perm=tuple(order))
        labels = tuple(term.labels[axis] for axis in order[1:])
        if n > 0:
            pair = self._reshaped(value, [[n * n], *[[own] for own in labels[1:]]])
            value = self._rw.op("Slice", pair, *map(self._ints, ([0], [n * n], [0], [n + 1])))
        else:
            value = self._rw.op("ReduceSum", value, self._ints([0]), keepdims=0)
        return _Term(value, labels)

    def _summed(self, term: _Term, keep: Iterable[str]) -> _Term:
        """Sums up the labels that nobody needs any more."""
        kept = set(keep)
        axes = [axis for axis, label in enumerate(term.labels) if label not in kept]
        if not axes:
            return term
        value = self._rw.op("ReduceSum", term.value, self._ints(axes), keepdims=0)
        return _Term(value, tuple(label for label in term.labels if label in kept))

    def _ordered(self, term: _Term, labels: Labels) -> _Term:
        if term.labels == labels:
            return term
        perm = tuple(term.labels.index(label) for label in labels)
        return _Term(self._rw.op("Transpose", term.value, perm=perm), labels)

    def _join(self, left: _Term, right: _Term, keep: set[str]) -> _Term:
        left = self._summed(left, keep | set(right.labels))
        right = self._summed(right, keep | set(left.labels))
        both = [label for label in left.labels if label in right.labels]
        batch, inner = [label for label in both if label in keep], [label for label in both if label not in keep]
        rows = [label for label in left.labels if label not in both]
        columns = [label for label in right.labels if label not in both]
        labels = (*batch, *rows, *columns)
        turned = bool(inner) and right.labels == (*batch, *columns, *inner) and right.value.tensor is None
        turned = turned and len(batch) <= BATCH_RANK
        left = self._ordered(left, (*batch, *rows, *inner))
        right = right if turned else self._ordered(right, (*batch, *inner, *columns))
        if not inner:
            return _Term(self._rw.op("Mul", self._spread(left, labels), self._spread(right, labels)), labels)
        groups = [[label] for label in batch]
        a = self._reshaped(left.value, [*groups, rows, inner], left.labels)
        sides = [columns, inner] if turned else [inner, columns]  # constant weights are turned once and for all
        b = self._reshaped(right.value, [*groups, *sides], right.labels)
        product = self._rw.op("FusedMatMul", a, b, transB=1) if turned else self._rw.op("MatMul", a, b)
        if len(rows) == 1 and len(columns) == 1:
            return _Term(product, labels)
        return _Term(self._reshaped(product, [[label] for label in labels]), labels)

    def _spread(self, term: _Term, labels: Labels) -> Value:
        """The term with dims of size 1 for the labels that it lacks."""
        axes = [axis for axis, label in enumerate(labels) if label not in term.labels]
        return self._rw.op("Unsqueeze", term.value, self._ints(axes)) if axes else term.value

    def _reshaped(self, value: Value, groups: Sequence[Sequence[str | int]], labels: Labels | None = None) -> Value:
        """One dim for each group of labels or numbers; nothing is done where each of `labels` is a group."""
        if labels is not None and [list(group) for group in groups] == [[label] for label in labels]:
            return value
        dims: list[int] = []
        for group in groups:
            dim = 1
            for label in group:
                size = label if isinstance(label, int) else self._sizes[label]
                if not isinstance(size, int):
                    dim = -1
                    break
                dim *= size
            dims.append(dim)
        if dims.count(-1) > 1 or (-1 in dims and 0 in dims):
            raise _SizeUnknown(str(self._node.attrs.get("equation")))
        return self._rw.op("Reshape", value, self._ints(dims), allowzero=1)

    def _ints(self, numbers: Sequence[int]) -> Value:
        return self._rw.const(list(numbers))


register_operator(
    OpDef(
        name="Einsum",
        infer=infer_einsum,
        expand=expand_einsum,
        multiplications=lambda node: node.output.desc.elements * max(value.desc.elements for value in node.operands),
    )
)
