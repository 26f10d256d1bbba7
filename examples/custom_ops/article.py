"""The classes of CANN's article on custom fused operators: objects with weights, and methods without a context.

`from atcpy import custom_op as cop` stands for the article's `import custom_op as cop`. FusedConvBN differs in one
line: the article makes its result in float64 whatever x is, this one as x is. `AddReLUOptimizer` is the article's
FusionOptimizer with what its methods leave open.
"""

import numpy as np

import atcpy
from atcpy import custom_op as cop
from atcpy.ir.pattern import op, var


@cop.register_operator("FusedAddReLU")
class FusedAddReLU(cop.Operator):
    def __init__(self):
        super().__init__()

    def forward(self, x, y):
        output = np.maximum(x + y, 0.0)
        return output

    def backward(self, grad_output):
        grad_x = grad_output * (self.x + self.y > 0)
        grad_y = grad_output * (self.x + self.y > 0)
        return grad_x, grad_y


@cop.register_operator("FusedConvBN")
class FusedConvBN(cop.Operator):
    def __init__(self, conv_weight, conv_bias, bn_weight, bn_bias, bn_mean, bn_var, eps=1e-5):
        super().__init__()
        bn_scale = bn_weight / np.sqrt(bn_var + eps)
        bn_shift = bn_bias - bn_mean * bn_scale
        self.fused_weight = conv_weight * bn_scale.reshape(-1, 1, 1, 1)
        self.fused_bias = conv_bias * bn_scale + bn_shift

    def forward(self, x):
        output = self.conv2d(x, self.fused_weight, self.fused_bias)
        return output

    def conv2d(self, x, weight, bias):
        output = np.zeros(
            (
                x.shape[0],
                weight.shape[0],
                (x.shape[2] - weight.shape[2] + 1),
                (x.shape[3] - weight.shape[3] + 1),
            ),
            x.dtype,
        )
        for b in range(x.shape[0]):
            for o in range(weight.shape[0]):
                for i in range(x.shape[1]):
                    for h in range(output.shape[2]):
                        for w in range(output.shape[3]):
                            for kh in range(weight.shape[2]):
                                for kw in range(weight.shape[3]):
                                    output[b, o, h, w] += x[b, i, h + kh, w + kw] * weight[o, i, kh, kw]
                output[b, o] += bias[o]
        return output


@atcpy.register_fusion_optimizer
class AddReLUOptimizer:
    """Put FusedAddReLU in the place of Add and Relu."""

    pattern = op("Relu", op("Add", var("x"), var("y")))

    def optimize_fusion(self, graph):
        for opportunity in self.identify_fusion_opportunities(graph):
            self.apply_fusion(graph, opportunity)
        return graph

    def identify_fusion_opportunities(self, graph):
        opportunities = []
        for node in graph.nodes:
            if self.can_fuse(node):
                opportunities.append(node)
        return opportunities

    def can_fuse(self, node):
        return node.op_type == "Relu"

    def apply_fusion(self, graph, node):
        match = graph.match(node, self.pattern)
        if match is not None:
            graph.replace(match, FusedAddReLU, match["x"], match["y"])
