"""`atcpy optimize`: an ONNX model becomes a smaller ONNX model of the same meaning."""
