"""Our schema of ``genai_config.json`` against onnxruntime-genai's own reader, key by key.

Every key that our schema has is given to both readers, with a good value and with bad ones. What they let
through must be the same, but for the differences named here.
"""

import dataclasses
import json
import types
import typing
from collections.abc import Iterator, Mapping

import pytest

from onnxgen.errors import MetadataError
from onnxgen.metadata.document import ReadBy
from onnxgen.metadata.genai_config import GenaiConfig, parse_genai_config
from onnxgen.metadata.genai_config_session import KnownSessionOptions, SessionOptions

og = pytest.importorskip("onnxruntime_genai")
pytestmark = pytest.mark.interop

BASE = {
    "model": {"type": "llama", "context_length": 8, "decoder": {"filename": "m.onnx", "num_hidden_layers": 1}}
}
PATH = tuple[str | int, ...]

# Sections that are one value to us, or that onnxruntime-genai only checks as a whole.
WHOLE = ("runtime_profiles", "state_groups")
# Names of graphs inside moonshine's section: any role passes here, onnxruntime-genai knows its own.
OPEN = ("moonshine",)
# Sections of this project, which onnxruntime-genai refuses.
OURS = ("eagle",)


def sections(schema: type, path: PATH = ()) -> Iterator[tuple[PATH, object]]:
    """Every key of the schema: its path, and its annotation."""
    hints = typing.get_type_hints(schema, include_extras=True)
    for field in dataclasses.fields(schema):
        if field.name in OURS:
            continue
        hint = without_none(hints[field.name])
        yield (*path, field.name), hint
        inner = plain(hint)
        if field.name in WHOLE or field.name in OPEN:
            continue
        if inner is SessionOptions:
            known = typing.get_type_hints(KnownSessionOptions, include_extras=True)
            for name, option in known.items():
                yield (*path, field.name, name), without_none(option)
        elif dataclasses.is_dataclass(inner):
            yield from sections(inner, (*path, field.name))
        elif typing.get_origin(inner) is tuple and dataclasses.is_dataclass(typing.get_args(inner)[0]):
            yield from sections(typing.get_args(inner)[0], (*path, field.name, 0))
        elif field.name == "pipeline":
            stage = typing.get_args(typing.get_args(inner)[0])[1]
            yield from sections(stage, (*path, field.name, 0, "stage"))


def without_none(hint: object) -> object:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return next(a for a in typing.get_args(hint) if a is not type(None))
    return hint


def plain(hint: object) -> object:
    return typing.get_args(hint)[0] if typing.get_origin(hint) is typing.Annotated else hint


def good_value(path: PATH, hint: object) -> object:
    inner = plain(hint)
    special = {
        "block_size": 2,
        "sampling_top_p": 0.5,
        "gpu_utilization_factor": 0.5,
        "state_groups": [{"kind": "fixed_conv", "layer_ids": [0]}],
        "runtime_profiles": [],
        "ngram_size": 2,
    }
    if path[-1] in special:
        return special[str(path[-1])]
    if typing.get_origin(inner) is typing.Literal:
        return typing.get_args(inner)[-1]
    if inner is SessionOptions or dataclasses.is_dataclass(inner) or typing.get_origin(inner) is Mapping:
        return {}
    if typing.get_origin(inner) is tuple:
        return []
    return {str: "x", int: 1, float: 0.5, bool: True}[inner]  # type: ignore[index]


def document(path: PATH, value: object) -> str:
    needed: dict[str, object] = {}
    if "shared_initializers" in path and path[-2] == 0:
        needed = {"name": "n", "data_file": "f"}
    for step in reversed(path):
        value = [value] if isinstance(step, int) else {**needed, step: value}
        needed = {}
    return json.dumps(value)


def ours(text: str) -> str | None:
    try:
        parse_genai_config(json.dumps(BASE), source="f", overlays=[text])
    except MetadataError as error:
        return str(error)
    return None


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("og")
    (path / "genai_config.json").write_text(json.dumps(BASE))
    return path


def theirs(folder, text: str) -> str | None:
    try:
        og.Config(str(folder)).overlay(text)
    except Exception as error:  # noqa: BLE001, its errors have no class of their own
        return str(error)
    return None


def shown(different: Mapping[str, tuple[str | None, str | None]]) -> str:
    return "\n".join(f"{text}: we say {us}, they say {them}" for text, (us, them) in different.items())


KEYS = list(sections(GenaiConfig))


def test_there_are_keys_to_compare():
    assert len(KEYS) > 300
    assert any(isinstance(m, ReadBy) for _, hint in KEYS for m in getattr(hint, "__metadata__", ()))


def test_a_good_value_for_every_key_passes_both(folder):
    different = {}
    for path, hint in KEYS:
        text = document(path, good_value(path, hint))
        verdicts = (ours(text), theirs(folder, text))
        if verdicts != (None, None):
            different[text] = verdicts
    assert not different, shown(different)


def test_a_value_of_the_wrong_kind_passes_neither(folder):
    different = {}
    for path, hint in KEYS:
        good = good_value(path, hint)
        for value in ("x", 2.5, True, None, [], {}):
            if accepts(path, hint, good, value):
                continue
            text = document(path, value)
            verdicts = (ours(text), theirs(folder, text))
            if None in verdicts:
                different[text] = verdicts
    assert not different, shown(different)


def accepts(path: PATH, hint: object, good: object, value: object) -> bool:
    """Whether the value is of the right kind after all, or its treatment is a difference named here."""
    if path[-1] in ("pipeline", "eos_token_id") and isinstance(value, (list, dict, int, float)):
        return True
    if path[-1] == "chunk_size" and isinstance(value, (int, float)):
        return True  # any number, cut to a whole one
    if "moonshine" in path or path[-1] in WHOLE:
        return True
    if len(path) == 1 and not isinstance(value, (dict, list)):
        return True  # at the root, onnxruntime-genai passes over values that are no sections
    if typing.get_origin(plain(hint)) is typing.Literal:
        return isinstance(value, str)
    same = type(good) is type(value)
    return same or (isinstance(good, float) and isinstance(value, float) and not isinstance(value, bool))


def test_an_unknown_key_passes_neither(folder):
    parents = {path[:-1] for path, _ in KEYS}
    free = {("session_options",), ("run_options",), ("output_names_forwarder",)}
    different = {}
    for parent in sorted(parents, key=str):
        if parent[-1:] in free or "moonshine" in parent:
            continue
        for value in (1, {}, []) if parent else ({}, []):
            text = document((*parent, "no_such_key"), value)
            verdicts = (ours(text), theirs(folder, text))
            if None in verdicts:
                different[text] = verdicts
    assert not different, shown(different)
