"""Does a package compute what its model computes?  Compared with ONNX Runtime or the ONNX reference."""
