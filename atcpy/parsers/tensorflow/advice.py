"""What to do about an op that cannot be converted: the nearest alternative where there is one, else the way around."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from difflib import SequenceMatcher
from typing import Final

from atcpy.errors import nearest

_OUTSIDE: Final = "do this before the model, and export what comes after it"
_INFERENCE: Final = "training: take the outputs of inference by --out_nodes, or export the model for inference"
# Ops by their names, and what to do. The first that fits counts.
_ADVICE: Final[tuple[tuple[re.Pattern[str], str], ...]] = tuple(
    (re.compile(pattern), advice)
    for pattern, advice in (
        (r"^Stateless(Truncated|Parameterized|Multi|Random)", "draw by tf.random.stateless_uniform or _normal"),
        (r"Random|Multinomial|TruncatedNormal|StatelessSample", "drawn at random: export the model for inference"),
        (r"String|Regex|Unicode|AsString|Substr|ToHashBucket|NGrams|Tokenize", f"texts: {_OUTSIDE}"),
        (r"(Hash|Lookup)Table|InitializeTable", f"tables: {_OUTSIDE}"),
        (r"^(Parse|Decode|Encode|ReadFile|WriteFile|ExtractJpeg)", f"formats of files: {_OUTSIDE}"),
        (r"Dataset|Iterator|Queue|Reader(V2)?$|Barrier|^Stage", f"a source of data: {_OUTSIDE}"),
        (r"^Cudnn", "for GPUs alone: export the model on a CPU"),
        (r"^(Resource)?(Sparse)?Apply|^Assign|^Scatter(Add|Sub|Update|Mul|Div)$|^ResourceScatter", _INFERENCE),
        (r"Save|Restore|ShardedFilename|MergeV2Checkpoints|VarIsInit|IsVariableInit|Summary", _INFERENCE),
        (r"Grad(V\d|Input|Filter|WithArg.*)?$", _INFERENCE),
        (r"^(Eager)?PyFunc|^PyFuncStateless", "Python, which the file does not hold: write it in ops of TensorFlow"),
        (r"^XlaCallModule|^Xla", "a program of XLA: export with native_serialization=False, or to ONNX"),
        (r"^TPU|^Infeed|^Outfeed", "for TPUs alone: export the model for a CPU"),
        (r"^Quantized", "integers of TensorFlow 1: export the model with FakeQuant ops, or in floats"),
        (r"^Ragged", "rows of different lengths: make them dense before, by .to_tensor()"),
        (r"Cholesky|Matrix|Eig|^Svd|^Lu$", "linear algebra: decompose before the model, and feed the factors"),
        (r"^Sparse", "sparse tensors: make them dense before, by tf.sparse.to_dense"),
    )
)  # fmt: skip
_LIKE: Final = 0.85  # how like another a name is that was written wrongly
_VERSION: Final = re.compile(r"(V\d+)?$")


def find_alternative(op: str, known: Iterable[str], registry: Container[str]) -> str:
    """The op in `known` that may stand for another: one of its other versions, or what a name was to be that
    TensorFlow's `registry` does not have. "" if there is none.
    """
    stem = _VERSION.sub("", op)
    versions = [name for name in known if _VERSION.sub("", name) == stem and name != op]
    if versions:
        return max(versions, key=lambda name: (len(name), name))
    near = [] if op in registry else nearest(op, known, 1)
    return near[0] if near and SequenceMatcher(None, op, near[0]).ratio() >= _LIKE else ""


def find_ways_around(ops: Iterable[str]) -> list[str]:
    """What to do about ops that have no alternative, a sentence for those of one kind."""
    by_advice: dict[str, list[str]] = {}
    for op in ops:
        advice = next((advice for pattern, advice in _ADVICE if pattern.search(op)), "")
        if advice:
            by_advice.setdefault(advice, []).append(op)
    return [f"{', '.join(ops)}: {advice}" for advice, ops in by_advice.items()]
