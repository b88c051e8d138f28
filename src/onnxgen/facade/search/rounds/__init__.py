"""Speculative decoding of a `Generator`: tokens are guessed, checked in one run of the model, and handed out one by one.

Knows one sequence, its sampler and its grammar; not where its user sees it.
"""
