"""``genai_config.json``: onnxruntime-genai's description of a model folder, read strictly.

All keys that its released version reads are known here, with the same defaults; any other key is an
error, as it is there, but for the section ``model.eagle``, which is ours. What we do more: two mistakes that it lets pass, a key that stands twice and
``//`` comments, are refused with a message that says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from onnxgen.errors import MetadataError
from onnxgen.foundations.files import read_text
from onnxgen.foundations.json_text import parse_json
from onnxgen.metadata.document import AtLeast, Place, ReadBy, read_array, read_document, read_int
from onnxgen.metadata.genai_config_decoder import Decoder, layers_exist
from onnxgen.metadata.genai_config_drafters import BlockDrafter, Eagle, Mtp, mapped_with_size
from onnxgen.metadata.genai_config_media import (
    AudioOutput,
    Embedding,
    Encoder,
    Joiner,
    Moonshine,
    Speech,
    Vad,
    Vision,
)
from onnxgen.metadata.genai_config_overlay import merge_overlay
from onnxgen.metadata.genai_config_run import (
    Engine,
    RuntimeProfile,
    Search,
    Speculative,
    distinct_profiles,
    one_way_of_batching,
)


def _token_ids(value: object, place: Place) -> tuple[int, ...]:
    if isinstance(value, list):
        return tuple(read_int(item, place.item(i)) for i, item in enumerate(read_array(value, place)))
    return (read_int(value, place),)


@dataclass(frozen=True, slots=True)
class Model:
    """The ``model`` section. Token ids and sizes that are not given are None."""

    type: str = ""
    tokenizer_dir: str = ""
    vocab_size: Annotated[int, AtLeast(0)] | None = None
    context_length: Annotated[int, AtLeast(1)] | None = None
    pad_token_id: int | None = None
    eos_token_id: Annotated[tuple[int, ...], ReadBy(_token_ids)] = ()
    bos_token_id: int | None = None
    sep_token_id: int | None = None
    decoder_start_token_id: int | None = None
    bot_token_id: int | None = None
    eot_token_id: int | None = None
    bor_token_id: int | None = None
    eor_token_id: int | None = None
    image_token_id: int | None = None
    video_token_id: int | None = None
    audio_token_id: int | None = None
    boa_token_id: int | None = None
    vision_start_token_id: int | None = None
    num_mels: int | None = None
    fft_size: int | None = None
    hop_length: int | None = None
    win_length: int | None = None
    preemph: float | None = None
    log_eps: float | None = None
    norm_eps: float | None = None
    subsampling_factor: int | None = None
    left_context: int | None = None
    conv_context: int | None = None
    pre_encode_cache_size: int | None = None
    sample_rate: int | None = None
    chunk_samples: int | None = None
    blank_id: int | None = None
    max_symbols_per_step: int | None = None
    left_context_samples: int | None = None
    right_context_samples: int | None = None
    tdt_durations: tuple[int, ...] = ()
    decoder: Annotated[Decoder, layers_exist] = field(default_factory=Decoder)
    draft: Decoder | None = None
    encoder: Encoder | None = None
    embedding: Embedding | None = None
    vision: Vision | None = None
    speech: Speech | None = None
    joiner: Joiner | None = None
    vad: Vad | None = None
    mtp: Mtp | None = None
    eagle: Annotated[Eagle, mapped_with_size] | None = None
    dflash2: BlockDrafter | None = None
    dspark: BlockDrafter | None = None
    moonshine: Moonshine | None = None
    audio_output: AudioOutput | None = None


def _one_drafter_of_a_kind(model: Model, place: Place) -> Model:
    if model.dflash2 and model.dspark:
        raise place.error("has dflash2 and dspark; keep one of them")
    if model.mtp and model.mtp.enabled and model.eagle and model.eagle.enabled:
        raise place.error("has mtp and eagle; keep one of them, or set 'enabled' of one to false")
    return model


@dataclass(frozen=True, slots=True)
class GenaiConfig:
    """A whole ``genai_config.json``."""

    model: Annotated[Model, _one_drafter_of_a_kind]
    search: Search = field(default_factory=Search)
    engine: Annotated[Engine, one_way_of_batching] = field(default_factory=Engine)
    speculative: Speculative = field(default_factory=Speculative)
    runtime_profiles: Annotated[tuple[RuntimeProfile, ...], distinct_profiles] = ()


@dataclass(frozen=True, slots=True)
class GenaiDocument:
    """A read configuration, and the document that it was read from, overlays included."""

    config: GenaiConfig
    document: Mapping[str, Any]


def read_genai_config(path: Path, *, overlays: Sequence[str] = ()) -> GenaiDocument:
    """Read a ``genai_config.json`` and merge JSON documents over it, in order.

    Raises:
        MetadataError: The file or an overlay is not JSON or does not fit; the message has the path of
            keys, and for an overlay its number.
    """
    return parse_genai_config(read_text(path, error=MetadataError), source=path, overlays=overlays)


def parse_genai_config(text: str, *, source: object, overlays: Sequence[str] = ()) -> GenaiDocument:
    """Like `read_genai_config`, from text; ``source`` is what messages call it.

    Raises:
        MetadataError: As `read_genai_config`.
    """
    document = parse_json(text, source=source, strict=True, error=MetadataError)
    config = read_document(GenaiConfig, document, Place(source))
    for number, overlay in enumerate(overlays, start=1):
        where = f"overlay {number} of {source}"
        change = parse_json(overlay, source=where, strict=True, error=MetadataError)
        document = merge_overlay(document, change, Place(where))
        config = read_document(GenaiConfig, document, Place(where))
    return GenaiDocument(config, document)
