"""atcpy: compile ONNX graphs for CPUs the way Huawei's ATC and graph engine do."""

__version__ = "0.1.0"
