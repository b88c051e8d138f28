"""Sections of ``genai_config.json`` for graphs beside the decoder: encoders, images, speech."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from onnxgen.metadata.document import Place, ReadBy
from onnxgen.metadata.genai_config_decoder import FileName, Size, read_named
from onnxgen.metadata.genai_config_session import Session

Names = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class EncoderInputs:
    """Graph input names of an encoder."""

    input_ids: str = "input_ids"
    inputs_embeds: str = "inputs_embeds"
    attention_mask: str = "attention_mask"
    position_ids: str = "position_ids"
    audio_features: str = "audio_features"
    input_lengths: str = "length"
    cache_last_channel: str = "cache_last_channel"
    cache_last_time: str = "cache_last_time"
    cache_last_channel_len: str = "cache_last_channel_len"
    lang_id: str = "lang_id"


@dataclass(frozen=True, slots=True)
class EncoderOutputs:
    """Graph output names of an encoder."""

    encoder_outputs: str = "encoder_outputs"
    encoder_hidden_states: str = "encoder_hidden_states"
    cross_present_key_names: str = "present_key_cross_%d"
    cross_present_value_names: str = "present_value_cross_%d"
    output_lengths: str = "encoded_lengths"
    cache_last_channel_next: str = "cache_last_channel_next"
    cache_last_time_next: str = "cache_last_time_next"
    cache_last_channel_len_next: str = "cache_last_channel_len_next"


@dataclass(frozen=True, slots=True)
class Encoder:
    """The ``encoder`` section."""

    filename: FileName = ""
    session_options: Session | None = None
    run_options: Names | None = None
    hidden_size: Size = 0
    num_attention_heads: Size = 0
    num_hidden_layers: Size = 0
    num_key_value_heads: Size = 0
    head_size: Size = 0
    inputs: EncoderInputs = field(default_factory=EncoderInputs)
    outputs: EncoderOutputs = field(default_factory=EncoderOutputs)


@dataclass(frozen=True, slots=True)
class EmbeddingInputs:
    """Graph input names of an embedding graph."""

    input_ids: str = "input_ids"
    image_features: str = "image_features"
    audio_features: str = "audio_features"


@dataclass(frozen=True, slots=True)
class EmbeddingOutputs:
    """Graph output names of an embedding graph."""

    inputs_embeds: str = "inputs_embeds"
    per_layer_inputs: str = ""


@dataclass(frozen=True, slots=True)
class Embedding:
    """The ``embedding`` section."""

    filename: FileName = ""
    session_options: Session | None = None
    run_options: Names | None = None
    inputs: EmbeddingInputs = field(default_factory=EmbeddingInputs)
    outputs: EmbeddingOutputs = field(default_factory=EmbeddingOutputs)


@dataclass(frozen=True, slots=True)
class VisionInputs:
    """Graph input names of an image graph."""

    pixel_values: str = "pixel_values"
    pixel_position_ids: str = "pixel_position_ids"
    image_sizes: str = "image_sizes"
    image_grid_thw: str = "image_sizes"
    attention_mask: str = "image_attention_mask"


@dataclass(frozen=True, slots=True)
class VisionOutputs:
    """Graph output names of an image graph."""

    image_features: str = "image_features"


@dataclass(frozen=True, slots=True)
class VisionStage:
    """One graph of an image encoder that is split into several."""

    filename: FileName = ""
    session_options: Session | None = None
    run_options: Names | None = None
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    run_on_cpu: bool = False


def _read_stages(value: object, place: Place) -> tuple[tuple[str, VisionStage], ...]:
    return read_named(VisionStage, value, place)


@dataclass(frozen=True, slots=True)
class Vision:
    """The ``vision`` section. ``pipeline`` holds names and stages in order."""

    filename: FileName = ""
    config_filename: FileName = "processor_config.json"
    adapter_filename: FileName | None = None
    session_options: Session | None = None
    run_options: Names | None = None
    spatial_merge_size: Size = 2
    tokens_per_second: float = 2.0
    num_visual_tokens: Size = 0
    max_num_patches: Size = 0
    patch_size: Size = 14
    window_size: Size = 0
    inputs: VisionInputs = field(default_factory=VisionInputs)
    outputs: VisionOutputs = field(default_factory=VisionOutputs)
    pipeline: Annotated[tuple[tuple[str, VisionStage], ...], ReadBy(_read_stages)] = ()


@dataclass(frozen=True, slots=True)
class SpeechInputs:
    """Graph input names of a speech graph."""

    audio_embeds: str = "audio_embeds"
    attention_mask: str = "audio_attention_mask"
    audio_sizes: str = "audio_sizes"
    audio_lengths: str = ""
    audio_projection_mode: str = "audio_projection_mode"


@dataclass(frozen=True, slots=True)
class SpeechOutputs:
    """Graph output names of a speech graph."""

    audio_features: str = "audio_features"


@dataclass(frozen=True, slots=True)
class Speech:
    """The ``speech`` section."""

    filename: FileName = ""
    config_filename: FileName = "audio_processor_config.json"
    adapter_filename: FileName | None = None
    session_options: Session | None = None
    run_options: Names | None = None
    inputs: SpeechInputs = field(default_factory=SpeechInputs)
    outputs: SpeechOutputs = field(default_factory=SpeechOutputs)


@dataclass(frozen=True, slots=True)
class JoinerInputs:
    """Graph input names of a transducer's joiner."""

    encoder_outputs: str = "encoder_outputs"
    decoder_outputs: str = "decoder_outputs"


