"""`atcpy quantize`: a model in float32 becomes one in 8-bit integers, in the standard's own form.

read  →  optimise  →  measure ranges  →  write QuantizeLinear and DequantizeLinear  →  measure errors  →  .onnx
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from atcpy import InferenceSession
from atcpy.errors import Unsupported, Where
from atcpy.ir import walk
from atcpy.om.atomic import atomic_write, require_writable
from atcpy.options import convert_options, default_threads
from atcpy.quantization.errors import ErrorSum, QuantizationError, add_all
from atcpy.quantization.float_model import FloatModel, read_float_model
from atcpy.quantization.layers import ErrorEffects, LayerRuns, find_layers
from atcpy.quantization.options import QuantizeOptions
from atcpy.quantization.quantizer import Quantizer
from atcpy.quantization.report import ByteCount, OutputErrors, QuantizedLayer, QuantizeReport, SampleCount
from atcpy.quantization.samples import Sample, SampleSets, check_samples, divide
from atcpy.quantization.selection import quantized_nodes
from atcpy.quantization.sessions import open_float, open_optimised
from atcpy.quantization.suggest import fewest_kept, measure_effects, predict_kept, rank
from atcpy.stages import pipeline
from atcpy.verify.inputs import Feeds, Port
from atcpy.verify.ort import load_onnxruntime

_RANKING_SAMPLES = 2
_INTEGER_OPS = frozenset(
    {
        "QLinearConv", "FusedQLinearConv", "QLinearMatMul", "QGemm", "QLinearAdd", "QLinearMul", "ByteTable",
    }
)  # fmt: skip

ReadSamples = Callable[[Sequence[Port]], Sequence[Sample]]
Step = Callable[[str], None]


def quantize_model(
    model: Path,
    target: Path,
    read_samples: ReadSamples,
    options: QuantizeOptions,
    step: Step = lambda text: None,
) -> QuantizeReport:
    """Quantise the model in the file `model` and write the result to `target`. `read_samples` returns the calibration
    samples for the inputs of the model. Raises Unsupported (E10055) where ONNX Runtime is not installed.
    """
    load_onnxruntime()
    require_writable(target)
    step("reading the model")
    float_model = read_float_model(model, allow_hardlinks=options.allow_hardlinks)
    nodes = quantized_nodes(float_model, options.exclude)
    if not nodes:
        what = "no node of the model can be quantised" if not options.exclude else "all nodes are excluded"
        why = "products of matrices, convolutions, and what joins these are"
        raise Unsupported("E10055", what, where=Where(file=str(model)), why=why, hint="convert it as it is")
    step("reading the samples")
    samples = read_samples(float_model.ports)
    chosen = divide(samples, options.max_samples)
    check_samples(chosen.all, float_model.ports)
    step("measuring ranges")
    quantizer = Quantizer(float_model, options)
    op_types = {node.op_type for node in float_model.proto.graph.node if node.name in set(nodes)}
    quantizer.calibrate((sample.load() for sample in chosen.calibration), sorted(op_types))
    step("quantising")
    quantized = quantizer.build(nodes)
    if not find_layers(quantized, nodes):
        what, hint = "ONNX Runtime's quantizer finds nothing to quantise", "are its weights constants?"
        raise Unsupported("E10055", what, where=Where(file=str(model)), hint=hint)
    judge = _Judge.of(model, chosen.held_out, options.threads or default_threads())
    effects: dict[str, float] = {}
    kept: list[str] = []
    if options.suggest is not None:
        step("measuring the effect of each layer")
        effects, kept = _suggest(float_model, quantizer, quantized, nodes, chosen, options, judge, step)
        nodes = [name for name in nodes if name not in kept]
        quantized = quantizer.build(nodes)
    step("measuring errors")
    outputs, integer = judge.judge(quantized)
    runs = LayerRuns(float_model.proto, quantized, nodes, judge.threads)
    errors = runs.errors(sample.load() for sample in chosen.held_out)
    layers = [
        QuantizedLayer(
            e.node, e.op, not integer.isdisjoint(float_model.sources[e.node]), e.own, e.total, effects.get(e.node)
        )
        for e in errors
    ]
    step("writing")
    content = quantized.SerializeToString(deterministic=True)
    atomic_write(target, [content])
    return QuantizeReport(
        output=str(target),
        method=options.method.value,
        activation_type=options.activation_type.value,
        weight_type=options.weight_type.value,
        per_channel=options.per_channel,
        samples=SampleCount(
            len(chosen.calibration), len(chosen.held_out), others=chosen.calibration is not chosen.held_out
        ),
        bytes=ByteCount(float_model.nbytes, len(content)),
        outputs=outputs,
        layers=tuple(sorted(layers, key=lambda layer: layer.own.snr_db)),
        excluded=options.exclude,
        bound="" if options.suggest is None else str(options.suggest),
        kept=tuple(kept),
    )


def _suggest(
    model: FloatModel,
    quantizer: Quantizer,
    quantized: onnx.ModelProto,
    nodes: Sequence[str],
    samples: SampleSets,
    options: QuantizeOptions,
    judge: _Judge,
    step: Step,
) -> tuple[dict[str, float], list[str]]:
    """The effect of each layer on the outputs, and the layers that must stay float to meet the bound."""
    bound = options.suggest
    assert bound is not None
    runs = LayerRuns(model.proto, quantized, nodes, judge.threads)
    few = samples.calibration[:_RANKING_SAMPLES]
    found = ErrorEffects(model.proto, runs.layers, judge.threads)
    effects = measure_effects(found, runs, (sample.load() for sample in few))
    ranking = rank(effects)

    def meets(kept: Sequence[str]) -> bool:
        step(f"trying with {len(kept)} of {len(ranking)} layers in float")
        candidate = quantizer.build([name for name in nodes if name not in kept])
        if not bound.is_met(judge.in_onnxruntime(candidate)):
            return False
        outputs, _ = judge.judge(candidate)
        return bound.is_met({output.name: output.atcpy for output in outputs})

    first = predict_kept(ranking, effects, len(few), bound)
    return effects, fewest_kept(ranking, first, bound, meets)


@dataclass(frozen=True, slots=True)
class _Judge:
    """Compares quantised models with the outputs that the model in float32 has on samples."""

    names: Sequence[str]
    samples: Sequence[Sample]
    expected: Sequence[Feeds]
    threads: int

    @staticmethod
    def of(model: Path, samples: Sequence[Sample], threads: int) -> _Judge:
        """Run the model of a file."""
        session = open_float(str(model), threads)
        names = [port.name for port in session.get_outputs()]
        expected = [_only_arrays(names, session.run(names, sample.load())) for sample in samples]
        return _Judge([*expected[0]], samples, expected, threads)

    def in_onnxruntime(self, quantized: onnx.ModelProto) -> dict[str, QuantizationError]:
        """The error of each output in ONNX Runtime, its optimiser on."""
        sums: dict[str, ErrorSum] = {}
        for actual, expected in zip(self._run_onnxruntime(quantized), self.expected, strict=True):
            add_all(sums, actual, expected)
        return {name: total.error for name, total in sums.items()}

    def judge(self, quantized: onnx.ModelProto) -> tuple[tuple[OutputErrors, ...], frozenset[str]]:
        """The errors of each output in both engines, and the nodes that atcpy computes in integers."""
        kinds: tuple[dict[str, ErrorSum], ...] = ({}, {}, {})
        with tempfile.TemporaryDirectory(prefix="atcpy-") as folder:
            package = Path(folder) / "quantized.om"
            pipeline.convert(quantized, package, convert_options({"threads": self.threads}))
            with InferenceSession(package, threads=self.threads) as session:
                runs = zip(self.samples, self._run_onnxruntime(quantized), self.expected, strict=True)
                for sample, in_ort, expected in runs:
                    own: Feeds = dict(zip(self.names, session.run(list(self.names), sample.load()), strict=True))
                    for sums, actual, reference in zip(
                        kinds, (own, in_ort, own), (expected, expected, in_ort), strict=True
                    ):
                        add_all(sums, actual, reference)
                integer = _integer_nodes(session)
        errors = ({name: total.error for name, total in sums.items()} for sums in kinds)
        atcpy, ort, difference = errors
        return tuple(OutputErrors(name, atcpy[name], ort[name], difference[name]) for name in self.names), integer

    def _run_onnxruntime(self, quantized: onnx.ModelProto) -> Iterator[Feeds]:
        session = open_optimised(quantized, self.threads)
        for sample in self.samples:
            yield dict(zip(self.names, session.run(list(self.names), sample.load()), strict=True))


def _only_arrays(names: Sequence[str], results: Iterable[Any]) -> Feeds:
    """The outputs that are arrays of numbers."""
    arrays = {
        name: result
        for name, result in zip(names, results, strict=True)
        if isinstance(result, np.ndarray) and result.dtype.kind in "fiub"
    }
    if not arrays:
        hint = "name other outputs: atcpy convert --out_nodes"
        raise Unsupported("E10055", "the model has no output of numbers, whose error could be measured", hint=hint)
    return arrays


def _integer_nodes(session: InferenceSession) -> frozenset[str]:
    """The names of the source's nodes that became ops on integers."""
    return frozenset(
        name
        for node in walk(session.model.graph)
        if node.op_type in _INTEGER_OPS
        or not any(value.desc.dtype.is_float for value in (*node.operands, *node.outputs))
        for name in (node.name, *node.sources)
    )
