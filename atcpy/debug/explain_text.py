"""The answers of `atcpy explain` as lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from atcpy.debug.explain import Candidate, EngineGroup, NodeStory, Unmet, candidates_of, passes_with_pattern
from atcpy.ir import Graph, PassRecord
from atcpy.options import recorded_options
from atcpy.passes.pass_set import built_in_passes

MAX_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Conversion:
    """The graph of a package, and how it was converted."""

    graph: Graph
    cmdline: str
    has_unknown_shapes: bool


# --------------------------------------------------------------------------------------------------------------------
# A fusion


def fusion_lines(
    conversion: Conversion, subject: str, first: str, second: str, candidates: Sequence[Candidate]
) -> Iterator[str]:
    """Which pairs of two ops were fused, which not and why."""
    if not candidates:
        yield f"fired 0 of 0.  In {subject} no {second} reads a {first} that was there when a pass looked."
        yield from _able_passes(conversion, first, second)
        return
    misses = [candidate for candidate in candidates if not candidate.fired]
    head = f"fired {len(candidates) - len(misses)} of {len(candidates)}.  "
    for candidate in misses[:MAX_SHOWN]:
        yield f"{head}{' + '.join(candidate.nodes)}: {_why_not(candidate)}"
        head = " " * len(head)
    if len(misses) > MAX_SHOWN:
        yield f"{head}and {len(misses) - MAX_SHOWN} more (--json lists all)"
    if not misses:
        yield head.rstrip()
    passes: dict[str, int] = {}
    for candidate in candidates:
        if candidate.fired:
            passes[candidate.name] = passes.get(candidate.name, 0) + 1
    if passes:
        yield "by  " + " · ".join(f"{name} {count}" for name, count in passes.items())
    if any(not candidate.unmet for candidate in misses):
        yield from _able_passes(conversion, first, second)


def _why_not(candidate: Candidate) -> str:
    if not candidate.unmet:
        return "not fused: no pass matched the pair"
    more = f"; and {len(candidate.unmet) - 1} more" if len(candidate.unmet) > 1 else ""
    return f"not fused: {candidate.unmet[0].sentence()}{more}"


def _able_passes(conversion: Conversion, first: str, second: str) -> Iterator[str]:
    """Which passes could have matched, and whether they ran."""
    ran = {record.name for record in conversion.graph.decisions.passes}
    names = passes_with_pattern(first, second)
    if not names:
        yield f"no pass has a pattern in which {second} reads {first}"
    for name in names:
        yield f"{name} has a pattern for it" + (
            "" if name in ran else f", and did not run: {why_off(conversion, name)}"
        )


def why_off(conversion: Conversion, name: str) -> str:
    """Why a pass did not run in a conversion."""
    options = recorded_options(conversion.cmdline).optimize
    entry = built_in_passes().find(name)
    if entry is not None and options.level < entry.level:
        return f"it runs from {entry.level.name} on, this was {options.level.name}"
    if name in options.switches.named and not options.switches.named[name]:
        return "it was switched off"
    if "fusion_switch_file" in conversion.cmdline:
        return "a fusion switch file was given"
    if conversion.has_unknown_shapes:
        return "the graph is compiled when its shapes are known"
    return "it was not known then, or has nothing to do with this kind of package"


# --------------------------------------------------------------------------------------------------------------------
# A pass


def pass_lines(record: PassRecord) -> Iterator[str]:
    """What a pass matched, applied and left alone."""
    candidates = candidates_of(record)
    fired = [candidate for candidate in candidates if candidate.fired]
    misses = [candidate for candidate in candidates if not candidate.fired]
    yield f"{record.name}  {record.stage}: matched {record.matched}, applied {record.applied}"
    for label, shown in (("fired", fired), ("not", misses)):
        for number, candidate in enumerate(shown[:MAX_SHOWN]):
            yield f"  {label if number == 0 else '':<6} {' + '.join(candidate.nodes)}{_reasons(candidate)}"
        if len(shown) > MAX_SHOWN:
            yield f"         and {len(shown) - MAX_SHOWN} more (--json lists all)"
    if record.applied > len(fired):
        yield f"  which {record.applied - len(fired)} of those it applied to, the pass does not tell"


def _reasons(candidate: Candidate) -> str:
    return "" if candidate.fired else f": {_sentences(candidate.unmet)}"


def _sentences(unmet: Iterable[Unmet]) -> str:
    return "; ".join(requirement.sentence() for requirement in unmet)


# --------------------------------------------------------------------------------------------------------------------
# An engine


def engine_lines(subject: str, engine: str, groups: Sequence[EngineGroup]) -> Iterator[str]:
    """What runs on an engine, and why not elsewhere."""
    yield f"{engine} runs {sum(len(group.nodes) for group in groups)} of the nodes of {subject}"
    for group in groups:
        first = ", ".join(group.nodes[:3]) + (", …" if len(group.nodes) > 3 else "")
        why = f"   not on a cheaper engine: {', '.join(group.unmet)}" if group.unmet else ""
        yield f"  {group.op} ×{len(group.nodes)}  {first}{why}"


# --------------------------------------------------------------------------------------------------------------------
# A node


def story_lines(story: NodeStory, nodes: Iterable[str]) -> Iterator[str]:
    """What became of a node of the model; `nodes` are the lines about the nodes that stand for it."""
    yield story.name
    if story.removed:
        yield f"  removed   {story.removed}: it has no task"
    elif not story.became:
        yield "  removed   nothing stands for it any more"
    yield from nodes
    for candidate in story.matches:
        label = "fired" if candidate.fired else "not"
        yield f"  {label:<8}  {candidate.name}: {' + '.join(candidate.nodes)}{_reasons(candidate)}"
    if story.placement:
        yield f"  placed    not on a cheaper engine: {_sentences(story.placement)}"
