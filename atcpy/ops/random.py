"""Ops that draw random numbers: never folded, never merged, compared by type and shape only."""

from atcpy.ops.opdef import OpDef, register_operator

RANDOM_OPS = frozenset(
    {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial", "Bernoulli"}
)

for _name in sorted(RANDOM_OPS):
    register_operator(OpDef(name=_name, ge_type=_name, is_random=True))
