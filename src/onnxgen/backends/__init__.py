"""Executors of models behind one seam: `base` is the contract, `fake` a scripted model, `ort` ONNX Runtime.

Knows arrays, graphs and devices; knows nothing of requests, prompts or model folders.
"""
