"""atcpy: compile ONNX graphs for CPUs the way Huawei's ATC and graph engine do."""
