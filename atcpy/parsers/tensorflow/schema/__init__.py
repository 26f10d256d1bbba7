"""Messages of TensorFlow's files as a protobuf schema; `*_pb2.py` is generated from the `.proto` beside it
(`make proto`). `op_defs.json` holds the names of the arguments and the defaults of the attributes of TensorFlow's ops,
read from the op registry of TensorFlow 2.21.
"""
