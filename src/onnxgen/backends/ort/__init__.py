"""ONNX Runtime behind the seam. The only package that imports onnxruntime.

Knows ONNX graphs and ONNX Runtime; knows nothing of model folders or text.
"""
