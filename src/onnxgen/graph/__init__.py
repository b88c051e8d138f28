"""The native ONNX runtime: IR, loader, shapes, optimizer, planner, session, execution providers.

Knows operators and tensors; knows nothing of prompts, tokens or caches.
"""
