"""Capabilities that models may require by name, and those that we have."""

from __future__ import annotations

from collections.abc import Iterable

from onnxgen.errors import CapabilityError
from onnxgen.foundations.suggest import did_you_mean

SUPPORTED_CAPABILITIES = frozenset({"grouped_query_attention", "kv_cache", "multi_head_attention"})
"""Names from the catalogue of the ONNX inference metadata standard."""


def check_capabilities(required: Iterable[str], *, source: object) -> None:
    """Refuse a model that needs what we cannot do.

    Raises:
        CapabilityError: Naming every missing capability.
    """
    missing = [name for name in required if name not in SUPPORTED_CAPABILITIES]
    if missing:
        hint = did_you_mean(missing[0], SUPPORTED_CAPABILITIES)
        raise CapabilityError(
            f"{source}: the model requires {', '.join(map(repr, missing))}, which this version does not have; it "
            f"has {', '.join(sorted(SUPPORTED_CAPABILITIES))}{hint}"
        )
