"""`ModelSpec`: what a model folder means, in one frozen value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from onnxgen.backends.base import DecoderModel
from onnxgen.metadata.genai_config_run import Speculative


@dataclass(frozen=True, slots=True)
class SpecialTokens:
    """Token ids with a meaning; None where the model has none.

    Attributes:
        bos: Begin of sequence.
        eos: Every id that ends an answer, in order of the folder's own list.
        pad: Padding.
        begin_tool_call: Opens a tool call (``bot_token_id``).
        end_tool_call: Closes a tool call (``eot_token_id``).
        begin_reasoning: Opens a reasoning span (``bor_token_id``).
        end_reasoning: Closes a reasoning span (``eor_token_id``).
    """

    bos: int | None
    eos: tuple[int, ...]
    pad: int | None
    begin_tool_call: int | None = None
    end_tool_call: int | None = None
    begin_reasoning: int | None = None
    end_reasoning: int | None = None


@dataclass(frozen=True, slots=True)
class SearchDefaults:
    """The folder's ``search`` section, with onnxruntime-genai's defaults."""

    batch_size: int = 1
    chunk_size: int | None = None
    diversity_penalty: float = 0.0
    do_sample: bool = False
    early_stopping: bool = True
    length_penalty: float = 1.0
    max_length: int = 0
    min_length: int = 0
    no_repeat_ngram_size: int = 0
    num_beams: int = 1
    num_return_sequences: int = 1
    past_present_share_buffer: bool = False
    random_seed: int = -1
    repetition_penalty: float = 1.0
    temperature: float = 1.0
    top_k: int = 50
    top_p: float = 0.0


@dataclass(frozen=True, slots=True)
class HeadSpec:
    """A head of the model's own, which guesses tokens from what the decoder makes of those before.

    It computes a token's row from the token and from hidden states of the one before it: the decoder's where that is known,
    the head's own where it is a guess.

    Attributes:
        name: The section that declares it.
        decoder: What a backend needs to load its graph. ``inputs`` has the role ``hidden_states``.
        target_outputs: Outputs of the decoder's graph that it reads, side by side.
        reads_aux: They go to its input ``aux_hidden_states``, and its own to ``hidden_states``; False: all to the latter.
        target_ids: The model's token id for each of its logits; None: they are the same ids.
        max_draft_tokens: The most tokens that it is made to guess in a row; None: any number.
    """

    name: str
    decoder: DecoderModel
    target_outputs: tuple[str, ...]
    reads_aux: bool = False
    target_ids: tuple[int, ...] | None = None
    max_draft_tokens: int | None = None

    def target(self, decoder: DecoderModel) -> DecoderModel:
        """The model's decoder, made to give the hidden states that this head reads."""
        return replace(decoder, hidden_outputs=self.target_outputs)


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """What a model folder means.

    Attributes:
        folder: The model folder.
        model_type: ``model.type`` of the folder, for people; no code decides by it.
        decoder: What a backend needs to load the decoder.
        context_length: The longest sequence, prompt and answer together, in tokens.
        vocab_size: Width of the logits.
        tokens: Special token ids.
        search: Default search options.
        draft: A smaller decoder of the same vocabulary, whose tokens the decoder only checks; None: there is none.
        head: A head of the model's own that guesses tokens; None: there is none. Needs its ``target`` to be loaded.
        speculative: How tokens are guessed ahead, where nobody says otherwise.
        tokenizer_dir: Folder with the tokenizer files.
        senses: What it takes besides text, of ``image`` and ``audio``; graphs for that are not run yet, so nothing.
        required_capabilities: Names of capabilities without which the model cannot run.
        source: The file that said all this.
        raw: The parsed document, for tools that show it.
    """

    folder: Path
    model_type: str
    decoder: DecoderModel
    context_length: int
    vocab_size: int
    tokens: SpecialTokens
    search: SearchDefaults
    tokenizer_dir: Path
    source: Path
    draft: DecoderModel | None = None
    head: HeadSpec | None = None
    speculative: Speculative = field(default_factory=Speculative)
    senses: tuple[str, ...] = ()
    required_capabilities: tuple[str, ...] = ()
    raw: Mapping[str, Any] = field(default_factory=dict[str, Any])