@dataclass(frozen=True, slots=True)
class JoinerOutputs:
    """Graph output names of a transducer's joiner."""

    logits: str = "outputs"


@dataclass(frozen=True, slots=True)
class Joiner:
    """The ``joiner`` section."""

    filename: FileName = ""
    session_options: Session | None = None
    run_options: Names | None = None
    inputs: JoinerInputs = field(default_factory=JoinerInputs)
    outputs: JoinerOutputs = field(default_factory=JoinerOutputs)


@dataclass(frozen=True, slots=True)
class Vad:
    """The ``vad`` section: voice activity detection."""

    filename: FileName = ""
    threshold: float = 0.5
    silence_duration_ms: Size = 500
    prefix_padding_ms: Size = 300
    session_options: Session | None = None
    run_options: Names | None = None


@dataclass(frozen=True, slots=True)
class OutputGraph:
    """A graph that only has a file and session options."""

    filename: FileName = ""
    session_options: Session | None = None


@dataclass(frozen=True, slots=True)
class AudioOutput:
    """The ``audio_output`` section: speech made token by token from codebooks."""

    audio_start_token_id: int | None = None
    text_end_token_id: int | None = None
    num_codebooks: Size = 0
    codebook_size: Size = 0
    interleaved_n_text: Size = 0
    interleaved_n_audio: Size = 0
    depthformer: OutputGraph = field(default_factory=OutputGraph)
    embedding: OutputGraph = field(default_factory=OutputGraph)


@dataclass(frozen=True, slots=True)
class MoonshineNames:
    """Graph input and output names by role of one of moonshine's graphs; roles are not checked."""

    inputs: Names = field(default_factory=dict[str, str])
    outputs: Names = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Moonshine:
    """The ``moonshine`` section: streaming speech recognition in five graphs."""

    frontend_filename: FileName = ""
    encoder_filename: FileName = ""
    adapter_filename: FileName = ""
    cross_kv_filename: FileName = ""
    decoder_kv_filename: FileName = ""
    sample_buffer_size: float = 0
    conv1_buffer_size: float = 0
    conv2_buffer_size: float = 0
    total_lookahead: float = 0
    left_context_frames: float = 0
    min_segment_memory_frames: float = 0
    max_segment_memory_frames: float = 0
    max_seq_len: float = 0
    seconds_per_memory_frame: float = 0
    tokens_per_second: float = 0
    frontend: MoonshineNames = field(default_factory=MoonshineNames)
    encoder: MoonshineNames = field(default_factory=MoonshineNames)
    adapter: MoonshineNames = field(default_factory=MoonshineNames)
    cross_kv: MoonshineNames = field(default_factory=MoonshineNames)
    decoder_kv: MoonshineNames = field(default_factory=MoonshineNames)
