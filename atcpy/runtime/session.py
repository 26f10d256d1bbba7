"""Stage 6, execute: InferenceSession, of the shape of onnxruntime's class of that name."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np

from atcpy.errors import (
    ModelInvalid,
    PackageCorrupt,
    ResourceLimit,
    Unsupported,
    UsageError,
    Where,
    did_you_mean,
    raise_all,
)
from atcpy.ir.dtype import DType
from atcpy.kernels import _kernels
from atcpy.om.container import Verify
from atcpy.om.package import Package
from atcpy.runtime.deadline import RunDeadline
from atcpy.runtime.distributed.world import SingleRank, World
from atcpy.runtime.loader import bind_compiled, bind_package, missing_custom_ops
from atcpy.runtime.memory import as_array
from atcpy.runtime.plan import DirectRun, ExecutionPlan
from atcpy.runtime.shared_packages import open_shared_package
from atcpy.runtime.workers import choose_workers
from atcpy.sizes import MemoryLimit, misfit

# What is imported here runs packages of fixed shapes; functions import what others need besides.
if TYPE_CHECKING:
    from concurrent.futures import Future

    from atcpy.ir import Node
    from atcpy.ir.tensor import Array
    from atcpy.om.ports import OpenPort
    from atcpy.om.reader import PackagedModel
    from atcpy.om.signature import PublicKey, PublicKeys
    from atcpy.runtime.async_runs import Callback
    from atcpy.runtime.gears import GearPlans
    from atcpy.runtime.io_binding import IOBinding
    from atcpy.runtime.on_demand import FindCompiler, ShapeCache
    from atcpy.runtime.ort_arguments import ModelMetadata, SessionOptions
    from atcpy.runtime.planned_model import PlannedModel
    from atcpy.runtime.procedure import Procedure
    from atcpy.runtime.profile import Profile, TaskInfo, TaskTime
    from atcpy.runtime.states import BoundStates, StatePlans
    from atcpy.runtime.symbolic import PlanContext

DEFAULT_SHAPE_CACHE = 16
_MAX_CHECKED = 256
_NONE_FED: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class NodeArg:
    """An input or output: its name, its dims (a name where a size may vary; None if not even their number is
    known), and its type as onnxruntime writes it. `dtype` is UNDEFINED for what is no tensor; `ranges` are
    the lowest and the highest size of each dim, -1 where there is no highest; `gears` are its shapes in the gears of
    the package, in their order.
    """

    name: str
    shape: tuple[int | str, ...] | None
    type: str
    dtype: DType
    ranges: tuple[tuple[int, int], ...] = ()
    gears: tuple[tuple[int, ...], ...] = ()


class InferenceSession:
    """A package, loaded and ready to run. Threads may share it: each run has memory of its own.

    source: path of a `.om`, or its bytes. threads: maximum number of threads (default: physical cores).
    verify: "full" checks every byte against the checksum, "header" all but the weights. mmap: map
    the file; without it, read it. Sessions of one file share its memory, and it is checked once.

    sess_options, providers: those of onnxruntime. `intra_op_num_threads` is the number of threads; each provider but
    CPUExecutionProvider is ignored with a warning.

    affinity: the CPUs for the threads that the session adds to the calling one: "0-3,8", "node0" or numbers.

    require_signature: public keys, each a path or the bytes of PEM, one of which must have signed the package. Then
    every byte is checked, whatever `verify` says, and the file is read, not mapped. None asks for no signature.

    custom_ops: modules of the operators of yours that the package needs, as paths or objects.

    world: the ranks that this one runs the package with; without it, it runs alone.

    shape_cache: of a graph whose shapes are known only at run time, how many variants are kept compiled.

    memory_limit: maximum bytes of the arena of a run, checked here unless its size depends on open dims.

    A pickled session is its path, absolute, or its bytes, with these arguments: it is opened again where it is
    unpickled, without bound states.

    Raises PackageCorrupt, ResourceLimit, UsageError, CustomOpError.
    """

    # The stages are no part of the runtime: `atcpy/__init__.py` says how they are found, if they are installed.
    compiler: ClassVar[FindCompiler | None] = None

    def __init__(
        self,
        source: str | os.PathLike[str] | bytes,
        sess_options: SessionOptions | None = None,
        providers: Sequence[str | tuple[str, dict[Any, Any]]] | None = None,
        *,
        threads: int | None = None,
        affinity: str | Iterable[int] | None = None,
        verify: Literal["full", "header"] = "full",
        mmap: bool = True,
        require_signature: PublicKeys | None = None,
        custom_ops: object = (),
        shape_cache: int = DEFAULT_SHAPE_CACHE,
        world: World | None = None,
        memory_limit: int | None = None,
    ) -> None:
        if verify not in ("full", "header"):
            raise UsageError("E10001", f'verify: "{verify}" is not full or header')
        if shape_cache < 1:
            raise UsageError("E10013", f"shape_cache: {shape_cache} is less than 1")
        if sess_options is not None or providers is not None:
            from atcpy.runtime.ort_arguments import check_providers, threads_of

            threads = threads_of(sess_options, threads)
            check_providers(providers)
        if affinity is not None and not isinstance(affinity, str):
            affinity = tuple(affinity)
        self._reopen = partial(
            type(self),
            source if isinstance(source, bytes) else os.path.abspath(source),
            threads=threads,
            affinity=affinity,
            verify=verify,
            mmap=mmap,
            require_signature=require_signature,
            custom_ops=custom_ops,
            shape_cache=shape_cache,
            memory_limit=memory_limit,
        )
        self._workers = choose_workers(threads, affinity)
        self.threads = self._workers.threads
        _load_custom_ops(custom_ops)
        signers = () if require_signature is None else _read_public_keys(require_signature)
        depth = Verify.FULL if verify == "full" else Verify.HEADER
        self._shared = open_shared_package(source, verify=depth, mmap=mmap, signers=signers)
        self._package = self._shared.package
        raise_all(missing_custom_ops(self._package))
        limit = None if memory_limit is None else MemoryLimit(memory_limit)
        if limit is not None:
            arenas = [gear.arena_bytes for gear in self._package.gears] or [self._package.arena_bytes]
            limit.check(max(arenas), "the arena")  # before anything is bound
        self._world = world or SingleRank()
        self._is_agreed = self._world.ranks == 1
        self._model: PackagedModel | None = None
        self._direct: DirectRun | None = None
        self._gears: GearPlans | None = None
        self._gear_shapes: dict[str, frozenset[tuple[int, ...]]] = {}
        self._procedure: Procedure | PlannedModel | None = None
        self.shape_cache: ShapeCache | None = None
        self._plan_context: PlanContext | None = None  # where shapes are unknown
        self._states: BoundStates | None = None
        if self._package.has_unknown_shapes:
            self._load_procedure(shape_cache, limit)
        elif self._package.gears:
            from atcpy.runtime.gears import GearPlans

            self._gears = GearPlans(self._package, lambda: self.model.graph, workers=self._workers, world=self._world)
            self._inputs, self._outputs = _open_ports(self._package)
            self._gear_shapes = {port.name: frozenset(port.gears) for port in self._inputs}
        else:
            plan = bind_package(self._package, lambda: self.model.graph, workers=self._workers, world=self._world)
            self._direct = DirectRun(plan)
            self._inputs = [NodeArg(p.name, p.shape, _type_name(p.dtype), p.dtype) for p in plan.inputs]
            self._outputs = [NodeArg(p.name, p.shape, _type_name(p.dtype), p.dtype) for p in plan.outputs]
        if limit is not None:
            for plan in self.plans:
                limit.check(plan.run_bytes, f"a run with {self.threads} threads")
        for index, keys in self._package.map_keys.items():
            key = "string" if keys and isinstance(keys[0], str) else "int64"
            kind = f"seq(map({key},tensor(float)))"
            self._outputs[index] = NodeArg(self._outputs[index].name, None, kind, DType.UNDEFINED)
        self._status_check: Profile | None = None
        if self._package.checks_status:
            from atcpy.runtime.status_check import StatusCheck

            self._status_check = StatusCheck()
        self._defaults: dict[int, Array] | None = None
        self._all_outputs = range(len(self._outputs))
        self._output_by_name = {port.name: index for index, port in reversed([*enumerate(self._outputs)])}
        self._by_name = {port.name: index for index, port in enumerate(self._inputs)}
        self._numpy = {port.name: port.dtype.numpy for port in self._inputs}
        self._checked: set[tuple[tuple[int, ...], ...]] = set()  # shapes of all inputs that were fed and fit
        self._last_run: DirectRun | None = None

    def _load_procedure(self, shape_cache: int, limit: MemoryLimit | None) -> None:
        """Load a package whose shapes are not all known."""
        from atcpy.runtime.on_demand import ShapeCache, compile_on_demand
        from atcpy.runtime.planned_model import load_model
        from atcpy.runtime.symbolic import PlanContext

        self._inputs, self._outputs = _open_ports(self._package)
        bind = partial(bind_compiled, store=self._shared.store, workers=self._workers, world=self._world)
        specialize = compile_on_demand(InferenceSession.compiler, lambda: self.model.cmdline)
        self.shape_cache = ShapeCache(specialize, bind, shape_cache)
        self._plan_context = PlanContext(self._package, self._workers, self._world, limit)
        self._procedure = load_model(self._plan_context, self.shape_cache, lambda: self.model.graph)

    @cached_property
    def _state_plans(self) -> StatePlans | None:
        """The plans for bound states, if the package has some. They are checked when states are bound: most sessions
        bind none. Raises PackageCorrupt (P0005) for malformed ones, ResourceLimit for an arena beyond the limit.
        """
        if self._plan_context is None:
            return None
        from atcpy.runtime.planned_model import nodes_of
        from atcpy.runtime.states import load_states

        return load_states(self._plan_context, lambda: nodes_of(self.model.graph))

    @property
    def model(self) -> PackagedModel:
        """What the package says of its model, parsed on first use."""
        if self._model is None:
            from atcpy.om.reader import read_model

            self._model = read_model(self._package)
        return self._model

    def __enter__(self) -> Self:
        """The session, for a block of `with`."""
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing: memory and file go when nobody has the session any more."""

    def __reduce__(self) -> tuple[Any, ...]:
        """How a copy is opened. Raises Unsupported (E10055) for a session of several ranks: each opens its own."""
        if self._world.ranks != 1:
            raise Unsupported("E10055", "a session of several ranks cannot be pickled", hint="open one on each rank")
        options = dict(self._reopen.keywords, custom_ops=_paths_of(self._reopen.keywords["custom_ops"]))
        return partial(self._reopen.func, *self._reopen.args, **options), ()

    def _repr_html_(self) -> str:
        """Inputs and outputs as a table, for notebooks."""
        from html import escape

        rows = [("input", port) for port in self._inputs] + [("output", port) for port in self._outputs]
        cells = "".join(
            f"<tr><td>{kind}</td><td>{escape(port.name)}</td><td>{escape(_describe(port))}</td></tr>"
            for kind, port in rows
        )
        return f"<p>{escape(self._package.container.source)}</p><table>{cells}</table>"

    def __repr__(self) -> str:
        """The package, its inputs and outputs."""
        ports = (", ".join(f"{p.name} {_describe(p)}" for p in ports) for ports in (self._inputs, self._outputs))
        return f"<InferenceSession {self._package.container.source}: {' → '.join(ports)}>"

    def get_providers(self) -> list[str]:
        """The provider that runs the model, by onnxruntime's name."""
        from atcpy.runtime.ort_arguments import PROVIDER

        return [PROVIDER]

    def get_modelmeta(self) -> ModelMetadata:
        """What the package says of its model."""
        from atcpy.runtime.ort_arguments import ModelMetadata

        model = self.model
        recorded = {"soc": model.soc, "atc_cmdline": model.cmdline, "source_sha256": model.source.sha256}
        return ModelMetadata(model.source.producer, model.graph.name, recorded)

    @property
    def package_sha256(self) -> str:
        """The SHA-256 that the package records of itself, in hexadecimal digits."""
        return self._package.container.sha256.hex()

    def get_inputs(self) -> list[NodeArg]:
        """The inputs that must be fed, in the model's order."""
        return self._ports(with_default=False)

    def get_overridable_initializers(self) -> list[NodeArg]:
        """The inputs that have a default, which counts unless they are fed, in the model's order."""
        return self._ports(with_default=True)

    def _ports(self, *, with_default: bool) -> list[NodeArg]:
        defaults = self._package.default_inputs
        return [port for index, port in enumerate(self._inputs) if (index in defaults) is with_default]

    def get_outputs(self) -> list[NodeArg]:
        """The outputs, in the model's order."""
        return list(self._outputs)

    @property
    def plans(self) -> list[ExecutionPlan]:
        """The plan of the model, or of each gear; where shapes are unknown, those that are compiled by now."""
        if self._direct is not None:
            return [self._direct.plan]
        if self._gears is not None:
            return list(self._gears.plans)
        return [] if self._procedure is None else list(self._procedure.plans())

    @property
    def eager_nodes(self) -> list[Node]:
        """The nodes that run one by one between plans: control flow, and results whose size depends on data."""
        return [] if self._procedure is None else list(self._procedure.eager_nodes())

    @property
    def tasks(self) -> list[TaskInfo]:
        """The tasks of the plans in order of execution."""
        from atcpy.runtime.profile import tasks_of

        return [task for plan in self.plans for task in tasks_of(plan)]

    def run(
        self,
        output_names: Sequence[str] | None,
        feeds: Mapping[str, Any],
        *,
        timeout: float | None = None,
        out: Sequence[Array | None] | None = None,
        profile: Profile | None = None,
        aipp: Mapping[str, object] | None = None,
    ) -> list[Any]:
        """Runs the model. `feeds` maps every input's name to an array of its dtype and shape; the
        result has the outputs named, or all, as arrays that the caller owns. A sequence is a list, a
        map a dict, an optional without value None. `timeout`: most seconds that it may take. `out`:
        memory for each of these outputs, or None for one that the session allocates; arrays of the
        outputs' types and shapes, contiguous and apart from each other and from all feeds. `profile` gets the times of
        the tasks. `aipp`: settings of dynamic AIPP by input, one mapping of ATC's fields, or one a picture; then the
        input is fed as pictures, [N, H, W, C].

        Raises UsageError for feeds that do not fit, ModelInvalid (D0001) for values that break an
        op's rule, ResourceLimit if there is no memory (R0001) or the time is over (R0003); ModelInvalid (D0002) if
        other ranks run another package. The session can be used again after each of them; but not after PackageCorrupt
        (P0009), if the file of the package was changed or cut short since it was opened.
        """
        if aipp:
            from atcpy.runtime.picture_inputs import with_parameters

            feeds = with_parameters(self.model.graph.inputs, feeds, aipp)
        if timeout is not None:
            with RunDeadline(timeout):
                return self.run(output_names, feeds, out=out, profile=profile)
        self.agree()
        if self._status_check is not None:
            profile = profile or self._status_check
        chosen = self._choose_outputs(output_names)
        start = 0 if profile is None else time.monotonic_ns()
        try:
            if out is not None:
                results = self._run_into(chosen, feeds, out, profile)
            elif self._states is not None:
                results = self._states.run(feeds, self._check_feeds, self._compute, profile)
                for index in self._states.outputs.intersection(chosen):
                    results[index] = self._states.rows_of(index)
            else:
                results = self._run_fed(feeds, profile)
        except Exception:
            self._package.container.check_unchanged()  # then that is the cause
            raise
        results = self._finish(results, chosen)
        if profile is not None:
            profile.note_run(start)
        return results

    def run_iterations(
        self,
        feeds: Mapping[str, Any],
        n: int,
        *,
        state: Mapping[str, str] = {},
        output_names: Sequence[str] | None = None,
        collect: Sequence[str] = (),
        timeout: float | None = None,
    ) -> list[Any]:
        """Runs the model `n` times, in C where one plan serves all runs; the result equals that of `n` calls of `run`.

        `state` maps outputs to inputs, {"h2": "h"}: what the output is, is the input of the next run; `feeds` has that
        of the first. An input that is fed with one axis of size n more, in front, has the values of all runs; others
        are the same in each. The result has the outputs named, or all, each as the last run leaves it; of the outputs
        `collect`, those of all runs, along a new axis in front. `timeout`: most seconds that all may take.

        Raises what `run` does. Feeds are not changed, and there are no results of a call that fails, or that an
        interrupt ends.
        """
        if timeout is not None:
            with RunDeadline(timeout):
                return self.run_iterations(feeds, n, state=state, output_names=output_names, collect=collect)
        from atcpy.runtime.sink import read_sink

        if self._states is not None:
            what = "run_iterations: the session has states of its own, which grow"
            raise UsageError("E13025", what, hint="bind_state({}) ends that")
        if self._status_check is not None:
            what = "run_iterations: the package checks what each node computes (--status_check=1)"
            raise UsageError("E13025", what, hint="call run for each iteration, or convert without --status_check")
        sink = read_sink(self._inputs, self._outputs, n, state, collect)
        chosen = self._choose_outputs(output_names)
        first, steps = sink.split(feeds)
        values = self._check_feeds(first)
        fed = {**first, **dict.fromkeys(state.values())}
        self.agree()
        try:
            results = sink.run(values, steps, self._find_plan, lambda values: self._compute(values, fed))
        except Exception:
            self._package.container.check_unchanged()
            raise
        return self._finish(results, chosen)

    def _finish(self, results: list[Any], chosen: Sequence[int]) -> list[Any]:
        """The outputs that are asked for, after runs that have succeeded."""
        self._package.container.check_unchanged()
        for index, keys in self._package.map_keys.items():
            results[index] = self._maps_of(index, keys, results[index])
        return results if chosen is self._all_outputs else [results[index] for index in chosen]

    def run_async(
        self,
        output_names: Sequence[str] | None,
        feeds: Mapping[str, Any],
        callback: Callback | None = None,
        user_data: Any = None,
        *,
        timeout: float | None = None,
    ) -> Future[list[Any]]:
        """Begins what `run` does in another thread, and returns at once. When the run has ended, `callback` is called
        there with its results, `user_data` and an empty text; with no results and the text of the error where it
        failed. The future has the results, or raises the error. The arrays fed must stay as they are until then.
        `timeout`: most seconds from when it begins; of many runs, some wait for threads.

        Raises Unsupported (E10055) in a world of several ranks, whose runs must have the same order.
        """
        from atcpy.runtime import async_runs

        if self._world.ranks > 1:
            raise Unsupported("E10055", "run_async: ranks need runs in the same order", hint="run")
        run = partial(self.run, output_names, dict(feeds), timeout=timeout)
        return async_runs.start(run, self._workers.cpus, callback, user_data)

    def io_binding(self) -> IOBinding:
        """Memory for inputs and outputs that many runs use: `run_with_iobinding`."""
        from atcpy.runtime.io_binding import IOBinding

        return IOBinding(self)

    def run_with_iobinding(self, binding: IOBinding, *, timeout: float | None = None) -> None:
        """Run with bound inputs, and write the bound outputs. Raises what `run` does."""
        targets = binding.targets
        if not targets:
            raise UsageError("E13031", "no output is bound", hint="bind_output")
        binding.set_results(self.run(list(targets), binding.feeds, timeout=timeout, out=list(targets.values())))

    def _run_into(
        self, chosen: Sequence[int], feeds: Mapping[str, Any], out: Sequence[Array | None], profile: Profile | None
    ) -> list[Any]:
        """All outputs, those that are chosen in memory of the caller, where it gives some."""
        from atcpy.runtime.targets import check_targets, check_type, fill

        if self._states is not None or self._package.map_keys:
            why = "states are bound" if self._states is not None else "the model returns maps"
            raise UsageError("E13031", f"run: out cannot be used: {why}", hint="run(…) without it")
        if len(out) != len(chosen):
            what = f"run: out has {len(out)} arrays for {len(chosen)} outputs"
            raise UsageError("E13031", what, hint="None leaves an output to the session")
        targets = {index: array for index, array in zip(chosen, out, strict=True) if array is not None}
        values = self._check_feeds(feeds)
        check_targets(targets, self._outputs, values)
        plan = self._find_plan(values)
        if plan is None or plan.packed:
            results = self._compute(values, feeds, profile)
            for index, array in targets.items():
                results[index] = fill(array, results[index], self._outputs[index].name)
            return results
        for index, array in targets.items():
            check_type(array, plan.outputs[index].dtype.numpy, plan.outputs[index].shape, self._outputs[index].name)
        if profile is not None:
            return profile.run_plan(plan, values, targets)
        return plan.run(values, targets=targets)

    def _run_fed(self, feeds: Mapping[str, Any], profile: Profile | None) -> list[Any]:
        """All outputs where no state is bound. Inputs like those that were fed before are neither checked nor
        dispatched again.
        """
        last = self._last_run  # another thread may have fed others in between
        if last is not None and profile is None:
            results = last.run_fed(feeds)
            if results is not None:
                return results
        values = self._values_of(feeds)
        run = self._last_run = self._find_run(values)
        return self._compute(values, feeds, profile) if run is None else run.run(values, profile)

    def _values_of(self, feeds: Mapping[str, Any]) -> list[Any]:
        """The inputs in order. Shapes that fit before are not checked again."""
        shapes, checked = self._shapes_of(feeds), self._checked  # another thread may begin anew
        if shapes in checked:
            return [feeds[name] for name in self._numpy]
        values = self._check_feeds(feeds)
        if shapes is not None:
            if len(checked) >= _MAX_CHECKED:
                checked = self._checked = set()
            checked.add(shapes)
        return values

    def _find_run(self, values: Sequence[Any]) -> DirectRun | None:
        """What is all of a run with these inputs, if that is one plan; where shapes are unknown, from the second run
        with such inputs on.
        """
        if self._direct is not None:
            return self._direct
        if self._gears is not None:
            return self._gears.choose(values)
        assert self._procedure is not None
        return None if self._package.default_inputs else self._procedure.find_run(values)

    def _find_plan(self, values: Sequence[Any]) -> ExecutionPlan | None:
        """The plan that is all of a run with inputs of these shapes, whatever they hold; None if it takes more."""
        run = self._find_run(values)
        return None if run is None or run.ports is not None else run.plan

    def bind_state(self, states: Mapping[str, str], *, capacity: int) -> None:
        """Keep caches in the session from run to run. `states` maps outputs to inputs: what the output is, is the input
        of the next run. Each run adds rows along the one open dim in which they differ, up to `capacity`. Bound inputs
        are not fed any more, bound outputs are returned if they are named. The caches begin empty.

        An earlier binding ends; without states nothing is bound. Raises UsageError for what cannot be a state,
        PackageCorrupt for malformed plans of states, ResourceLimit for plans with an arena beyond the memory limit.
        """
        from atcpy.runtime.states import BoundStates

        ports = self._inputs, self._outputs
        self._states = BoundStates(*ports, states, capacity, self._state_plans) if states else None

    def reset_state(self, length: int = 0) -> None:
        """Forget the bound states but for their first rows."""
        self._bound_states().reset(length)

    @property
    def state_length(self) -> int:
        """How many rows the bound states have."""
        return self._bound_states().length

    def _bound_states(self) -> BoundStates:
        if self._states is None:
            raise UsageError("E13025", "no state is bound", hint="bind_state")
        return self._states

    def _compute(self, values: Sequence[Any], feeds: Mapping[str, Any], profile: Profile | None = None) -> list[Any]:
        run = self._direct if self._gears is None else self._gears.choose(values)
        try:
            if run is not None:
                return run.run(values, profile)
            assert self._procedure is not None
            defaults = self._package.default_inputs
            fed = frozenset(index for index in defaults if self._inputs[index].name in feeds) if defaults else _NONE_FED
            return self._procedure.run_owned(values, fed=fed, profile=profile)
        except MemoryError as error:
            raise ResourceLimit("R0001", f"no memory for the results: {error}") from error

    def _maps_of(self, index: int, keys: Sequence[int | str], scores: Array) -> list[dict[int | str, float]]:
        """A dict for each row of scores, as ZipMap gives it."""
        rows = np.ascontiguousarray(np.atleast_2d(scores))
        if rows.ndim != 2 or rows.shape[1] != len(keys):
            where = Where(value=self._outputs[index].name)
            raise ModelInvalid("D0001", f"{rows.shape[-1]} scores for {len(keys)} labels", where=where)
        return _kernels.maps_of_rows(keys, rows)

    def profile(self, feeds: Mapping[str, Any]) -> list[TaskTime]:
        """Runs the model once; returns the time of each task. Nodes that run on their own between plans are tasks too,
        and launches of a task in a loop's body are added up. `run(profile=Profile())` gives each launch. Raises what
        `run` does.
        """
        from atcpy.runtime.profile import Profile

        profile = Profile()
        self.run(None, feeds, profile=profile)
        return profile.times()

    @property
    def has_collectives(self) -> bool:
        """Does the package need other ranks, if there are any?"""
        from atcpy.om.collectives import has_collectives

        return has_collectives(self._package.container)

    def agree(self) -> None:
        """Makes sure, with the other ranks, that all of them run the same package: before the first run, which else
        does it. Raises ModelInvalid (D0002) if not.
        """
        if not self._is_agreed:
            from atcpy.runtime.distributed.agreement import agree

            agree(self.model.graph, self._package.container.sha256, self._world)
            self._is_agreed = True

    def _choose_outputs(self, names: Sequence[str] | None) -> Sequence[int]:
        if names is None:
            return self._all_outputs if self._states is None else self._states.others
        try:
            return [self._output_by_name[name] for name in names]
        except KeyError:
            from atcpy.runtime.ports import find_port

            return [find_port(self._outputs, name, "run", "output") for name in names]

    def _check_feeds(
        self, feeds: Mapping[str, Any], states: Mapping[int, Array | None] = {}, sizes: dict[str, int] | None = None
    ) -> list[Any]:
        """The inputs in order. `states` are those that the session keeps, `sizes` of dims that follow from them."""
        for name in feeds:
            if name not in self._by_name:
                hint = did_you_mean(name, self._by_name) or f"the inputs are {', '.join(self._by_name)}"
                raise UsageError("E13025", f'run: no input "{name}"', hint=hint)
        sizes = {} if sizes is None else sizes
        return [
            states[index]
            if index in states
            else self._check_feed(port, feeds[port.name] if port.name in feeds else self._missing_feed(index), sizes)
            for index, port in enumerate(self._inputs)
        ]

    def _shapes_of(self, feeds: Mapping[str, Any]) -> tuple[tuple[int, ...], ...] | None:
        """The shapes of all inputs, if these and no others are fed as arrays of their types."""
        if len(feeds) != len(self._numpy):
            return None
        shapes: list[tuple[int, ...]] = []
        for name, dtype in self._numpy.items():
            value = feeds.get(name)
            if type(value) is not np.ndarray or value.dtype != dtype:
                return None
            shapes.append(value.shape)
        return tuple(shapes)

    def _missing_feed(self, index: int) -> Any:
        port = self._inputs[index]
        if index in self._package.default_inputs:
            return self._default(index)
        raise UsageError("E13025", f'run: input "{port.name}" is missing', hint=f"it is {_describe(port)}")

    def _default(self, index: int) -> Array:
        if self._defaults is None:
            from atcpy.ir import Tensor

            tensors = {number: node.attrs.get("default") for number, node in enumerate(self.model.graph.inputs)}
            self._defaults = {number: item.array for number, item in tensors.items() if isinstance(item, Tensor)}
        if index not in self._defaults:
            raise PackageCorrupt("P0005", f'the default of input "{self._inputs[index].name}" is missing')
        return self._defaults[index]

    def _check_feed(self, port: NodeArg, value: Any, sizes: dict[str, int]) -> Any:
        # Most fit as they are. Small models take a few microseconds, so this is the shortest way.
        is_array = isinstance(value, np.ndarray) and value.dtype == port.dtype.numpy
        if is_array and (value.shape == port.shape or value.shape in self._gear_shapes.get(port.name, ())):
            return value
        if is_array and not misfit(port.shape, port.ranges, value.shape, sizes):
            return value
        if port.dtype is DType.UNDEFINED:
            return value
        array = as_array(value)
        if port.dtype is DType.STRING:
            array = array.astype(np.object_)
        problem = misfit(port.shape, port.ranges, array.shape, sizes)
        if array.dtype != port.dtype.numpy or problem:
            raise UsageError(
                _misfit_code(port, array),
                f'run: input "{port.name}" needs {_describe(port)}, got {list(array.shape)} {array.dtype}{problem}',
                where=Where(value=port.name),
            )
        return array


