"""GE's messages as protobuf schemas; `*_pb2.py` is generated from the `.proto` files beside it (`make proto`)."""
