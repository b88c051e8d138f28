"""What onnxruntime-genai knows by model type alone, for folders that say it nowhere else.

This is the one place where ``model.type`` decides anything. Folders of our own builder never rely on it:
their configuration has the token ids, and their ``onnxgen_build.json`` the switch length.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

ROPE_SWITCH_LENGTHS: Mapping[str, int] = MappingProxyType({"phi3": 4096, "phimoe": 4096, "phi3small": 8192})
"""Sequences longer than this use the long rotary factors, if the model's context is longer too."""

TOOL_CALL_TOKENS: Mapping[str, tuple[int, int]] = MappingProxyType(
    {"qwen2": (151657, 151658), "qwen3": (151657, 151658), "phi3": (200025, 200026)}
)
"""Tokens that open and close a tool call, where ``bot_token_id`` and ``eot_token_id`` are not given."""

REASONING_TOKENS: Mapping[str, tuple[int, int]] = MappingProxyType({"qwen3": (151667, 151668)})
"""Tokens that open and close reasoning, where ``bor_token_id`` and ``eor_token_id`` are not given."""
