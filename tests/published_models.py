"""The model folders that onnxruntime-genai publishes for its own tests, where a copy of them is at hand.

The copy is the folder that ``GENAI_TEST_MODELS`` names, else one beside the repository.
"""

import os
from pathlib import Path

import pytest

VARIABLE = "GENAI_TEST_MODELS"
_BESIDE = Path(__file__).parents[2] / "shared" / "fixtures" / "onnxruntime-genai" / "models"
MODELS = Path(os.environ.get(VARIABLE) or _BESIDE)


def published(name: str) -> Path:
    """A folder or file of them; without it the test is skipped."""
    path = MODELS / name
    if not path.exists():
        pytest.skip(f"there is no {path}; {VARIABLE} may name the folder of the models")
    return path
