"""Compares a package with its model at the borders of its tasks, and finds the node that errs.

`compare_layers` runs the package once, as it is: each difference is what the node adds and what it inherits.

`locate` runs it again, with the oracle's values in place of the package's as soon as these are compared, so that each
node computes with right inputs and a difference is its own:

    values that differ, but not those computed from them   the package computes another value there, by a rewrite, or
                                                           the difference has no effect: they are not replaced any more
    the first of the others                                the culprit, if what is computed from it is wrong, and right
                                                           where it is replaced; else a rewrite: the next one is tried

A float32 value that is as near to float64 as the oracle's is right. That takes two runs, and one for each value that is
tried. Halving would take log2 of the number of tasks, and ends at one
node where several err; here each error is seen apart from the others.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from atcpy import InferenceSession
from atcpy.ir import DType, Node
from atcpy.verify.borders import Border, BorderRun, border_nodes
from atcpy.verify.compare import Tolerance, bounds
from atcpy.verify.evaluation import ModelEvaluator
from atcpy.verify.float64 import is_as_accurate
from atcpy.verify.inputs import Array, Feeds

CHUNK = 1 << 16  # elements that are compared at a time
MAX_RUNS = 24  # of the package, to find one node
MAX_LARGEST = 5
Replace = Callable[[Array], None]


def share(max_abs: float, allowed: float) -> float:
    """An error as a multiple of what is allowed."""
    if not max_abs:
        return 0.0
    return max_abs / allowed if allowed and np.isfinite(max_abs) else np.inf


@dataclass(frozen=True, slots=True)
class Deviation:
    """How far a value of the package is from the oracle's; the fields are those of `verify --json`."""

    max_abs: float
    allowed: float
    cosine: float
    nan: int
    passed: bool

    @property
    def share(self) -> float:
        """The error as a multiple of what is allowed."""
        return share(self.max_abs, self.allowed)


@dataclass(frozen=True, slots=True)
class LayerReport:
    """A value of the model that a task of the package computes: the node of the package with the model's nodes that it
    stands for and the passes that made it, and the difference.
    """

    value: str
    node: str
    op: str
    engine: str
    sources: tuple[str, ...]
    passes: tuple[str, ...]
    dtype: str
    max_abs: float
    allowed: float
    cosine: float
    nan: int
    passed: bool
    has_effect: bool  # it differs, and so does what the model computes from it, down to an output

    @property
    def share(self) -> float:
        """The error as a multiple of what is allowed."""
        return share(self.max_abs, self.allowed)


@dataclass(frozen=True, slots=True)
class Culprit:
    """The first node whose own error is more than is allowed. `isolated_error` is that with the oracle's inputs,
    `inherited_error` the largest of those of its inputs in an ordinary run. `between` are the model's nodes that
    compute the value from these inputs.
    """

    value: str
    node: str
    op: str
    sources: tuple[str, ...]
    passes: tuple[str, ...]
    between: tuple[str, ...]
    dtype: str
    isolated_error: float
    inherited_error: float
    allowed: float
    hint: str


@dataclass(frozen=True, slots=True)
class Layers:
    """The values at the borders of tasks in the order in which they are computed. `uncompared` borders have no
    counterpart in the model, or one that the oracle cannot compute; `peak_bytes` is what the values of the oracle took.
    """

    compared: int
    uncompared: int
    peak_bytes: int
    table: tuple[LayerReport, ...]


@dataclass(frozen=True, slots=True)
class Location:
    """How `locate` went: where no node errs by itself, `largest` has those that add most to an error that no single one
    explains. `rewritten` are values that the package computes otherwise than the model.
    """

    largest: tuple[LayerReport, ...]
    rewritten: tuple[str, ...]
    runs: int


@dataclass(frozen=True, slots=True)
class _Run:
    """The deviations in order, the types in memory, the most bytes that the oracle's values took, and what the package
    computed for one of them.
    """

    deviations: dict[str, Deviation]
    dtypes: dict[str, str]
    peak_bytes: int
    captured: Array | None


