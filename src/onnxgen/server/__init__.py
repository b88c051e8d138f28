"""The OpenAI-compatible HTTP server.

Knows HTTP and the public Python API; knows nothing of backends.
"""
