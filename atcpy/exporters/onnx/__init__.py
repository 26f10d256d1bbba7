"""ir.Graph → ONNX."""

from atcpy.exporters.onnx.exporter import export_model

__all__ = ["export_model"]
