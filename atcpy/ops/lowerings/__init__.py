"""What ONNX, com.microsoft and TensorFlow mean alike, written once in ops of the standard: functions of a builder and
values.
"""
