"""Names among a graph's inputs and outputs; those of caches are patterns that the layer's number goes into."""

from __future__ import annotations

PAST_KEY = "past_key_values.%d.key"
PAST_VALUE = "past_key_values.%d.value"
PRESENT_KEY = "present.%d.key"
PRESENT_VALUE = "present.%d.value"
HIDDEN_STATES = "hidden_states"
HEAD_HIDDEN_STATES = "hidden_states_out"
"""What a head for drafts gives for its next guess: an output beside its input `HIDDEN_STATES`."""
