"""FusedConvBN: a convolution with the following batch normalization folded into its weights.

    scale = gamma / √(var + ε)        shift = beta − mean · scale
    Conv(x, w · scale, b · scale + shift)

The scale and the shift are computed from constants, so that the compiler folds them: one Conv remains at run time.
"""

import numpy as np

import atcpy
from atcpy.ir import Reject
from atcpy.ir.pattern import const, op, var

CONV_ATTRIBUTES = ("pads", "strides", "dilations", "group", "auto_pad", "kernel_shape")


@atcpy.register_operator("FusedConvBN")
class FusedConvBN:
    """Conv with BatchNormalization folded into its weights."""

    pattern = op(
        "BatchNormalization",
        op("Conv", var("x"), const("w"), const("b"), name="conv"),
        const("gamma"),
        const("beta"),
        const("mean"),
        const("var"),
        name="bn",
    )

    @staticmethod
    def meet_requirements(m):
        conv = m.node("conv")
        if any(conv.ints_attr("pads")) or conv.ints_attr("strides", (1, 1)) != (1, 1) or conv.int_attr("group", 1) != 1:
            yield Reject("not-plain", conv.name, "the article's convolution has no pads, strides or groups")

    @staticmethod
    def attributes(m):
        return {"epsilon": m.node("bn").float_attr("epsilon", 1e-5)}

    @staticmethod
    def infer(ctx, x, w, b, gamma, beta, mean, var):
        n, _, height, width = x.shape
        return x.with_shape((n, w.shape[0], height - w.shape[2] + 1, width - w.shape[3] + 1))

    @staticmethod
    def forward(ctx, x, w, b, gamma, beta, mean, var):
        scale = gamma / np.sqrt(var + np.asarray(ctx.attrs["epsilon"], var.dtype))
        folded = w * scale.reshape(-1, 1, 1, 1)
        windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=(2, 3))
        ctx.save(windows, folded, scale)
        return np.einsum("nchwkl,ockl->nohw", windows, folded) + (b * scale + beta - mean * scale).reshape(-1, 1, 1)

    @staticmethod
    def backward(ctx, grad):
        """The gradients of x, w and b; the statistics of the normalization are constants."""
        windows, folded, scale = ctx.saved
        height, width = folded.shape[2:]
        padded = np.pad(grad, ((0, 0), (0, 0), (height - 1, height - 1), (width - 1, width - 1)))
        back = np.lib.stride_tricks.sliding_window_view(padded, (height, width), axis=(2, 3))
        grad_x = np.einsum("nohwkl,ockl->nchw", back, folded[:, :, ::-1, ::-1])
        grad_w = np.einsum("nohw,nchwkl->ockl", grad, windows) * scale.reshape(-1, 1, 1, 1)
        return grad_x, grad_w, grad.sum(axis=(0, 2, 3)) * scale

    @staticmethod
    def decompose(ops, x, w, b, gamma, beta, mean, var):
        scale = ops.Div(gamma, ops.Sqrt(ops.Add(var, ops.attrs["epsilon"])))
        shift = ops.Sub(beta, ops.Mul(mean, scale))
        columns = ops.Reshape(scale, np.array([-1, 1, 1, 1]))
        return ops.Conv(x, ops.Mul(w, columns), ops.Add(ops.Mul(b, scale), shift))
