"""Token ids as bytes, and the keys that name a beginning of a sequence.

A key is a hash over the key of what comes before and the tokens of one block, so that it names everything up to
the block's end::

    key 0 = H(extra)    key 1 = H(key 0, tokens of block 0)    key 2 = H(key 1, tokens of block 1)    ...

Keys only find; what was found is compared byte by byte.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Sequence

from onnxgen.kvcache.base import Extra

Digest = Callable[[bytes], bytes]

TOKEN_BYTES = array("q").itemsize
"""Bytes of a token id as `pack` writes it."""

_KEY_BYTES = 16


def pack(tokens: Sequence[int]) -> bytes:
    """Token ids as bytes, ``TOKEN_BYTES`` each."""
    return array("q", tokens).tobytes()


def unpack(content: bytes) -> list[int]:
    """The token ids that `pack` was given."""
    return array("q", content).tolist()


def blake2b(data: bytes) -> bytes:
    """The hash that keys are made with."""
    return hashlib.blake2b(data, digest_size=_KEY_BYTES).digest()


def root_key(extra: Extra, *, digest: Digest) -> bytes:
    """The key before the first token."""
    return digest(repr(extra).encode())


def num_common(left: bytes, right: bytes) -> int:
    """How many token ids two contents have in common at their beginnings."""
    low, high = 0, min(len(left), len(right)) // TOKEN_BYTES
    while low < high:
        middle = (low + high + 1) // 2
        part = slice(low * TOKEN_BYTES, middle * TOKEN_BYTES)
        if left[part] == right[part]:
            low = middle
        else:
            high = middle - 1
    return low