@dataclass(frozen=True, kw_only=True)
class LayerComparison:
    """A package, loaded as `session`, and the model that is evaluated beside it, on the same inputs. `skipped` values
    are not compared: those behind random ops. `precision` has the types by which values are judged, if not their own,
    and `steps` the steps of quantised values.
    """

    session: InferenceSession
    evaluator: ModelEvaluator
    feeds: Feeds
    model_feeds: Feeds
    tolerance: Tolerance
    skipped: Collection[str]
    precision: Mapping[str, DType]
    steps: Mapping[str, float]
    step: Callable[[str], None] = lambda text: None

    @cached_property
    def _nodes(self) -> Mapping[str, Node]:
        """The nodes of the package by the values of the model that they compute."""
        self.session.run(None, self.feeds)  # binds the plans for these sizes
        nodes = border_nodes(self.session.plans, self.session.eager_nodes)
        return {name: node for name, node in nodes.items() if name not in self.skipped}

    @cached_property
    def _compared(self) -> Mapping[str, Node]:
        return {name: node for name, node in self._nodes.items() if name in self.evaluator.writers}

    def _run(self, keep: Callable[[str, Deviation], bool], capture: str = "") -> _Run:
        """Run the package. A value is replaced by the oracle's unless it is one to `keep`."""
        evaluation = self.evaluator.start(self.model_feeds, self._compared)
        found: dict[str, Deviation] = {}
        dtypes: dict[str, str] = {}
        captured: list[Array] = []

        def visit(border: Border) -> None:
            expected = None if border.name in found else evaluation.value(border.name)
            if not isinstance(expected, np.ndarray) or expected.dtype.hasobject:
                return
            tolerance = replace(self.tolerance, step=self.steps.get(border.name, 0.0))
            best: tuple[Deviation, Array, Replace] | None = None
            for actual, substitute in border.candidates(expected):
                deviation = deviation_of(actual, expected, tolerance, self.precision.get(border.name))
                if best is None or (deviation.passed, deviation.cosine) > (best[0].passed, best[0].cosine):
                    best = deviation, actual, substitute
                if deviation.passed:
                    break
            if best is None or not (border.is_certain or best[0].passed):
                return
            deviation, actual, substitute = best
            found[border.name] = deviation
            dtypes[border.name] = DType.from_numpy(actual.dtype).long
            if border.name == capture:
                captured.append(actual.copy())
            if not keep(border.name, deviation):
                substitute(expected)

        self.session.run(None, self.feeds, profile=BorderRun(self._compared, visit))
        return _Run(found, dtypes, evaluation.peak_bytes, captured[0] if captured else None)

    @cached_property
    def layers(self) -> Layers:
        """The values as the package computes them."""
        self.step("comparing at the borders of tasks")
        run = self._run(lambda name, deviation: True)
        effective = self._with_effect(run.deviations)
        table = tuple(self._report(name, run, has_effect=name in effective) for name in run.deviations)
        return Layers(len(table), len(self._nodes) - len(table), run.peak_bytes, table)

    def _report(self, name: str, run: _Run, *, has_effect: bool) -> LayerReport:
        node, deviation = self._compared[name], run.deviations[name]
        engine = "" if node.engine is None else node.engine.value
        facts = deviation.max_abs, deviation.allowed, deviation.cosine, deviation.nan, deviation.passed, has_effect
        return LayerReport(name, node.name, node.op_type, engine, node.sources, node.passes, run.dtypes[name], *facts)

    @cached_property
    def _rewritten(self) -> frozenset[str]:
        """The values that differ without an effect where right ones take the place of all that are right."""
        self.step("locating: which differences have an effect")
        found = self._run(partial(_is_in_or_differs, ())).deviations
        return frozenset(_differing(found) - self._with_effect(found))

    def own_errors(self) -> tuple[LayerReport, ...]:
        """Each value as the package computes it from the oracle's; those that have no effect are left out."""
        kept = self._rewritten
        self.step("measuring: each node on the oracle's inputs")
        run = self._run(partial(_is_in, kept))
        return tuple(self._report(name, run, has_effect=True) for name in run.deviations if name not in kept)

    def locate(self) -> tuple[Culprit | None, Location]:
        """Find the first node that errs by itself, if one does."""
        kept = self._rewritten
        runs = 1
        while True:
            self.step("locating: each node on the oracle's inputs")
            isolated = self._run(partial(_is_in, kept))
            runs += 1
            suspect, tried = self._first_suspect(isolated, kept)
            runs += tried
            if suspect is None or runs > MAX_RUNS:
                break
            self.step(f"locating: what {suspect} leads to")
            found = self._run(partial(_is_in_or_differs, kept | {suspect})).deviations
            runs += 1
            if suspect in self._with_effect(found) and self._explains(suspect, found, isolated.deviations):
                return self._culprit(suspect, isolated, kept), Location((), tuple(sorted(kept)), runs)
            kept |= {suspect}
        shares = {name: deviation.share for name, deviation in isolated.deviations.items() if name not in kept}
        ranked = sorted(shares, key=lambda name: -shares[name])[:MAX_LARGEST]
        largest = tuple(self._report(name, isolated, has_effect=True) for name in ranked)
        return None, Location(largest, tuple(sorted(kept)), runs)

    def _explains(self, suspect: str, kept: Mapping[str, Deviation], replaced: Mapping[str, Deviation]) -> bool:
        """Whether a value that differs is what makes others differ: these are right once it is replaced. If they are
        not, the package computes something else there, and the error is behind it.
        """
        if suspect in self._outputs:
            return True
        behind = [name for name in _differing(kept) if suspect in self._borders_before(name, kept)]
        return any(replaced[name].passed for name in behind if name in replaced)

    @cached_property
    def _lowered(self) -> frozenset[str]:
        """The model's nodes that compute in another type by the precision mode."""
        return frozenset(self.session.model.graph.decisions.precision.lowered)

    @cached_property
    def _outputs(self) -> frozenset[str]:
        return frozenset(info.name for info in self.evaluator.model.graph.output)

    def _first_suspect(self, isolated: _Run, kept: frozenset[str]) -> tuple[str | None, int]:
        """The first value that is wrong for right inputs, and how many runs it took to see that others are as near to
        float64 as the oracle.
        """
        runs = 0
        for name, deviation in isolated.deviations.items():
            if name in kept or deviation.passed:
                continue
            if runs > MAX_RUNS or not self._is_as_accurate(name, isolated, kept):
                return name, runs
            runs += 1
        return None, runs

    def _is_as_accurate(self, name: str, isolated: _Run, kept: frozenset[str]) -> bool:
        """Whether the package is as near to float64 as the oracle, both on the oracle's inputs."""
        deviation = isolated.deviations[name]
        if (
            self.tolerance.is_of_user(self.precision.get(name, DType.FLOAT32))
            or isolated.dtypes[name] != DType.FLOAT32.long
            or not np.isfinite(deviation.max_abs)
        ):
            return False
        borders = self._borders_before(name, isolated.deviations.keys() - kept)
        exact = self.evaluator.evaluate_in_float64(self.model_feeds, borders, name)
        if exact is None:
            return False
        expected, in_float64 = exact
        captured = self._run(partial(_is_in, kept), capture=name).captured
        return captured is not None and is_as_accurate(captured, [expected], in_float64, deviation.allowed)

    def _culprit(self, name: str, isolated: _Run, kept: frozenset[str]) -> Culprit:
        ordinary = {layer.value: layer.max_abs for layer in self.layers.table}
        borders = self._borders_before(name, isolated.deviations.keys() - kept)
        report = self._report(name, isolated, has_effect=True)
        return Culprit(
            name, report.node, report.op, report.sources, report.passes,
            self.evaluator.nodes_between(borders, name), report.dtype, report.max_abs,
            max((ordinary.get(border, 0.0) for border in borders), default=0.0), report.allowed,
            _hint(report, [name for name in report.sources if name in self._lowered]),
        )  # fmt: skip

    def _borders_before(self, name: str, borders: Collection[str]) -> set[str]:
        """The nearest compared values from which the model computes one."""
        found: set[str] = set()
        pending, seen = [*self.evaluator.writers[name].reads], {name}
        while pending:
            value = pending.pop()
            if value in seen:
                continue
            seen.add(value)
            if value in borders:
                found.add(value)
            elif value in self.evaluator.writers:
                pending.extend(self.evaluator.writers[value].reads)
        return found

    def _with_effect(self, found: Mapping[str, Deviation]) -> set[str]:
        """The values that differ and are outputs of the model, or from which it computes values that differ with an
        effect.
        """
        differing = _differing(found)
        effective = differing & self._outputs
        pending = list(effective)
        while pending:
            for before in self._borders_before(pending.pop(), found):
                if before in differing and before not in effective:
                    effective.add(before)
                    pending.append(before)
        return effective


