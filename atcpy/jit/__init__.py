"""Python functions over arrays, compiled when they are called.

`function.py` is the decorator, `tracing.py` makes a graph of a function by the library ndonnx, `structure.py` takes
arguments apart into arrays and the rest, `execution.py` compiles a graph and runs it. `nn.py` and `ops.py` have the
layers and ops of MindSpore's articles. Nothing here imports ndonnx before a function is traced.
"""
