"""Servers over HTTP: load from clients that stream, checks of every answer, and other programs' servers beside onnxgen's.

Knows what clients send and see, and how a server is started and watched. How programs take turns is `benchmarks.measuring`'s.
"""
