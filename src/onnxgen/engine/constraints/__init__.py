"""Grammars: what a request may write, as masks over the vocabulary.

Knows grammars, JSON Schema and tokens; knows nothing of requests, batches or probabilities. The only place
that imports ``llguidance``.
"""
