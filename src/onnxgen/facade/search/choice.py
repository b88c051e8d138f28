"""Which strategy search options ask for, and over which sequences."""

from __future__ import annotations

from onnxgen.engine.batch import Batch
from onnxgen.engine.beams.options import ONNXRUNTIME_GENAI
from onnxgen.engine.beams.processing import BeamProcessing
from onnxgen.facade.model import Model
from onnxgen.facade.og_sampling import OgSampler
from onnxgen.facade.params import GeneratorParams, sampling_from_search
from onnxgen.facade.search.base import Search
from onnxgen.facade.search.beam_rows import BeamRows
from onnxgen.facade.search.row_search import RowSearch

_FIRST_TOKENS = 256
"""Tokens that a cache has room for at first, unless it is to have room for all."""


def open_batch(model: Model, params: GeneratorParams) -> Batch:
    """The sequences, in number and length as the options ask for.

    Raises:
        ContextLengthError: ``max_length`` is more than the model's context.
        OptionError: Options contradict each other.
    """
    params.check_sampling()
    spec, search, beams = model.spec, params.search, params.resolve_beams()
    return Batch(
        model.backend,
        num_rows=search.batch_size * (1 if beams is None else beams.num_beams),
        max_tokens=params.resolve_max_length(),
        chunk_tokens=search.chunk_size or model.runtime.prefill_chunk_tokens,
        rope_switch_length=spec.decoder.rope_switch_length,
        first_tokens=None if search.past_present_share_buffer else _FIRST_TOKENS,
    )


def open_search(batch: Batch, model: Model, params: GeneratorParams) -> Search:
    """The strategy over these sequences."""
    spec, search, beams = model.spec, params.search, params.resolve_beams()
    if beams is None:
        return RowSearch(batch, OgSampler(search, eos_ids=spec.tokens.eos), spec)
    processing = BeamProcessing(
        sampling_from_search(search), ONNXRUNTIME_GENAI, vocab_size=spec.vocab_size, eos_ids=spec.tokens.eos
    )
    return BeamRows(batch, beams, processing, spec)
