"""Integer computation between DequantizeLinear and QuantizeLinear."""
