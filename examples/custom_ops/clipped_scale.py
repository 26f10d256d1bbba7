"""ClippedScale(x) = min(max(scale · x, −limit), limit), with a kernel in C: clipped_scale.c.

cc -O2 -shared -fPIC -I "$(python -c 'import atcpy; print(atcpy.include_dir())')" -o clipped_scale.so clipped_scale.c
"""

import numpy as np

import atcpy


@atcpy.register_operator("ClippedScale", inplace=(0,))
class ClippedScale:
    """Multiplication by a constant, clipped."""

    kernel = "clipped_scale.so:clipped_scale"

    @staticmethod
    def infer(ctx, x):
        if x.dtype != np.float32:
            raise TypeError(f"ClippedScale is for float32, x is {x.dtype}")
        return x

    @staticmethod
    def forward(ctx, x):
        scale, limit = np.float32(ctx.attrs.get("scale", 1)), np.float32(ctx.attrs.get("limit", 1))
        return np.clip(x * scale, -limit, limit)
