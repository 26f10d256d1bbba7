"""Changes of ops between opsets: `changes.py` lists them, each with its step up and its step down.

`upgrade.py` brings a node to the canonical opset while a model is read; `downgrade.py` writes one at an older opset.
"""