def _read_public_keys(keys: PublicKeys) -> tuple[PublicKey, ...]:
    from atcpy.om.signature import read_public_keys

    return read_public_keys(keys)


def _load_custom_ops(modules: object) -> None:
    if modules == ():
        return
    from atcpy.ops.custom import load_custom_ops
    from atcpy.options import read_custom_ops

    load_custom_ops(read_custom_ops("custom_ops", modules))


def _paths_of(modules: object) -> tuple[str, ...]:
    """The files of modules of custom operators."""
    if modules == ():
        return ()
    from atcpy.options import read_custom_ops

    found = read_custom_ops("custom_ops", modules)
    for module in found:
        if not module.path:
            what = f"custom_ops: {module.name} has no file, and cannot be loaded elsewhere"
            raise Unsupported("E10055", what, hint="put it into a module of its own")
    return tuple(module.path for module in found)


def _misfit_code(port: NodeArg, array: Array) -> str:
    """The code of what is wrong first: the number of dimensions, the type, else a size."""
    if port.shape is not None and array.ndim != len(port.shape):
        return "E10402"
    return "E10403" if array.dtype != port.dtype.numpy else "E10405"


def _describe(port: NodeArg) -> str:
    if port.dtype is DType.UNDEFINED:
        return port.type
    dims = "any shape" if port.shape is None else f"[{', '.join(map(str, port.shape))}]"
    return f"{dims} {port.dtype.long}"


def _open_ports(package: Package) -> tuple[list[NodeArg], list[NodeArg]]:
    """The inputs and outputs of a package whose dims vary."""
    inputs = [
        _open_port(port, [gear.inputs[i] for gear in package.gears]) for i, port in enumerate(package.open_inputs)
    ]
    outputs = [
        _open_port(port, [gear.outputs[i] for gear in package.gears]) for i, port in enumerate(package.open_outputs)
    ]
    return inputs, outputs


def _open_port(port: OpenPort, gears: Sequence[tuple[int, ...]]) -> NodeArg:
    kind = port.type or _type_name(port.dtype)
    return NodeArg(port.name, port.shape, kind, port.dtype, port.ranges, tuple(gears))


def _type_name(dtype: DType) -> str:
    return f"tensor({_ORT_TYPE.get(dtype, dtype.long)})"


_ORT_TYPE = {DType.FLOAT32: "float", DType.FLOAT64: "double"}
