"""Finds the smallest part of a model that shows a fault, and writes it as a reproducer."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import onnx

from atcpy.debug.bisect import BisectReport
from atcpy.debug.reduce import reduce
from atcpy.debug.repro import write_repro
from atcpy.debug.submodel import IndexedModel
from atcpy.debug.trials import Feeds, PackageCheck, fault_of_part
from atcpy.errors import AtcError
from atcpy.files import read_file, require_unchanged_files
from atcpy.options import OPTIONS

# Only these are of the whole model: a part of it has its own inputs and outputs.
_OF_THE_WHOLE = ("input_shape", "out_nodes", "static")
MAX_FETCHED = 64  # nodes


class Values(Protocol):
    """The values that the whole model computes."""

    def fetch(self, names: Sequence[str]) -> None:
        """Compute these values."""

    def arrays(self, names: Sequence[str]) -> Feeds | None:
        """The arrays of fetched values; None if one of them is not an array."""


@dataclass(frozen=True, slots=True)
class Reproducer:
    """What was written; `parts` is the number of parts that were tried."""

    directory: Path
    ops: tuple[str, ...]
    fault: str
    without: str
    parts: int

    def record(self) -> dict[str, Any]:
        """The member `repro` of the result of `passes bisect --json`."""
        return {
            "directory": str(self.directory),
            "nodes": len(self.ops),
            "ops": list(self.ops),
            "fault": self.fault,
            "without": self.without,
        }


@dataclass
class Reproduction:
    """The search for the smallest part of `source` with the fault of `report`, compiled with `options`."""

    path: Path
    source: IndexedModel
    options: Mapping[str, Any]
    report: BisectReport
    values: Values
    check: PackageCheck
    command: str | None  # the user's, that checks a package
    folder: Path  # for temporary files
    step: Callable[[int, int], None]  # is called with the number of the part and of its nodes
    _parts: int = 0

    def write(self, directory: Path) -> Reproducer:
        """Search, and write the reproducer."""
        options = {name: value for name, value in self.options.items() if name not in _OF_THE_WHOLE}
        culprit = self.report.culprit
        kind = _kind(self.report.why)
        skipped = OPTIONS["skip_pass"].read("skip_pass", options.get("skip_pass") or ())
        without_culprit = {**options, "skip_pass": [*skipped, culprit.name if culprit else ""]}

        def shows(nodes: Sequence[int]) -> bool:
            fault = self._fault(nodes, options)
            return bool(fault) and _kind(fault or "") == kind

        def is_right_without(nodes: Sequence[int]) -> bool:
            return self._fault(nodes, without_culprit) == ""

        source = self.source
        start = source.find(name for _, *names in culprit.nodes for name in names) if culprit is not None else []
        nodes: Sequence[int] = []
        if culprit is not None:  # a part that is wrong without the pass, too, shows another fault, or only rounding
            nodes = reduce(source, start, lambda nodes: shows(nodes) and is_right_without(nodes))
        nodes = nodes or reduce(source, start, shows) or range(len(source.nodes))
        fault = self._fault(nodes, options) or self.report.why
        feeds = self.values.arrays(source.inputs(nodes)) or {}
        part = source.cut(nodes, feeds)
        without = "no pass that can be switched off is to blame"
        if culprit is not None:
            right = "right" if is_right_without(nodes) else "wrong, too"
            without = f"with `--skip_pass={culprit.name}` it is {right}"
        digest = hashlib.sha256(read_file(self.path)).hexdigest()[:16]
        write_repro(
            directory,
            part,
            feeds,
            command=_command(options, self.command),
            cause=f"{culprit.name} breaks a model" if culprit is not None else "A model is broken",
            fault=fault,
            without=without,
            origin=f"{self.path.name} (sha256 {digest}…)",
        )
        return Reproducer(directory, tuple(node.op_type for node in part.graph.node), fault, without, self._parts)

    def _fault(self, nodes: Sequence[int], options: Mapping[str, Any]) -> str | None:
        """What is wrong with a part; None if it cannot be checked."""
        source, values = self.source, self.values
        self._parts += 1
        self.step(self._parts, len(nodes))
        # All values of a small part at once: its own parts come next, and a run of the whole model takes long.
        values.fetch(source.values(nodes) if len(nodes) <= MAX_FETCHED else source.inputs(nodes))
        feeds = values.arrays(source.inputs(nodes))
        if feeds is None:
            return None
        part = self.folder / "part.onnx"
        onnx.save(source.cut(nodes, feeds), str(part))
        try:
            # It is written anew for the next part: who maps it is done with it here.
            with require_unchanged_files():
                return fault_of_part(part, options, feeds, len(nodes), self.check, self.folder / "trial.om")
        except AtcError:  # the oracle cannot run this part
            return None


def _kind(fault: str) -> str:
    """Faults of one kind: a wrong number, or a refusal with the same code."""
    code, colon, _ = fault.partition(":")
    return code if colon and " " not in code else "V"


def _command(options: Mapping[str, Any], check: str | None) -> str:
    words = ["atcpy", "convert", "--model", "model.onnx", "--output", "model.om"]
    if check is None:
        words += ["--verify", "--input_data", "inputs.npz"]
    for name, value in sorted(options.items()):
        if name == "custom_ops":
            words += [word for file in value for word in ("--custom-ops", str(Path(file).absolute()))]
            continue
        words += [f"--{name}"] if value is True else [f"--{name}", str(value)]
    command = shlex.join(words)
    return command if check is None else f"{command} && {check.replace('{}', 'model.om')}"
