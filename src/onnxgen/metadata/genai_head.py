"""Sections ``mtp`` and ``eagle`` of a read ``genai_config.json`` to a `HeadSpec`."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

from onnxgen.backends.base import DecoderModel
from onnxgen.errors import MetadataError
from onnxgen.foundations.files import confined, read_json
from onnxgen.metadata.document import Place, read_array, read_int
from onnxgen.metadata.genai_config import Model
from onnxgen.metadata.genai_config_decoder import names_by_role
from onnxgen.metadata.genai_config_drafters import Eagle, Mtp
from onnxgen.metadata.genai_session import providers_of, session_options_of
from onnxgen.metadata.model_spec import HeadSpec

_log = logging.getLogger(__name__)


def head_spec(folder: Path, path: Path, model: Model, decoder: DecoderModel) -> HeadSpec | None:
    """The head that a folder declares; None where it has none that can be used, which costs speed and nothing else.

    Args:
        folder: The model folder.
        path: Its ``genai_config.json``.
        model: What that says.
        decoder: The model's own.

    Raises:
        MetadataError: A section is wrong; the message has the path of keys.
    """
    if model.mtp is not None and model.mtp.enabled:
        return _mtp(folder, path, model.mtp, decoder)
    if model.eagle is not None and model.eagle.enabled:
        return _eagle(folder, path, model.eagle, decoder)
    return None


def _mtp(folder: Path, path: Path, section: Mtp, decoder: DecoderModel) -> HeadSpec | None:
    unusable = (
        "names no file" if not section.filename
        else "has shared_initializers, which are not supported yet" if section.shared_initializers
        else None
    )  # fmt: skip
    if unusable is not None:
        _log.warning("%s: the section 'mtp' %s; the decoder answers without drafts", path, unusable)
        return None
    return HeadSpec(
        name="mtp",
        decoder=_graph(folder, path, section, decoder, vocab_size=decoder.vocab_size),
        target_outputs=(section.main_hidden_states,),
    )


def _eagle(folder: Path, path: Path, section: Eagle, decoder: DecoderModel) -> HeadSpec:
    place = Place(path, "model.eagle")
    if not section.filename:
        raise place.key("filename").error("is not set; a head cannot run without it")
    size = section.vocab_size or decoder.vocab_size
    if size > decoder.vocab_size:
        raise place.key("vocab_size").error(f"is {size}; the model has {decoder.vocab_size} tokens")
    return HeadSpec(
        name="eagle",
        decoder=_graph(folder, path, section, decoder, vocab_size=size),
        target_outputs=section.main_hidden_states,
        reads_aux=bool(section.inputs.aux_hidden_states),
        target_ids=_target_ids(folder, section.vocab_map, size, decoder.vocab_size),
        max_draft_tokens=section.num_draft_tokens,
    )


def _graph(
    folder: Path, path: Path, section: Mtp | Eagle, decoder: DecoderModel, *, vocab_size: int
) -> DecoderModel:
    """The head's graph; what the section leaves open is as the decoder has it."""
    inputs = names_by_role(section.inputs)
    if "hidden_states" not in inputs:
        place = Place(path, f"model.{'mtp' if isinstance(section, Mtp) else 'eagle'}.inputs.hidden_states")
        raise place.error("is empty; a head reads hidden states")
    own = section.session_options
    return replace(
        decoder,
        path=confined(folder, section.filename, error=MetadataError),
        inputs=inputs,
        outputs=names_by_role(section.outputs),
        num_layers=section.num_hidden_layers,
        vocab_size=vocab_size,
        input_vocab_size=decoder.vocab_size,
        session_options=decoder.session_options if own is None else session_options_of(folder, own),
        providers=decoder.providers if own is None else providers_of(own, path),
        run_options=decoder.run_options if section.run_options is None else section.run_options,
    )


def _target_ids(folder: Path, name: str, size: int, most: int) -> tuple[int, ...] | None:
    """The model's ids for the head's logits; None where they are the same.

    Raises:
        MetadataError: The file has not one id of the model's for each of them, all different.
    """
    if not name:
        return None
    path = confined(folder, name, error=MetadataError)
    ids = _ids(path, read_json(path, strict=True, error=MetadataError), most)
    if len(ids) != size:
        raise MetadataError(
            f"{path} has {len(ids)} token ids; the head has {size} logits (model.eagle.vocab_size)"
        )
    seen = set[int]()
    for number in ids:
        if number in seen:
            raise MetadataError(f"{path} has the token id {number} more than once")
        seen.add(number)
    return ids


def _ids(path: Path, document: object, most: int) -> tuple[int, ...]:
    place = Place(path)
    ids = tuple(read_int(item, place.item(i)) for i, item in enumerate(read_array(document, place)))
    for i, number in enumerate(ids):
        if not 0 <= number < most:
            raise place.item(i).error(f"is {number}; the model's token ids are 0 to {most - 1}")
    return ids
