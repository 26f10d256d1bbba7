"""ZipMap at the end of a model: the plan computes the scores, and the session makes a dict of each row."""

from __future__ import annotations

import json

from atcpy.ir import DType, Graph, Value


def take_zip_maps(graph: Graph, *, zipmap: bool) -> None:
    """Make the scores outputs in place of ZipMap's results; the keys of the maps become an attribute of NetOutput, or
    without `zipmap` the outputs are tensors. A ZipMap that nothing else reads goes as dead code.
    """
    net_output = graph.net_output
    outputs = list(net_output.operands)
    keys = tuple(map(_map_keys, outputs))
    if not any(keys):
        return
    scores = [value.producer.operand(0) if key else value for value, key in zip(outputs, keys, strict=True)]
    graph.set_inputs(net_output, scores)
    types = net_output.attrs["types"]
    assert isinstance(types, tuple)
    net_output.attrs["types"] = tuple("" if key else text for text, key in zip(types, keys, strict=True))
    if zipmap:
        net_output.attrs["map_keys"] = keys


def _map_keys(value: Value) -> str:
    """The keys of each row in JSON, if the value is the result of a ZipMap that has them; else nothing."""
    node = value.producer
    if node.op_type != "ZipMap" or node.operand(0).desc.dtype is not DType.FLOAT32:
        return ""
    keys = node.attrs.get("classlabels_strings") or node.attrs.get("classlabels_int64s")
    return json.dumps(keys) if keys else ""
