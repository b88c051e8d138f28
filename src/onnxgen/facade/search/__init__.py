"""How a `Generator` searches for sequences: one file per strategy behind one protocol.

Knows tokens, logits and options; not threads, runtime options or the shapes that callers hand over.
"""
