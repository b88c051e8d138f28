"""Sections of ``genai_config.json`` for running: ``search``, ``speculative``, ``engine``, profiles."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from onnxgen.metadata.document import AtLeast, Between, Place, ReadBy, read_float, read_int64
from onnxgen.metadata.genai_config_decoder import Count, FileName

Bytes = Annotated[int, ReadBy(read_int64), AtLeast(0)]


def _chunk_size(value: object, place: Place) -> int | None:
    size = int(read_float(value, place))
    return size if size > 0 else None


@dataclass(frozen=True, slots=True)
class Search:
    """The ``search`` section. A ``chunk_size`` of 0 or less means no chunks."""

    do_sample: bool = False
    min_length: int = 0
    max_length: int = 0
    batch_size: int = 1
    num_beams: int = 1
    num_return_sequences: int = 1
    repetition_penalty: float = 1.0
    top_k: int = 50
    top_p: float = 0.0
    temperature: float = 1.0
    early_stopping: bool = True
    no_repeat_ngram_size: int = 0
    diversity_penalty: float = 0.0
    length_penalty: float = 1.0
    past_present_share_buffer: bool = False
    random_seed: int = -1
    chunk_size: Annotated[int, ReadBy(_chunk_size)] | None = None
    blank_penalty: float = 0.0
    audio_temperature: float = 1.0
    audio_top_k: int = 0
    audio_interleaved: bool = False


def _ngram_size(value: int, place: Place) -> int:
    if value != 0 and not 2 <= value <= 16:
        raise place.error(f"is {value}; it must be 0 (off) or lie in [2, 16]")
    return value


@dataclass(frozen=True, slots=True)
class Speculative:
    """The ``speculative`` section."""

    max_draft_tokens: Annotated[int, Between(1, 16)] = 4
    ngram_size: Annotated[int, _ngram_size] = 0
    ngram_chained_lookup: bool = False
    min_adaptive_k: Annotated[int, Between(0, 16)] = 0
    cooldown: bool = False


@dataclass(frozen=True, slots=True)
class DynamicBatching:
    """A paged cache: ``num_blocks`` blocks of ``block_size`` tokens, or a share of the free memory."""

    block_size: Count = 256
    num_blocks: Count | None = None
    gpu_utilization_factor: Annotated[float, Between(0, 1, open_below=True)] | None = None
    max_batch_size: Count = 16
    max_scheduled_tokens: Count = 2048
    prefix_caching: bool = True
    dflash2_max_snapshots: Annotated[int, AtLeast(0)] = 0


@dataclass(frozen=True, slots=True)
class StaticBatching:
    """One cache slot per request."""

    max_batch_size: Count = 4


@dataclass(frozen=True, slots=True)
class Engine:
    """The ``engine`` section: at most one way of batching."""

    dynamic_batching: DynamicBatching | None = None
    static_batching: StaticBatching | None = None


def one_way_of_batching(engine: Engine, place: Place) -> Engine:
    """Check: not both ways of batching."""
    if engine.dynamic_batching and engine.static_batching:
        raise place.error("has dynamic_batching and static_batching; keep one of them")
    return engine


@dataclass(frozen=True, slots=True)
class Eligibility:
    """Which devices a profile is for, by their memory in bytes."""

    minimum_total_device_memory_bytes: Bytes
    maximum_total_device_memory_bytes: Bytes | None = None
    minimum_free_device_memory_bytes: Bytes | None = None
    maximum_free_device_memory_bytes: Bytes | None = None
    is_integrated: bool | None = None


@dataclass(frozen=True, slots=True)
class ProfileDecoder:
    """What a profile changes in ``model.decoder``."""

    filename: FileName | None = None


@dataclass(frozen=True, slots=True)
class ProfileModel:
    """What a profile changes in ``model``."""

    decoder: ProfileDecoder = field(default_factory=ProfileDecoder)


@dataclass(frozen=True, slots=True)
class ProfileBatching:
    """What a profile changes in ``engine.dynamic_batching``."""

    num_blocks: Count | None = None
    max_batch_size: Count | None = None
    max_scheduled_tokens: Count | None = None
    dflash2_max_snapshots: Annotated[int, AtLeast(0)] | None = None


@dataclass(frozen=True, slots=True)
class ProfileEngine:
    """What a profile changes in ``engine``."""

    dynamic_batching: ProfileBatching = field(default_factory=ProfileBatching)


@dataclass(frozen=True, slots=True)
class ProfileSearch:
    """What a profile changes in ``search``."""

    chunk_size: Count | None = None


@dataclass(frozen=True, slots=True)
class ProfileSpeculative:
    """What a profile changes in ``speculative``."""

    max_draft_tokens: Annotated[int, Between(1, 16)] | None = None


@dataclass(frozen=True, slots=True)
class ProfileOverlay:
    """What a profile changes."""

    model: ProfileModel = field(default_factory=ProfileModel)
    engine: ProfileEngine = field(default_factory=ProfileEngine)
    search: ProfileSearch = field(default_factory=ProfileSearch)
    speculative: ProfileSpeculative = field(default_factory=ProfileSpeculative)


def _some_id(value: str, place: Place) -> str:
    if not value:
        raise place.error("is empty; a profile needs a name")
    return value


@dataclass(frozen=True, slots=True)
class RuntimeProfile:
    """Settings for devices of a certain size."""

    id: Annotated[str, _some_id]
    eligibility: Eligibility
    overlay: ProfileOverlay = field(default_factory=ProfileOverlay)


def distinct_profiles(profiles: tuple[RuntimeProfile, ...], place: Place) -> tuple[RuntimeProfile, ...]:
    """Check: no two profiles of one name."""
    names = [profile.id for profile in profiles]
    for name in names:
        if names.count(name) > 1:
            raise place.error(f"has two profiles named {name!r}")
    return profiles
