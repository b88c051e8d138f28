"""Random streams. The number for a position of a stream is computed from its seed, not reached by drawing all before it.

So a sequence draws the same tokens alone, in a batch, and again after it was rewound or preempted.
"""

from __future__ import annotations

import secrets


def fresh_seed() -> int:
    """A seed from the operating system's entropy, in ``[0, 2**64)``."""
    return secrets.randbits(64)
