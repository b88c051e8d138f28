"""Rewritten graphs kept in the user's cache, so that a second start need not parse and rewrite them.

Reading, checking and rewriting a graph takes longer than all else before ONNX Runtime's own work, most of
it the import of the libraries for it. An entry is found by everything that it was made from: the model
file's content, the names and lengths of the model, this code, the versions below it. Files of external data
are checked again at every load. An entry that is damaged or cannot be written is as good as none.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from onnxgen.backends.base import DecoderModel
from onnxgen.backends.ort.external_files import ExternalFile, is_unchanged
from onnxgen.backends.ort.graph_edit.names import Rows
from onnxgen.backends.ort.plan_kind import PlanKind
from onnxgen.backends.ort.ports import AdapterPort, Ports, RowPort, StateKind, StatePort, TokenPort
from onnxgen.backends.ort.prepare import Prepared
from onnxgen.foundations.files import atomic_file

_log = logging.getLogger(__name__)

# Graphs with their weights inside are not worth a second copy on disk.
_MAX_BYTES = 16 << 20
_MAX_ENTRIES = 32


class PreparedStore:
    """A folder of rewritten graphs.

    Args:
        folder: Where they are; made when needed.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def key(
        self, model: DecoderModel, content: bytes, *choices: object, embedding: bytes = b""
    ) -> str | None:
        """What an entry is found by; None for a model that is not kept."""
        if len(content) + len(embedding) > _MAX_BYTES:
            return None
        digest = hashlib.sha256(content)
        digest.update(hashlib.sha256(embedding).digest())
        facts = (
            sorted(model.inputs.items()), sorted(model.outputs.items()), model.num_layers,
            model.rope_switch_length, model.hidden_outputs, str(model.path.parent.resolve()), choices,
            [version(package) for package in ("onnxgen", "onnxruntime", "onnx-ir")],
        )  # fmt: skip
        digest.update(repr(facts).encode())
        for source in sorted(Path(__file__).parent.rglob("*.py")):
            digest.update(source.read_bytes())
        return digest.hexdigest()

    def load(self, key: str) -> Prepared | None:
        """The entry of a key, if there is one and its external data is what it was."""
        try:
            facts = json.loads(self._path(key, "json").read_text(encoding="utf-8"))
            prepared = _from_json(facts, self._path(key, "onnx").read_bytes())
        except (OSError, ValueError, KeyError, TypeError) as cause:
            if not isinstance(cause, FileNotFoundError):
                _log.debug("prepared graph %s is not usable: %s", key, cause)
            return None
        if hashlib.sha256(prepared.content).hexdigest() != facts["sha256"]:
            _log.debug("prepared graph %s is damaged", key)
            return None
        if not all(is_unchanged(file) for file in prepared.external_files):
            return None
        return prepared

    def save(self, key: str, prepared: Prepared) -> None:
        """Keep an entry, and forget the oldest ones beyond some number."""
        try:
            with atomic_file(self._path(key, "onnx")) as path:
                path.write_bytes(prepared.content)
            with atomic_file(self._path(key, "json")) as path:
                path.write_text(json.dumps(_to_json(prepared)), encoding="utf-8")
            entries = sorted(self._folder.glob("*.json"), key=lambda p: p.stat().st_mtime, reverse=True)
            _forget(entries[_MAX_ENTRIES:])
        except OSError as cause:
            _log.debug("the prepared graph %s cannot be kept: %s", key, cause)

    def _path(self, key: str, kind: str) -> Path:
        return self._folder / f"{key}.{kind}"


def _forget(entries: Iterable[Path]) -> None:
    for path in entries:
        path.unlink(missing_ok=True)
        path.with_suffix(".onnx").unlink(missing_ok=True)


def _to_json(prepared: Prepared) -> dict[str, Any]:
    facts = {f.name: getattr(prepared, f.name) for f in dataclasses.fields(prepared) if f.name != "content"}
    facts |= {
        "data_folder": str(prepared.data_folder),
        "kind": prepared.kind.value,
        "rows": prepared.rows.value,
        "ports": dataclasses.asdict(prepared.ports),
        "external_files": [
            {"path": str(f.path), "target": str(f.target), "size": f.size} for f in prepared.external_files
        ],
        "sha256": hashlib.sha256(prepared.content).hexdigest(),
    }
    for state in facts["ports"]["states"]:
        state["kind"] = state["kind"].name
    return facts


def _from_json(facts: dict[str, Any], content: bytes) -> Prepared:
    ports = dict(facts["ports"])
    for role in ("input_ids", "attention_mask", "position_ids"):
        ports[role] = TokenPort(**ports[role]) if ports[role] is not None else None
    ports["states"] = tuple(
        StatePort(**state | {"kind": StateKind[state["kind"]], "dims": tuple(state["dims"])})
        for state in ports["states"]
    )
    for role in ("adapter", "required"):
        ports[role] = tuple(AdapterPort(**p | {"dims": tuple(p["dims"])}) for p in ports[role])
    ports["rows"] = tuple(RowPort(**port) for port in ports["rows"])
    return Prepared(
        content=content,
        data_folder=Path(facts["data_folder"]),
        external_files=tuple(
            ExternalFile(Path(f["path"]), Path(f["target"]), f["size"]) for f in facts["external_files"]
        ),
        kind=PlanKind(facts["kind"]),
        ports=Ports(**ports),
        rows=Rows(facts["rows"]),
        head_rows=facts["head_rows"],
        embedding_size=facts["embedding_size"],
        padding_limit=facts["padding_limit"],
        one_by_one=facts["one_by_one"],
        declined=tuple(facts["declined"]),
        settled=tuple(facts["settled"]),
    )
