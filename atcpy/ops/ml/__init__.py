"""Ops of the domain ai.onnx.ml: arithmetic becomes ops of the standard and two kernels, text stays on the host."""

from atcpy.ops.ml import categories, features, linear, maps, svm, trees

__all__ = ["categories", "features", "linear", "maps", "svm", "trees"]
