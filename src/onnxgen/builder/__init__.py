"""Checkpoints to ONNX folders: Hugging Face safetensors or GGUF in, `model.onnx` and its metadata out.

Knows architectures, weights and quantization; runs no model.
"""
