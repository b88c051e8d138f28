"""The example provider, which need not be installed."""

from __future__ import annotations

import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "examples" / "mirror_provider"

if str(SOURCE / "src") not in sys.path:
    sys.path.append(str(SOURCE / "src"))

from mirror_provider import MirrorProvider, MirrorValue

__all__ = ["SOURCE", "MirrorProvider", "MirrorValue"]
