"""Plans kept in the user's cache, so that a second load parses no graph and imports nothing that could.

An entry is found by everything that it was made from: the model file (its path, size and time of change), the names
and lengths that the model's folder gives, this code, and the versions below it. A damaged entry, or a place that
cannot be written, costs the time of making the plan again.
"""

from __future__ import annotations

import hashlib
import json
import logging
from functools import cache
from importlib.metadata import version
from pathlib import Path

from onnxgen.backends.base import DecoderModel
from onnxgen.backends.native.plan import StepPlan
from onnxgen.backends.native.plan_json import plan_from_json, plan_to_json
from onnxgen.foundations.files import atomic_file

_log = logging.getLogger(__name__)

_MOST_BYTES = 16 << 20
"""Plans with more than that inside (weights of a graph in one file) are not worth a second copy on disk."""

_MOST_ENTRIES = 32


class PlanStore:
    """A folder of plans.

    Args:
        folder: Where they are; made when needed.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def key(self, model: DecoderModel) -> str | None:
        """What the plan of a model is found by; None for a model that is not kept."""
        if model.model_bytes is not None:
            return None
        try:
            state = model.path.stat()
        except OSError:
            return None
        facts = (
            str(model.path.resolve()), state.st_size, state.st_mtime_ns, sorted(model.inputs.items()),
            sorted(model.outputs.items()), model.num_layers, model.vocab_size, model.context_length,
            model.rope_switch_length, model.hidden_outputs, _code(),
        )  # fmt: skip
        return hashlib.sha256(repr(facts).encode()).hexdigest()[:40]

    def load(self, key: str) -> StepPlan | None:
        """The plan of a key, if there is one."""
        try:
            head, _, body = self._path(key).read_bytes().partition(b"\n")
            if hashlib.sha256(body).hexdigest().encode() != head:
                _log.debug("the plan %s is damaged", key)
                return None
            return plan_from_json(json.loads(body))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as cause:
            _log.debug("the plan %s is not usable: %s", key, cause)
            return None

    def save(self, key: str, plan: StepPlan) -> None:
        """Keep a plan, and forget the oldest ones beyond some number."""
        body = json.dumps(plan_to_json(plan)).encode()
        if len(body) > _MOST_BYTES:
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with atomic_file(self._path(key)) as path:
                path.write_bytes(hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
            entries = sorted(self._folder.glob("*.plan"), key=lambda p: p.stat().st_mtime, reverse=True)
            for old in entries[_MOST_ENTRIES:]:
                old.unlink(missing_ok=True)
        except OSError as cause:
            _log.debug("the plan %s cannot be kept: %s", key, cause)

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}.plan"


@cache
def _code() -> str:
    """All that plans depend on beside the model: the code that makes them, and what it is built on."""
    digest = hashlib.sha256(repr([version(p) for p in ("onnxgen", "onnx", "onnx-ir")]).encode())
    for source in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()
