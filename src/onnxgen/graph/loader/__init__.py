"""Turns files, bytes and models in memory into graphs that are legal, flat and mapped.

Knows the formats and their rules; knows nothing of what operators compute.
"""

from onnxgen.graph.loader.load import LoadedGraph, load_graph

__all__ = ["LoadedGraph", "load_graph"]
