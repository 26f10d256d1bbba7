"""Let a user's class walk the graph and replace nodes: `@atcpy.register_fusion_optimizer`.

Its method `optimize_fusion(graph)` gets a `FusionGraph`. It is a pass of the phase CUSTOM, beside those of operators
with a pattern; what it replaces is checked as theirs is.
"""

from __future__ import annotations

from typing import Any, TypeVar

from atcpy.errors import AtcError, CustomOpError, UsageError, Where
from atcpy.ir import Graph, Match, Node, PassRecord, Value
from atcpy.ir.pattern import Op, matches
from atcpy.ops.custom import custom_op_of
from atcpy.ops.custom.operator import line_in
from atcpy.ops.custom.registry import source_file
from atcpy.options import OoLevel
from atcpy.passes.base import declare_pass
from atcpy.passes.folding import Finisher
from atcpy.passes.fusion import only_read_within
from atcpy.passes.phase import Phase
from atcpy.passes.prepare.recognise.custom_op import promises_type

Class = TypeVar("Class", bound=type)


class FusionGraph:
    """A graph as a fusion optimizer sees it."""

    def __init__(self, graph: Graph, record: PassRecord, options: object) -> None:
        self._graph = graph
        self._finisher = Finisher(graph, record, options)

    @property
    def nodes(self) -> list[Node]:
        """The nodes in topological order."""
        return list(self._graph.nodes)

    def match(self, node: Node, pattern: Op) -> Match | None:
        """The first way in which a pattern of `atcpy.ir.pattern` matches with `node` as its root."""
        return next(iter(matches(pattern, node)), None) if node.graph is self._graph else None

    def replace(self, match: Match, operator: type | str, *inputs: Value | None, **attrs: Any) -> bool:
        """Put an operator, a registered class or its name, in the place of a match. Returns whether it was: not if
        another node reads a value that would vanish, or if the types differ, which `inspect --passes` shows.
        """
        root, custom = match.root, custom_op_of(operator)
        values, frozen = list(inputs), {k: tuple(v) if isinstance(v, list) else v for k, v in attrs.items()}
        rejects = [*only_read_within(match, root), *promises_type(custom, root, values, frozen)]
        nodes = [root, *(node for node in match.nodes.values() if node is not root)]
        rw = self._finisher.match(*nodes, rejects=rejects)
        if rw is None:
            return False
        new = rw.op(f"{custom.node_domain}::{custom.name}", *values, **frozen)
        self._finisher.finish(rw, [(root.output, new)], nodes)
        return True


def _run_optimizer(optimizer: Any, name: str, file: str, graph: Graph, record: PassRecord, options: object) -> None:
    """Let a user's optimizer work on a graph. Whatever it raises is C0001."""
    seen = FusionGraph(graph, record, options)
    try:
        returned = optimizer.optimize_fusion(seen)
    except (AtcError, MemoryError):
        raise
    except (Exception, SystemExit) as error:
        where = Where(file=file, line=line_in(file, error.__traceback__))
        what = f"{name}.optimize_fusion raised {type(error).__name__}" + (f": {error}" if str(error) else "")
        raise CustomOpError("C0001", what, where=where) from error
    if returned is not None and returned is not seen:
        what = f"{name}.optimize_fusion returned {type(returned).__name__}, not the graph"
        raise CustomOpError("C0002", what, where=Where(file=file))


def register_fusion_optimizer(cls: Class) -> Class:
    """Make a class whose `optimize_fusion(graph)` replaces nodes a pass of that name.

    A class in a file of `custom_ops` works in the calls that name the file, any other in all of the process. Raises
    UsageError (E13030) for what is no such class.
    """
    if not isinstance(cls, type) or not callable(getattr(cls, "optimize_fusion", None)):
        raise _refused(cls, "it is no class with a method optimize_fusion")
    try:
        optimizer = cls()
    except Exception as error:
        raise _refused(cls, f"no object can be made: {type(error).__name__}: {error}") from error
    file = source_file(cls)

    def run(graph: Graph, record: PassRecord, options: object) -> None:
        _run_optimizer(optimizer, cls.__name__, file, graph, record, options)

    run.__module__ = cls.__module__  # the pass is the user's
    declare_pass(cls.__name__, Phase.CUSTOM, run, cls.__doc__, level=OoLevel.O2, is_neutral=False)
    return cls


def _refused(cls: Any, why: str) -> UsageError:
    name = getattr(cls, "__name__", str(cls))
    hint = "docs/custom-ops.md shows how a fusion optimizer must look"
    return UsageError("E13030", f"{name} cannot be registered: {why}", where=Where(file=source_file(cls)), hint=hint)
