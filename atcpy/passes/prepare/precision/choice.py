"""Which nodes the precision mode, the lists and the user lower, and why others keep their types."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from typing import Generic, TypeVar

from atcpy.errors import Unsupported, UsageError, Where, did_you_mean
from atcpy.ir import DType, Graph, Node, Reject, Value, walk
from atcpy.ir.barrier import is_barrier
from atcpy.ops import Trait, all_opdefs, find_opdef, has_trait
from atcpy.ops.core.reference import find_schema
from atcpy.ops.precision_lists import BLACK, CUBE, NEVER, SIZES, WHITE
from atcpy.precision_options import TYPE_PREFIX, CustomDtypes, PrecisionMode, PrecisionOptions

Said = TypeVar("Said")


class _Entries(Generic[Said]):
    """What the user says of nodes by their names, by patterns of names with `*` and `?`, and by `OpType::T`."""

    def __init__(self, entries: Iterable[tuple[str, Said]]) -> None:
        self.types: dict[str, Said] = {}
        self.names: dict[str, Said] = {}
        self.patterns: dict[str, tuple[re.Pattern[str], Said]] = {}
        for text, said in entries:
            if text.startswith(TYPE_PREFIX):
                self.types.setdefault(text.removeprefix(TYPE_PREFIX), said)
            elif "*" in text or "?" in text:
                pattern = re.escape(text).replace(r"\*", ".*").replace(r"\?", ".")
                self.patterns.setdefault(text, (re.compile(pattern, re.S), said))
            else:
                self.names.setdefault(text, said)

    def find(self, node: Node) -> Said | None:
        """What is said of a node: its name beats patterns, and these its type."""
        names = (*node.sources, node.name)
        by_name = (self.names[name] for name in names if name in self.names)
        by_pattern = (said for pattern, said in self.patterns.values() if any(map(pattern.fullmatch, names)))
        by_type = (self.types[name] for name in sorted(types_of(node)) if name in self.types)
        return next(chain(by_name, by_pattern, by_type), None)

    def unused(self, names: Collection[str]) -> Iterator[str]:
        """The names and patterns that none of these names fits."""
        yield from (text for text in self.names if text not in names)
        yield from (text for text, (pattern, _) in self.patterns.items() if not any(map(pattern.fullmatch, names)))


def types_of(node: Node) -> frozenset[str]:
    """The names of a node's op, ONNX's and GE's."""
    opdef = find_opdef(node)
    return frozenset({node.op_type} if opdef is None else {node.op_type, opdef.type_in_ge(node)})


def names_of(node: Node) -> tuple[str, ...]:
    """The model's nodes that a node stands for, or its own name where there is none."""
    return node.sources or (node.name,)


