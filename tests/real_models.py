"""Real checkpoints for tests: fetched through the catalog, or the test is skipped with the reason."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from onnxgen.catalog import pull
from onnxgen.errors import DownloadError
from onnxgen.foundations.config_sources import load_runtime_config

GOLDENS = Path(__file__).parent / "goldens" / "real"


def real_golden(name: str) -> dict[str, Any]:
    """What ``scripts/make_real_goldens.py`` recorded of a catalog model."""
    return json.loads((GOLDENS / f"{name}.json").read_text(encoding="utf-8"))


def checkpoint_file(name: str, *, fetch: bool) -> Path:
    """The checkpoint of a catalog model, from the user's cache or fetched if allowed; skips the test otherwise.

    Args:
        name: Name in the catalog.
        fetch: Whether a test run may fetch it. Runs that are configured to be offline never do.
    """
    config = load_runtime_config().config
    if not fetch:
        config = dataclasses.replace(config, offline=True)
    try:
        return pull(name, config=config).path
    except DownloadError:
        if config.offline:
            pytest.skip(f"{name} is not in the cache; fetch it with: onnxgen pull {name}")
        raise
