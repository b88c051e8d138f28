"""Observability: metrics, logs, traces and the numbers of engines.

Knows what happened and when; knows nothing of how a request is answered.
"""
