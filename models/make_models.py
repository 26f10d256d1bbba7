"""Writes the larger networks: real architectures with random weights, the same bytes on every run.

python models/make_models.py OUT [name ...]
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final

import detection_models
import sequence_models
import small_models
import typer
import vision_models
from graph_builder import Graph

BUILDERS: Final[dict[str, Callable[[Graph], None]]] = {
    "resnet50": vision_models.resnet50,
    "mobilenet_v2": vision_models.mobilenet_v2,
    "efficientnet_b0": vision_models.efficientnet_b0,
    "unet256_half": vision_models.unet256_half,
    "yolo_n640": detection_models.yolo_n640,
    "vit_b16": vision_models.vit_b16,
    "bert_base": sequence_models.bert_base,
    "mnist": vision_models.mnist,
    "rnn_net": sequence_models.rnn_net,
    "gpt2_small": sequence_models.gpt2_small,
    "small_mobile": small_models.small_mobile,
    "small_detector": small_models.small_detector,
    "small_text": small_models.small_text,
}

# With symbolic dims, written only when named.
OPEN_BUILDERS: Final[dict[str, Callable[[Graph], None]]] = {
    "bert_base_open": sequence_models.bert_base_open,
    "gpt2_small_open": sequence_models.gpt2_small_open,
    "gpt2_small_past": sequence_models.gpt2_small_past,
    "small_decoder": small_models.small_decoder,
}


def build(name: str) -> Graph:
    """Returns a model's graph; its weights are not drawn yet."""
    graph = Graph(name)
    (BUILDERS | OPEN_BUILDERS)[name](graph)
    return graph


def write(name: str, directory: Path) -> Path:
    """Writes `directory`/`name`.onnx and returns its path."""
    path = directory / f"{name}.onnx"
    # Written to a temporary file and renamed: an interrupted run leaves no partial file.
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_bytes(build(name).to_model().SerializeToString(deterministic=True))
    return unfinished.replace(path)


def main(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="directory to write into")],
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help=", ".join(BUILDERS | OPEN_BUILDERS))
    ] = None,
) -> None:
    """Writes the named models, or all of them (1.5 GB)."""
    if unknown := set(names or ()) - (BUILDERS | OPEN_BUILDERS).keys():
        raise typer.BadParameter(
            f"{', '.join(sorted(unknown))}; there are {', '.join(BUILDERS | OPEN_BUILDERS)}", param_hint="NAME"
        )
    out.mkdir(parents=True, exist_ok=True)
    for name in names or BUILDERS:
        path, graph = write(name, out), build(name)
        print(f"{path}  {len(graph)} nodes, {graph.weight_count / 1e6:.1f} M weights", flush=True)


if __name__ == "__main__":
    typer.run(main)
