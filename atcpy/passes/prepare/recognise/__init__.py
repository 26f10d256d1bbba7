"""Recognition of ops that exporters write as several nodes."""
