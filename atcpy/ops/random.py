"""Ops that draw random numbers: never folded, never merged, compared by type and shape only."""

from atcpy.ops.opdef import OpDef, register_operator

for _name in ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"):
    register_operator(OpDef(name=_name, ge_type=_name, is_random=True))
