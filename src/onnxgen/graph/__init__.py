"""The native ONNX runtime: IR, loader, shapes, optimizer, planner, session, execution providers.

Knows operators and tensors; knows nothing of prompts, tokens or caches. Empty for now: the ONNX Runtime
backend executes every model until this package does.
"""
