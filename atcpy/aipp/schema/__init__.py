"""ATC's message of AIPP operators as a protobuf schema; `*_pb2.py` comes from the `.proto` file (`make proto`)."""
