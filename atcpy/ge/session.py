"""Session: graphs by id, compiled and run."""

from __future__ import annotations

import copy
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias

import onnx

import atcpy
from atcpy.errors import UsageError
from atcpy.ge.engine import enroll, in_callback, refuse_in_callback
from atcpy.ge.graph import Graph
from atcpy.ge.ir_build import compile_model, options_of
from atcpy.ge.model import model_of
from atcpy.ge.options import merged_options
from atcpy.ge.summary import CompiledGraphSummary, GraphMemory, MemoryReport
from atcpy.om.container import Verify
from atcpy.om.package import parse_package
from atcpy.options import convert_options
from atcpy.runtime import InferenceSession

_MAX_ID = 2**32 - 1
# Called when a run has ended: with None and the outputs, or with what it raised and an empty list.
RunAsyncCallback: TypeAlias = Callable[[Exception | None, list[Any]], object]


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A package, and the session that runs it."""

    package: bytes
    session: InferenceSession
    input_names: Sequence[str]
    summary: CompiledGraphSummary

    @property
    def run_bytes(self) -> int | None:
        """Memory of a run; None if it depends on open dims."""
        return max(plan.run_bytes for plan in self.session.plans) if self.summary.IsStatic() else None


@dataclass(slots=True)
class _AddedGraph:
    """A graph of a session. `uses` counts calls in progress and queued runs, which keep it from being removed; `model`
    is None when it is compiled.
    """

    graph_id: int
    model: Path | onnx.ModelProto | None
    options: Mapping[str, object]
    compiled: _Compiled | None = None
    uses: int = 0
    runs: int = 0
    peak_runs: int = 0
    compiling: threading.Lock = field(default_factory=threading.Lock)
    counting: threading.Lock = field(default_factory=threading.Lock)

    def compile(self) -> _Compiled:
        """Compile the graph unless it is; the other threads that ask for it wait."""
        with self.compiling:
            if self.compiled is None:
                assert self.model is not None
                package, report = compile_model(self.model, self.options)
                options = convert_options(self.options)
                limit = options.limits.memory_bytes
                session = atcpy.InferenceSession(package, threads=options.threads, memory_limit=limit)
                summary = CompiledGraphSummary(report, parse_package(package, verify=Verify.HEADER))
                names = [port.name for port in session.get_inputs()]
                self.compiled, self.model = _Compiled(package, session, names, summary), None
            return self.compiled

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """Run the graph on inputs in its order."""
        compiled = self.compiled or self.compile()
        names = compiled.input_names
        if len(inputs) != len(names):
            what = f"graph {self.graph_id}: {len(inputs)} inputs are given, it has {len(names)}"
            raise UsageError("E10401", what, hint=f"its inputs are {', '.join(names)}" if names else "")
        with self.counting:
            self.runs += 1
            self.peak_runs = max(self.peak_runs, self.runs)
        try:
            return compiled.session.run(None, dict(zip(names, inputs, strict=True)))
        finally:
            with self.counting:
                self.runs -= 1

    def memory(self) -> GraphMemory | None:
        """What a compiled graph needs."""
        if self.compiled is None:
            return None
        weights = self.compiled.summary.GetConstMemorySize()
        return GraphMemory(self.graph_id, weights, self.compiled.run_bytes, self.runs, self.peak_runs)


class Session:
    """Graphs that are compiled and run, each under an id. Options apply to all of them and override those of
    GEInitialize; those of AddGraph override both. Threads may share a session: runs do not wait for each other, and a
    graph is compiled once.

    Each method raises UsageError: G0001 when the session has ended, G0003 if there is no graph of the id.
    """

    def __init__(self, options: Mapping[str, object] | None = None) -> None:
        self._changed = threading.Condition()
        self._graphs: dict[int, _AddedGraph] = {}
        self._is_closed = False
        # One thread: runs end, and callbacks are called, in the order of RunGraphAsync.
        self._queue = ThreadPoolExecutor(max_workers=1, thread_name_prefix="ge-session")
        self._id, outer = enroll(self)
        self._options = merged_options(outer, options)

    def GetSessionId(self) -> int:
        """A number that no other session of the process has."""
        return self._id

    def AddGraph(self, graph_id: int, graph: Graph, options: Mapping[str, object] | None = None) -> None:
        """Add a graph as it is now: what is done to it afterwards has no effect here.

        Raises UsageError for options or if the id is taken (G0004), ModelInvalid for what is wrong with operators.
        """
        _check_id(graph_id)
        merged = options_of(graph, self._options, options)
        added = _AddedGraph(graph_id, model_of(graph), merged)
        with self._changed:
            self._check_open()
            if graph_id in self._graphs:
                raise UsageError(
                    "G0004", f"AddGraph: the session has a graph {graph_id}", hint="RemoveGraph, or another id"
                )
            self._graphs[graph_id] = added

    def RemoveGraph(self, graph_id: int) -> None:
        """Remove a graph. Raises UsageError while it is compiled, runs or has runs that wait (G0005)."""
        with self._changed:
            added = self._find(graph_id)
            if added.uses:
                what = f"RemoveGraph: graph {graph_id} is in use by {added.uses} calls"
                raise UsageError("G0005", what, hint="wait for its runs")
            del self._graphs[graph_id]

    def CompileGraph(self, graph_id: int) -> None:
        """Compile a graph, if it is not. Raises what `atcpy.convert` does."""
        with self._using(graph_id) as added:
            added.compile()

    def IsGraphNeedRebuild(self, graph_id: int) -> bool:
        """Whether the graph is still to be compiled."""
        with self._changed:
            return self._find(graph_id).compiled is None

    def RunGraph(self, graph_id: int, inputs: Sequence[Any]) -> list[Any]:
        """Run a graph, which is compiled if it is not. `inputs` are arrays in the order of the graph's inputs; the
        outputs are arrays that the caller owns. Raises what `InferenceSession.run` does, and what CompileGraph does.
        """
        with self._using(graph_id) as added:
            return added.run(inputs)

    def RunGraphAsync(self, graph_id: int, inputs: Sequence[Any], callback: RunAsyncCallback) -> None:
        """Queue a run, with copies of its inputs. The runs of a session follow each other in the order in which they
        were queued, in a thread of the session; so do the calls of their callbacks, which get the errors of runs. What
        a callback raises is printed, as for any thread.
        """
        if not callable(callback):
            raise UsageError("E10003", f"RunGraphAsync: the callback is {callback!r}")
        copies = copy.deepcopy(list(inputs))
        with self._changed:
            self._queue.submit(self._run_queued, self._begin(graph_id), copies, callback)

    def GetCompiledGraphSummary(self, graph_id: int) -> CompiledGraphSummary:
        """The resources of a graph. Raises UsageError (G0006) before it is compiled."""
        return self._compiled(graph_id, "GetCompiledGraphSummary").summary

    def GetCompiledModel(self, graph_id: int) -> bytes:
        """The package of a graph. Raises UsageError (G0006) before it is compiled."""
        return self._compiled(graph_id, "GetCompiledModel").package

    def GetMemoryReport(self) -> MemoryReport:
        """The memory of the graphs that are compiled, and of their runs at this moment."""
        with self._changed:
            self._check_open()
            listed = [added.memory() for added in self._graphs.values()]
        return MemoryReport([memory for memory in listed if memory is not None])

    def close(self) -> None:
        """Wait for all runs and callbacks, then release the graphs. Raises UsageError in a callback (G0005)."""
        refuse_in_callback("Session")
        with self._changed:
            self._is_closed = True
            self._changed.wait_for(lambda: not any(added.uses for added in self._graphs.values()))
            self._graphs.clear()
        self._queue.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _run_queued(self, added: _AddedGraph, inputs: list[Any], callback: RunAsyncCallback) -> None:
        error: Exception | None = None
        outputs: list[Any] = []
        try:
            outputs = added.run(inputs)
        except Exception as raised:  # noqa: BLE001  the callback gets it
            error = raised
        self._end(added)  # the callback may remove the graph
        try:
            with in_callback():
                callback(error, outputs)
        except Exception:  # noqa: BLE001  nobody waits for the result: the hook of threads reports it
            threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))

    @contextmanager
    def _using(self, graph_id: int) -> Iterator[_AddedGraph]:
        """A graph that cannot be removed meanwhile."""
        added = self._begin(graph_id)
        try:
            yield added
        finally:
            self._end(added)

    def _begin(self, graph_id: int) -> _AddedGraph:
        with self._changed:
            added = self._find(graph_id)
            added.uses += 1
        return added

    def _end(self, added: _AddedGraph) -> None:
        with self._changed:
            added.uses -= 1
            if self._is_closed:
                self._changed.notify_all()

    def _find(self, graph_id: int) -> _AddedGraph:
        _check_id(graph_id)
        self._check_open()
        if graph_id not in self._graphs:
            listed = ", ".join(map(str, self._graphs)) or "none"
            hint = f"AddGraph; its graphs are {listed}"
            raise UsageError("G0003", f"the session has no graph {graph_id}", hint=hint)
        return self._graphs[graph_id]

    def _compiled(self, graph_id: int, caller: str) -> _Compiled:
        with self._changed:
            compiled = self._find(graph_id).compiled
        if compiled is None:
            raise UsageError("G0006", f"{caller}: graph {graph_id} is not compiled", hint=f"CompileGraph({graph_id})")
        return compiled

    def _check_open(self) -> None:
        if self._is_closed:
            raise UsageError("G0001", "the session has ended", hint="ge.GEInitialize(), then a new Session")


def _check_id(graph_id: int) -> None:
    if isinstance(graph_id, bool) or not isinstance(graph_id, int):
        raise UsageError("E10003", f"the id of a graph is {graph_id!r}, not a number")
    if not 0 <= graph_id <= _MAX_ID:
        raise UsageError("E10013", f"the id of a graph is {graph_id}, outside 0..{_MAX_ID}")