def _differing(found: Mapping[str, Deviation]) -> set[str]:
    return {name for name, deviation in found.items() if not deviation.passed}


def _is_in(names: Collection[str], name: str, _deviation: Deviation) -> bool:
    return name in names


def _is_in_or_differs(names: Collection[str], name: str, deviation: Deviation) -> bool:
    return name in names or not deviation.passed


def _hint(report: LayerReport, lowered: Sequence[str]) -> str:
    if lowered:
        kept = shlex.quote(",".join(lowered))
        return f"the precision mode lowers it: convert with --keep-fp32={kept}, or atcpy verify F.om --suggest KEEP.cfg"
    if report.dtype in (DType.FLOAT16.long, DType.BFLOAT16.long):
        return f"its result has 16 bits: compute {', '.join(report.sources) or report.node} in float32"
    passes = f"passes made it: {', '.join(report.passes)}; " if report.passes else ""
    which = "one of them is" if report.passes else "a pass is"
    return f"{passes}atcpy passes bisect M.onnx says whether {which} to blame"


def deviation_of(actual: Array, expected: Array, tolerance: Tolerance, precision: DType | None) -> Deviation:
    """Compare two arrays of one shape, some elements at a time; two NaN are equal, and so are two equal infinities."""
    kinds = [DType.from_numpy(array.dtype) for array in (actual, expected)]
    judged = max((*kinds, precision or kinds[1]), key=lambda dtype: bounds(dtype, 1.0, Tolerance())[0])
    a, e = (np.ascontiguousarray(array).reshape(-1) for array in (actual, expected))
    chunks = [slice(at, at + CHUNK) for at in range(0, e.size, CHUNK)]
    scale = max((_scale(e[chunk]) for chunk in chunks), default=0.0)
    atol, rtol = bounds(judged, scale, tolerance)
    parts = [_compare_chunk(a[chunk], e[chunk], atol, rtol) for chunk in chunks]
    dot, norm_a, norm_e = (sum(part.products[index] for part in parts) for index in range(3))
    cosine = min(1.0, abs(dot) / np.sqrt(norm_a * norm_e)) if norm_a * norm_e > 0 else float(norm_a == norm_e)
    max_abs = max((part.max_abs for part in parts), default=0.0)
    allowed = atol + rtol * scale
    return Deviation(
        max_abs, allowed, float(cosine), sum(part.nan for part in parts), not any(part.outside for part in parts)
    )


