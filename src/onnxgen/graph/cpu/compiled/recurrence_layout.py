"""How the memory of a suffix index is laid out, and what its kernel answers."""

from __future__ import annotations

NO_MATCH, OTHER_TOKENS = 0, -1
"""In place of how many tokens there are: the end has not occurred before; the tokens that are indexed are others."""

HEADER_SIZE = 8
"""int64 words of an index's header: tokens, states, edges, the state of the whole; how long the longest match is, where it
ended last and first; where a passage goes on that was edited."""

STATES, EDGES, SLOTS = 2, 3, 8
"""Of an index, for each token that there is room for."""

FIELDS = 1 + 5 * STATES + 4 * EDGES + SLOTS
"""int32 of memory for each token that there is room for: 124 bytes."""
