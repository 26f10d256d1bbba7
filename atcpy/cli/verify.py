"""`atcpy verify`: is the package equal to its model?"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from atcpy.cli import custom_ops
from atcpy.cli.invocation import Invocation
from atcpy.cli.outcome import Outcome
from atcpy.cli.signers import RequireSignature
from atcpy.cli.standard_streams import File

if TYPE_CHECKING:
    from atcpy.ops.custom import CustomOps
    from atcpy.verify.compare import OutputReport
    from atcpy.verify.layers import Culprit, LayerReport, Layers, Location
    from atcpy.verify.suggestion import Suggestion
    from atcpy.verify.verification import VerifyReport

_MAX_LAYERS, _FEW_LAYERS = 20, 5  # that are shown: those that differ, or the worst of those that do not


def verify(
    run: Invocation,
    package: Annotated[str, typer.Argument(metavar="F.om", help="The package."), File.READ],
    against: Annotated[
        str | None,
        typer.Option("--against", metavar="M", help="The model; default: that of the package's name beside it."),
        File.READ,
    ] = None,
    input_data: Annotated[
        str | None, typer.Option("--input_data", metavar="NPZ", help="Inputs by name, in one file."), File.READ
    ] = None,
    shape: Annotated[
        list[str] | None,
        typer.Option("--shape", metavar="NAME=1,3,8,8", help="Sizes of an input's open dims; repeatable."),
    ] = None,
    random: Annotated[
        int, typer.Option("--random", metavar="SEED", min=0, max=999_999_999, help="Seed of the random inputs.")
    ] = 0,
    oracle: Annotated[
        str | None, typer.Option("--oracle", help="ort or ref; for TensorFlow: tf or openvino; default: whichever can.")
    ] = None,
    atol: Annotated[float | None, typer.Option("--atol", min=0, help="Largest absolute error.")] = None,
    rtol: Annotated[float | None, typer.Option("--rtol", min=0, help="Largest relative error.")] = None,
    cosine: Annotated[float | None, typer.Option("--cosine", min=0, max=1, help="Least cosine similarity.")] = None,
    layers: Annotated[
        bool, typer.Option("--layers", help="Compare at the borders of the package's tasks, too.")
    ] = False,
    locate: Annotated[
        bool, typer.Option("--locate", help="Find the first node that errs by itself, if an output fails.")
    ] = False,
    suggest: Annotated[
        str | None,
        typer.Option(
            "--suggest", metavar="KEEP.cfg", help="Write the nodes that must not be lowered to pass, for --keep_dtype."
        ),
        File.WRITTEN,
    ] = None,
    aipp: Annotated[
        list[str] | None,
        typer.Option("--aipp", metavar="[NAME=]F.json", help="Settings of dynamic AIPP, for pictures; repeatable."),
    ] = None,
    require_signature: RequireSignature = None,
    **options: Any,
) -> Outcome:
    """Compare a package with its model in ONNX Runtime, or in the ONNX reference evaluator.

    atcpy verify m.om --layers · atcpy verify m.om --against m.onnx --locate
    """
    from atcpy.cli.config import settings_in_effect
    from atcpy.cli.tolerances import bounds_by_type
    from atcpy.verify.compare import Tolerance
    from atcpy.verify.inputs import Fill

    tolerance = Tolerance(atol, rtol, cosine, by_type=bounds_by_type(settings_in_effect()))
    custom = custom_ops.load(options["custom_ops"])
    report = compare_with_model(
        run, Path(package), None if against is None else Path(against), input_data, oracle, custom,
        fill=Fill("random", random), shapes=_shapes(package, shape or [], require_signature),
        tolerance=tolerance, require_signature=require_signature, layers=layers, locate=locate,
        suggest=None if suggest is None else Path(suggest), aipp=_aipp(package, aipp or [], require_signature),
    )  # fmt: skip
    if not report.same_source:
        run.say(f"note: {report.against} is not the file that {package} was made from", level=0)
    return Outcome(report, verdict_lines(report), report.error, report.warnings)


def compare_with_model(
    run: Invocation,
    package: Path,
    model: Path | None,
    input_data: str | None,
    oracle: str | None,
    custom: "CustomOps",
    **settings: Any,
) -> "VerifyReport":
    """Compare a package with its model; `settings` are further arguments of `verify`."""
    from atcpy.cli.arrays import load_npz
    from atcpy.verify import verification

    return verification.verify(
        package,
        model,
        feeds=None if input_data is None else load_npz(input_data),
        oracle=oracle,
        threads=run.option("threads"),
        allow_hardlinks=run.option("allow_hardlinks"),
        custom=custom,
        step=run.progress.step,
        **settings,
    )


def _shapes(package: str, texts: list[str], require_signature: list[str] | None) -> dict[str, tuple[int, ...]]:
    from atcpy import InferenceSession
    from atcpy.cli.arrays import read_shapes
    from atcpy.verify.inputs import session_ports

    if not texts:
        return {}
    session = InferenceSession(package, threads=1, require_signature=require_signature)
    return read_shapes(texts, session_ports(session))


def _aipp(package: str, texts: list[str], require_signature: list[str] | None) -> dict[str, object]:
    from atcpy import InferenceSession
    from atcpy.cli.pictures import read_aipp_settings

    if not texts:
        return {}
    return read_aipp_settings(texts, InferenceSession(package, threads=1, require_signature=require_signature))


def verdict_lines(report: "VerifyReport") -> list[str]:
    """The oracle, a line an output, and the verdict."""
    return list(_verdict(report))


def _verdict(report: "VerifyReport") -> Iterator[str]:
    yield f"oracle   {report.oracle}   inputs {report.inputs}   against {report.against}"
    if report.shapes:
        yield f"shapes   {'   '.join(report.shapes)}   (the worst of each output is shown)"
    width = max((len(output.name) for output in report.outputs), default=0)
    for output in report.outputs:
        yield f"output   {output.name:<{width}}   {output.dtype}  {_figures(output)}"
    if report.layers is not None:
        yield from _layer_lines(report.layers)
    if report.location is not None:
        yield from _culprit_lines(report.culprit, report.location)
    if report.suggestion is not None:
        yield from _suggestion_lines(report.suggestion)
    yield "PASS" if report.passed else "FAIL"


def _figures(output: "OutputReport") -> str:
    word = "ok" if output.passed else "FAIL"
    if output.random:
        return f"{word} (drawn at random: only type and shape are compared)"
    figures = f"max abs {output.max_abs:.1e}  max rel {output.max_rel:.1e}  cosine {output.cosine:.6f}"
    changed = "   argmax changed" if output.argmax_changed else ""
    if output.arbitrated:
        changed += "   as near to float64 as the oracle"
    return f"{figures}   {word} (atol {output.atol:.1e}, rtol {output.rtol:.0e}){changed}"


def _layer_lines(layers: "Layers") -> Iterator[str]:
    from atcpy.errors import count_of
    from atcpy.report.units import size
    from atcpy.verify.layers import worst

    effective = [layer for layer in layers.table if layer.has_effect]
    harmless = sum(1 for layer in layers.table if not layer.passed and not layer.has_effect)
    others = f", {layers.uncompared} without a counterpart in the model" if layers.uncompared else ""
    peak = f"values of the oracle took {size(layers.peak_bytes)} at most"
    yield f"layers   {count_of(layers.compared, 'value')} compared{others}; {peak}"
    if harmless:
        yield f"         differ without an effect, by rounding or by a rewrite: {harmless}"
    shown = effective[:_MAX_LAYERS] or worst([layer for layer in layers.table if layer.passed], _FEW_LAYERS)
    for layer in shown:
        yield f"         {_layer_text(layer)}"
    if len(effective) > _MAX_LAYERS:
        yield f"         and {len(effective) - _MAX_LAYERS} more that differ: --json has all"


def _layer_text(layer: "LayerReport") -> str:
    word = "ok" if layer.passed else "differs"
    nan = f"  {layer.nan} NaN" if layer.nan else ""
    error = f"max abs {layer.max_abs:.1e} (allowed {layer.allowed:.1e})"
    return f"{layer.op} {layer.node}  {layer.dtype}  {error}{nan}  {word}"


def _culprit_lines(culprit: "Culprit | None", location: "Location") -> Iterator[str]:
    if culprit is None:
        yield "culprit  none: each node computes what it should from right inputs, and small errors add up, as these do"
        for layer in location.largest:
            yield f"         {_layer_text(layer)}"
        return
    yield f"culprit  {culprit.op} {culprit.node}   {culprit.dtype}   value {culprit.value}"
    yield f"         stands for {', '.join(culprit.between or culprit.sources)}"
    if culprit.passes:
        yield f"         made by {', '.join(culprit.passes)}"
    own = f"{culprit.isolated_error:.1e} on the oracle's inputs (allowed {culprit.allowed:.1e})"
    yield f"         errs by {own}; its inputs err by {culprit.inherited_error:.1e}"
    yield f"help     {culprit.hint}"


def _suggestion_lines(suggestion: "Suggestion") -> Iterator[str]:
    from atcpy.errors import count_of
    from atcpy.verify.suggestion import SuggestOutcome

    lowered = count_of(suggestion.lowered, "lowered node")
    if suggestion.outcome is SuggestOutcome.NOT_NEEDED:
        yield "suggest  nothing to keep: all outputs are within their bounds, and no file is written"
        return
    if suggestion.outcome is SuggestOutcome.NOT_REPRODUCED:
        yield "suggest  nothing to keep: converted anew with its options, the model passes; no file is written"
    elif suggestion.outcome is SuggestOutcome.IMPOSSIBLE:
        yield f"suggest  no list helps: with all of the {lowered} kept, this remains; no file is written"
    else:
        kept = count_of(len(suggestion.kept), "node")
        trials = count_of(suggestion.trials, "trial") + ("" if suggestion.is_minimal else ", fewer may do")
        yield f"suggest  keep {kept} of {lowered} ({trials}): {suggestion.path}"
        for node in suggestion.kept[:_MAX_LAYERS]:
            error = "" if node.own_error is None else f"   errs by {node.own_error:.1e} (allowed {node.allowed:.1e})"
            yield f"         {node.node}{error}"
        if len(suggestion.kept) > _MAX_LAYERS:
            yield f"         and {len(suggestion.kept) - _MAX_LAYERS} more: the file has all"
        if suggestion.kept_before:
            yield f"         and {count_of(len(suggestion.kept_before), 'node')} that the package keeps already"
        yield f"proof    converted with it, {count_of(suggestion.left, 'node is', 'nodes are')} lowered:"
    for output in suggestion.outputs:
        yield f"         {output.name}   {output.dtype}  {_figures(output)}"
    if suggestion.outcome is SuggestOutcome.FOUND:
        yield f"help     atcpy convert M.onnx … --keep_dtype={suggestion.path}"
