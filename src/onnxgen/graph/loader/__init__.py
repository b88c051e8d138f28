"""ONNX files to graphs: external data mapped, paths confined, sizes checked. Empty for now.

Knows the file format; optimizes nothing.
"""
