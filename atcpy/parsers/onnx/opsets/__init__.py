"""Changes of ops between opsets: `changes.py` lists them, each with its step up and its step down.

`parsers/onnx/upgrade.py` takes the steps up while a model is read, `downgrade.py` those down when one is written.
"""