@dataclass(frozen=True, slots=True)
class _Chunk:
    max_abs: float
    nan: int
    outside: bool
    products: tuple[float, float, float]


def _wide(array: Array) -> Array:
    return array.astype(np.complex128 if np.iscomplexobj(array) else np.float64)


def _scale(expected: Array) -> float:
    magnitude = np.abs(_wide(expected))
    return float(magnitude[np.isfinite(magnitude)].max(initial=0.0))


def _compare_chunk(actual: Array, expected: Array, atol: float, rtol: float) -> _Chunk:
    a, e = _wide(actual), _wide(expected)
    finite = np.isfinite(a) & np.isfinite(e)
    same = (np.isnan(a) & np.isnan(e)) | (a == e)
    if actual.dtype == expected.dtype and actual.dtype.kind in "iu" and actual.itemsize == 8:
        same = actual == expected  # float64 does not tell neighbours of 2**53 apart
    lost = bool((~same & ~finite).any())
    a, e = np.where(finite, a, 0), np.where(finite, e, 0)
    error = np.abs(a - e)
    outside = lost or bool((~same & ((error > atol + rtol * np.abs(e)) | (atol == rtol == 0))).any())
    largest = float(error.max(initial=0.0))
    products = float(np.abs(np.vdot(a, e))), float(np.vdot(a, a).real), float(np.vdot(e, e).real)
    return _Chunk(np.inf if lost else largest, int(np.isnan(_wide(actual)).sum()), outside, products)


def worst(layers: Sequence[LayerReport], count: int) -> list[LayerReport]:
    """The layers with the largest errors as multiples of what is allowed, in the order in which they run."""
    shares = {layer.value: layer.share for layer in layers}
    chosen = set(sorted(shares, key=lambda name: -shares[name])[:count])
    return [layer for layer in layers if layer.value in chosen]
