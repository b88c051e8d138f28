"""From rows of logits to token ids: processors, then a sampler, per row.

Knows logits and options; knows nothing of models or caches.
"""
