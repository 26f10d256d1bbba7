"""Which ops the precision modes lower. Names are ONNX's; those of GE are found by each op's record.

White: lowered by the mixed modes. Black: never lowered by them. All others are grey: they follow their producers.
"""

from typing import Final

# Products of matrices and convolutions: what allow_fp32_to_fp16 and cube_fp16in_fp32out are about.
CUBE: Final = frozenset({"Conv", "ConvTranspose", "DeformConv", "Einsum", "Gemm", "MatMul"})

# FusedMatMul: GRU, LSTM and RNN are its product with all inputs, and Recurrence.
WHITE: Final = CUBE | {"Attention", "FusedMatMul", "GRU", "LSTM", "RNN"}

BLACK: Final = frozenset(
    {
        # Numbers that grow fast, or that 16 bits hold too coarsely.
        *("Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cos", "Cosh", "Det", "Erf", "Exp", "Log", "Pow"),
        *("Reciprocal", "Sin", "Sinh", "Sqrt", "Tan"),
        # Sums of many numbers.
        *("CumProd", "CumSum", "LogSoftmax", "LpNormalization", "LpPool", "GlobalLpPool", "ReduceL1", "ReduceL2"),
        *("ReduceLogSum", "ReduceLogSumExp", "ReduceMean", "ReduceProd", "ReduceSum", "ReduceSumSquare", "Softmax"),
        *("BatchNormalization", "GroupNormalization", "InstanceNormalization", "LRN", "LayerNormalization"),
        *("MeanVarianceNormalization", "RMSNormalization"),
        # Steps of GRU, LSTM and RNN: the kernel reads weights of 32 bits, packed when they are constant.
        "Recurrence",
        # Losses and updates of weights.
        *("Adagrad", "Adam", "Momentum", "NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"),
        # Coordinates, angles and frequencies.
        *("AffineGrid", "DFT", "GridSample", "MaxRoiPool", "NonMaxSuppression", "RoiAlign", "RotaryEmbedding", "STFT"),
    }
)

# What knows sizes: 16 bits hold few of them exactly.
SIZES: Final = frozenset({"Shape", "ShapeValue", "Size"})

# Their type is what they are for, decides a size, or is that of numbers inside packed constants.
NEVER: Final = frozenset({"Cast", "Range", "Trees"})
