"""Beam search: the best of many continuations that are followed at once.

Knows log probabilities, tokens and `onnxgen.engine.batch.Batch`; nothing of texts, streams or other requests.
"""