class Choice:
    """Decides node by node, in their order."""

    def __init__(self, graph: Graph, options: PrecisionOptions) -> None:
        self._mode = options.mode
        self._lists = options.lists
        self._keep = _Entries((text, text) for text in options.keep)
        self._customized = _Entries((item.entry, item) for item in options.customized)
        self._shapes = _derived_from_shapes(graph)
        self._check_names(graph, options)

    def customized(self, node: Node) -> CustomDtypes | None:
        """What the user says of the types of a node."""
        return self._customized.find(node)

    def is_kept(self, node: Node) -> bool:
        """Whether the user says that a node keeps its types."""
        return self._keep.find(node) is not None

    def rejects(self, node: Node, lowered: Sequence[bool]) -> Iterator[Reject]:
        """Why a node that computes in floats keeps its types. `lowered` says of each float that it reads, constants
        left out, whether it is lowered.
        """
        types, lists = types_of(node), self._lists
        if self.is_kept(node):
            yield Reject("kept-by-user", node.name)
        elif node.has_subgraphs:
            yield Reject("has-bodies", node.name, node.op_type)
        elif any(value in self._shapes for value in node.outputs):
            yield Reject("computed-from-shapes", node.name, node.op_type)
        elif _is_beside_quantised(node):
            yield Reject("beside-quantised", node.name, node.op_type)
        elif self._mode in (PrecisionMode.ALLOW_FP16, PrecisionMode.CUBE_FP16IN_FP32OUT):
            if node.op_type not in CUBE:
                yield Reject("not-on-white-list", node.name, node.op_type)
        elif self._mode.is_mixed:
            if types & lists.add_black or (
                node.op_type in BLACK and not types & (lists.remove_black | lists.add_white)
            ):
                yield Reject("on-black-list", node.name, node.op_type)
            elif types & lists.add_white or (node.op_type in WHITE and not types & lists.remove_white):
                return
            elif not lowered or not all(lowered):
                yield Reject("producer-not-lowered", node.name, node.op_type)

    def is_candidate(self, node: Node) -> bool:
        """Whether a mode may change the types of a node at all."""
        return node.op_type not in NEVER and not (is_barrier(node) or has_trait(node, Trait.CUSTOM))

    def _check_names(self, graph: Graph, options: PrecisionOptions) -> None:
        names = set(_names_in(walk(graph))) | graph.decisions.removed.keys() | graph.decisions.erased.keys()
        for option, texts, types in (
            ("keep_dtype", self._keep.unused(names), self._keep.types),
            ("customize_dtypes", self._customized.unused(names), self._customized.types),
        ):
            for text in texts:
                what = f'--{option}: no node "{text}" in the model'
                raise UsageError("E10016", what, where=Where(option=option), hint=did_you_mean(text, names))
            for name in types:
                _check_type(option, graph, name)
        for text in self._customized.unused(set(_names_in(graph.nodes))):
            what = f'--customize_dtypes: "{text}" was folded or replaced, or is inside If, Loop or Scan'
            where = Where(option="customize_dtypes", node=text)
            raise Unsupported("E10055", what, where=where, hint="`atcpy explain` shows what became of the node")
        lists = options.lists
        for name in sorted(lists.add_black | lists.remove_black | lists.add_white | lists.remove_white):
            _check_type("modify_mixlist", graph, name)


def _names_in(nodes: Iterable[Node]) -> Iterator[str]:
    """The names of nodes, and of the model's nodes that they stand for."""
    for node in nodes:
        if not node.is_structural:
            yield from (node.name, *node.sources)


def _check_type(option: str, graph: Graph, name: str) -> None:
    """Raise UsageError (E10016) for a type that is no op."""
    if find_schema(name, "") is not None or any(node.op_type == name for node in walk(graph)):
        return
    known = {type_name for opdef in all_opdefs() for type_name in (opdef.name, *opdef.ge_types)}
    if name not in known:
        what = f'--{option}: there is no op "{name}"'
        raise UsageError("E10016", what, where=Where(option=option), hint=did_you_mean(name, known))


def _derived_from_shapes(graph: Graph) -> set[Value]:
    """The values that are computed from shapes and constants alone: 16 bits hold few sizes exactly."""
    derived: set[Value] = set()
    for node in graph.nodes:
        computed = [value for value in node.operands if value.tensor is None]
        if node.op_type in SIZES or (computed and all(value in derived for value in computed)):
            derived.update(node.outputs)
    return derived


def _is_beside_quantised(node: Node) -> bool:
    """Whether a node, or one that it reads from or that reads it, computes on bytes. Sums of their products are
    beyond the range of float16 until the Mul behind their Cast has scaled them.
    """
    makers = [value.producer for value in node.operands]
    makers += [maker.operand(0).producer for maker in makers if maker.op_type == "Cast"]
    users = [user for value in node.outputs for user in value.users]
    return any(map(_is_quantised, (node, *makers, *users)))


def _is_quantised(node: Node) -> bool:
    """Whether a node computes on bytes and their scales, or sums products of bytes."""
    if node.op_type == "Cast" or node.is_structural:
        return False
    kinds = {value.desc.dtype for value in (*node.operands, *node.outputs)}
    has_bytes = any(kind.is_int and kind.bits <= 8 for kind in kinds)
    return has_bytes and (
        any(kind.is_float for kind in kinds) or any(value.desc.dtype is DType.INT32 for value in node.outputs)
    )
