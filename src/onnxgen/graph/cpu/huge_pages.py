"""Whether the system gives huge pages, which are worth a fifth of the bandwidth, to who asks for them."""

from __future__ import annotations

import re
from pathlib import Path

from onnxgen.foundations.cgroups import system_text

_POLICY = "sys/kernel/mm/transparent_hugepage/enabled"


def huge_page_policy(root: Path = Path("/")) -> str | None:
    """``always``, ``madvise`` (on request: ours), ``never``; None where the system does not say.

    Args:
        root: Where ``sys`` lies; another folder for tests.
    """
    chosen = re.search(r"\[(\w+)\]", system_text(root / _POLICY))
    return chosen[1] if chosen else None
