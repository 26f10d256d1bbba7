"""Models of float32 become models of 8-bit integers, by ONNX Runtime's quantizer, with measured errors."""
