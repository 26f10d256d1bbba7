"""What to do about an op that cannot be converted: the nearest alternative where there is one, else the way around."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from difflib import SequenceMatcher
from typing import Final

from atcpy.errors import nearest

_OUTSIDE: Final = "do it before the model, and feed what it gives: --out_nodes, or export from there on"
_INFERENCE: Final = "it trains: take the outputs of inference by --out_nodes, or export the model for inference"
# Ops by their names, and what to do. The first that fits counts.
_ADVICE: Final[tuple[tuple[re.Pattern[str], str], ...]] = tuple(
    (re.compile(pattern), advice)
    for pattern, advice in (
        (r"Random|Multinomial|TruncatedNormal|StatelessSample", "it draws at random: export the model for inference"),
        (r"String|Regex|Unicode|AsString|Substr|ToHashBucket|NGrams|Tokenize", f"a matter of texts: {_OUTSIDE}"),
        (r"(Hash|Lookup)Table|InitializeTable", f"it looks up in a table: {_OUTSIDE}"),
        (r"^(Parse|Decode|Encode|ReadFile|WriteFile|ExtractJpeg)", f"it is about a file's format: {_OUTSIDE}"),
        (r"Dataset|Iterator|Queue|Reader(V2)?$|Barrier|^Stage", f"it fetches data: {_OUTSIDE}"),
        (r"^Cudnn", "it runs on a GPU alone: export the model on a CPU"),
        (r"^(Resource)?(Sparse)?Apply|^Assign|^Scatter(Add|Sub|Update|Mul|Div)$|^ResourceScatter", _INFERENCE),
        (r"Save|Restore|ShardedFilename|MergeV2Checkpoints|VarIsInit|IsVariableInit|Summary", _INFERENCE),
        (r"Grad(V\d|Input|Filter|WithArg.*)?$", _INFERENCE),
        (r"^(Eager)?PyFunc|^PyFuncStateless", "it calls Python, which the file does not hold"),
        (r"^XlaCallModule|^Xla", "it holds a program of XLA: export with native_serialization=False, or to ONNX"),
        (r"^TPU|^Infeed|^Outfeed", "it runs on a TPU alone: export the model for a CPU"),
        (r"^Quantized", "export the model with FakeQuant ops or in floats, and quantize it as ONNX"),
        (r"^Sparse", "it works on sparse tensors: make them dense before, by tf.sparse.to_dense"),
    )
)  # fmt: skip
_LIKE: Final = 0.85  # how like another a name is that was written wrongly
_VERSION: Final = re.compile(r"(V\d+)?$")


def advise(op: str, known: Iterable[str], registry: Container[str]) -> str:
    """A few words about an op: what is `known` to be convertible, and what TensorFlow's `registry` has. "" if there is
    nothing to say but that it is not converted.
    """
    stem = _VERSION.sub("", op)
    siblings = [name for name in known if _VERSION.sub("", name) == stem and name != op]
    if siblings:
        return f"there is {max(siblings, key=lambda name: (len(name), name))}"
    for pattern, advice in _ADVICE:
        if pattern.search(op):
            return advice
    near = [] if op in registry else nearest(op, known, 1)
    return f"there is {near[0]}" if near and SequenceMatcher(None, op, near[0]).ratio() >= _LIKE else ""
