"""ONNX models → ir.Graph."""

from pathlib import Path

import onnx

from atcpy.errors import AtcError, raise_all
from atcpy.ir import walk
from atcpy.ir.closure import close_bodies
from atcpy.ops.core.bodies import check_bodies
from atcpy.ops.custom import CustomOps
from atcpy.options import ParseOptions
from atcpy.parsers.choices import check_inputs, choose_outputs
from atcpy.parsers.onnx.importer import Importer
from atcpy.parsers.onnx.reader import ModelFile, check_standard, read_model
from atcpy.parsers.onnx.recorder import Recorder
from atcpy.parsers.onnx.zip_maps import take_zip_maps
from atcpy.parsers.parsed import ParsedModel

__all__ = ["import_onnx", "read_model"]


def import_onnx(
    model: Path | str | onnx.ModelProto | ModelFile,
    options: ParseOptions,
    custom: CustomOps | None = None,
    recorder: Recorder | None = None,
) -> ParsedModel:
    """Reads a model, or goes on with its file; raises one error that holds all of its problems. `custom` are the users'
    operators in it; `recorder` observes the nodes that are read.
    """
    custom = custom or CustomOps()
    file = model if isinstance(model, ModelFile) else read_model(model, allow_hardlinks=options.allow_hardlinks)
    importer = Importer(file.model, file.external, custom, options, recorder)
    try:
        imported = importer.run()
        problems = importer.problems
        if not problems and imported.was_sorted:
            problems = check_standard(file.model, custom, is_plain=imported.is_plain)
        if not problems:
            asked = [*importer.shape_problems, *check_inputs(imported.named, options)]
            raise_all([*asked, *choose_outputs(imported.named, options)])
        raise_all([*problems, *imported.misfits])
        if imported.has_bodies:
            raise_all([error for node in walk(imported.named.graph) for error in check_bodies(node)])
            close_bodies(imported.named.graph)
    except AtcError as error:
        if file.path is not None:
            error.located(file=str(file.path))
        raise
    net_output = imported.named.graph.net_output
    net_output.attrs["names"] = tuple(value.name for value in net_output.operands)  # whatever passes rename
    if recorder is None:
        take_zip_maps(imported.named.graph, zipmap=options.zipmap)
    return ParsedModel(imported.named.graph, file.source, imported.warnings)
