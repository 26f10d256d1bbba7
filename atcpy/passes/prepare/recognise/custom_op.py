"""Replace matches of custom operators' patterns by the operators: one pass for each that has a pattern.

The user vouches that the operator computes the same. The pass checks that nobody else reads the nodes that vanish, and
that the type of the result stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from atcpy.errors import CustomOpError
from atcpy.ir import Match, Node, Reject, Rewriter, Shape, Sym, Value
from atcpy.ops.custom import CustomOp, CustomOps, parameter_names
from atcpy.ops.custom.types import TensorType
from atcpy.options import OoLevel
from atcpy.passes.base import Pass
from atcpy.passes.fusion import Fusion, only_read_within
from atcpy.passes.pass_set import PassSet, built_in_passes
from atcpy.passes.phase import Phase


class CustomOpFusion(Fusion):
    """The pass of one operator. It runs before the built-in passes: what the user asks for comes first."""

    def __init__(self, operator: CustomOp) -> None:
        self.operator = operator
        self.pattern = operator.patterns
        self.switch = f"{operator.name}FusionPass"

    def as_pass(self) -> Pass:
        """Return the declaration, which is not registered: it belongs to the conversions that name the operator."""
        summary = self.operator.summary or f"Put {self.operator.name} in the place of its pattern"
        return Pass(
            name=self.switch, phase=Phase.CUSTOM, run=self.run, level=OoLevel.O2, summary=summary, is_neutral=False
        )

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        yield from only_read_within(m, m.root)
        yield from promises_type(self.operator, m.root, self._inputs(m), self._attributes(m, m.root))
        if "meet_requirements" in self.operator.hooks:
            yield from self._own_requirements(m, m.root)

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        attrs = self._attributes(m, rw.anchor)
        return rw.op(f"{self.operator.node_domain}::{self.operator.name}", *self._inputs(m), **attrs)

    def _inputs(self, m: Match) -> list[Value | None]:
        """Return the values of the pattern in the order of `forward`'s parameters."""
        values = [m.get(name) for name in parameter_names(self.operator.hooks["forward"])]
        while values and values[-1] is None:
            values.pop()
        return values

    def _attributes(self, m: Match, root: Node) -> Mapping[str, object]:
        if "attributes" not in self.operator.hooks:
            return {}
        attrs = self.operator.call("attributes", root, m)
        if not isinstance(attrs, Mapping):
            raise CustomOpError("C0002", f"{self.operator.name}: attributes returned no dict", where=root)
        return {str(name): tuple(value) if isinstance(value, list) else value for name, value in attrs.items()}

    def _own_requirements(self, m: Match, root: Node) -> Iterator[Reject]:
        for reject in self.operator.call("meet_requirements", root, m) or ():
            if not isinstance(reject, Reject):
                what = f"{self.operator.name}: meet_requirements gave what is no atcpy.ir.Reject"
                raise CustomOpError("C0002", what, where=root)
            yield reject


def promises_type(
    operator: CustomOp, root: Node, inputs: Sequence[Value | None], attrs: Mapping[str, object]
) -> Iterator[Reject]:
    """Yield a reason if `infer` promises another type for these inputs than that of the value of `root`."""
    types = [None if value is None else TensorType.of(value.desc) for value in inputs]
    if any(found is None and value is not None for found, value in zip(types, inputs, strict=True)):
        yield Reject("shape-unknown", root.name)
        return
    promised = operator.infer_types(root, types, attrs=attrs)[0]
    actual = root.output.desc
    if promised.dtype is not actual.dtype:
        yield Reject("dtype", root.name, f"{promised.dtype.long} for {actual.dtype.long}")
    elif not _may_be(promised.shape, actual.shape, f"{root.name}.0."):
        yield Reject("broadcast", root.name)


def _may_be(promised: Shape | None, actual: Shape | None, unnamed: str) -> bool:
    """Return whether a promised shape may be the actual one: symbols named `unnamed…` match any symbol."""
    if promised is None or actual is None or len(promised) != len(actual):
        return False
    return all(
        ours == theirs or (isinstance(ours, Sym) and isinstance(theirs, Sym) and ours.name.startswith(unnamed))
        for ours, theirs in zip(promised, actual, strict=True)
    )


def passes_with(operators: CustomOps) -> PassSet:
    """Return the passes of a conversion that may use these operators: the built-in ones, one for each operator that has
    a pattern, and those that the files of operators declare.
    """
    fusions = (CustomOpFusion(operator).as_pass() for operator in operators if operator.patterns)
    return built_in_passes().extended((*fusions, *(entry for entry in operators.passes if isinstance(entry, Pass))))
