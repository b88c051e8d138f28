"""Which strategy search options ask for, and over which sequences."""

from __future__ import annotations

from collections.abc import Sequence

from onnxgen.backends.base import Backend, DecoderModel
from onnxgen.engine.batch import Batch
from onnxgen.engine.beams.options import ONNXRUNTIME_GENAI
from onnxgen.engine.beams.processing import BeamProcessing
from onnxgen.errors import CapabilityError, OptionError
from onnxgen.facade.model import Model
from onnxgen.facade.og_sampling import OgSampler
from onnxgen.facade.params import GeneratorParams, sampling_from_search
from onnxgen.facade.search.base import Search
from onnxgen.facade.search.beam_rows import BeamRows
from onnxgen.facade.search.guide import Guide
from onnxgen.facade.search.one_by_one import OneByOne
from onnxgen.facade.search.round_counts import RoundCounts
from onnxgen.facade.search.rounds.draft_model import DraftModel
from onnxgen.facade.search.rounds.ngrams import NGrams
from onnxgen.facade.search.rounds.proposals import Proposer
from onnxgen.facade.search.rounds.rounds import Rounds
from onnxgen.facade.search.row_search import RowSearch
from onnxgen.facade.search.source import TokenSource

_FIRST_TOKENS = 256
"""Tokens that a cache has room for at first, unless it is to have room for all."""


def open_batch(model: Model, params: GeneratorParams) -> Batch:
    """The sequences, in number and length as the options ask for.

    Raises:
        ContextLengthError: ``max_length`` is more than the model's context.
        OptionError: Options contradict each other.
        CapabilityError: Tokens cannot be guessed for so many sequences.
    """
    params.check_sampling()
    _check_speculation(model, params)
    search, beams = params.search, params.resolve_beams()
    num_rows = search.batch_size * (1 if beams is None else beams.num_beams)
    return _open_batch(model, params, model.backend, model.spec.decoder, num_rows=num_rows)


def open_search(batch: Batch, model: Model, params: GeneratorParams) -> Search:
    """The strategy over these sequences.

    Raises:
        OptionError: Options contradict each other.
        GrammarError: The grammar is refused.
        CapabilityError: There is no tokenizer that a grammar could be read with.
    """
    spec, search, beams = model.spec, params.search, params.resolve_beams()
    if beams is None:
        return RowSearch(batch, _open_source(batch, model, params), spec)
    if params.grammar is not None:
        raise OptionError(
            f"guidance was set together with num_beams={search.num_beams}; a grammar is followed by rows of their own, "
            "so set one of the two"
        )
    processing = BeamProcessing(
        sampling_from_search(search), ONNXRUNTIME_GENAI, vocab_size=spec.vocab_size, eos_ids=spec.tokens.eos
    )
    return BeamRows(batch, beams, processing, spec)


def _open_source(batch: Batch, model: Model, params: GeneratorParams) -> TokenSource:
    spec, search, options = model.spec, params.search, params.speculative
    eos_ids = spec.tokens.eos
    guides = _open_guides(model, params)
    sampler = OgSampler(search, eos_ids=eos_ids, knows_shares=model.draft is not None)
    if model.draft is None and not options.ngram_size:
        return OneByOne(batch, sampler, eos_ids=eos_ids, guides=guides)
    counts = RoundCounts()
    proposer: Proposer
    if model.draft is None:
        proposer = NGrams(
            options.ngram_size, chained=options.ngram_chained_lookup, eos_ids=eos_ids, counts=counts
        )
    else:
        own = _open_batch(model, params, model.draft, spec.draft or spec.decoder, num_rows=1)
        proposer = DraftModel(own, sampler, eos_ids=eos_ids, counts=counts)
    return Rounds(
        batch,
        sampler,
        guides[0] if guides else None,
        proposer,
        options=options,
        counts=counts,
        eos_ids=eos_ids,
        rope_switch_length=spec.decoder.rope_switch_length,
    )


def _open_guides(model: Model, params: GeneratorParams) -> Sequence[Guide]:
    if params.grammar is None:
        return ()
    grammar, rows = params.grammar, params.search.batch_size
    if rows > 1:
        grammar = grammar.with_fast_forward(False)  # rows keep step with each other
    compiled = model.grammars.compile(grammar)
    return [Guide(compiled.new_state(), vocab_size=model.spec.vocab_size) for _ in range(rows)]


def _open_batch(
    model: Model, params: GeneratorParams, backend: Backend, decoder: DecoderModel, *, num_rows: int
) -> Batch:
    search = params.search
    return Batch(
        backend,
        num_rows=num_rows,
        max_tokens=params.resolve_max_length(),
        chunk_tokens=search.chunk_size or model.runtime.prefill_chunk_tokens,
        rope_switch_length=decoder.rope_switch_length,
        first_tokens=None if search.past_present_share_buffer else _FIRST_TOKENS,
    )


def _check_speculation(model: Model, params: GeneratorParams) -> None:
    """Refuse what tokens cannot be guessed for."""
    options, search = params.speculative, params.search
    if options.ngram_chained_lookup and not options.ngram_size:
        raise OptionError(
            "ngram_chained_lookup=True requires ngram_size, which is 0 (off); set it to 2 to 16"
        )
    if options.ngram_size and model.draft is not None:
        raise OptionError(
            f"ngram_size={options.ngram_size} cannot be combined with draft-model speculation, which the 'draft' section "
            f"of {model.spec.source} asks for; set ngram_size=0"
        )
    if not options.ngram_size and model.draft is None:
        return
    what = "n-gram decoding" if options.ngram_size else "a draft model"
    for name, value, of in (
        ("batch_size", search.batch_size, "several rows"),
        ("num_return_sequences", search.num_return_sequences, "several results"),
        ("num_beams", search.num_beams, "beam search"),
    ):
        if value > 1:
            raise CapabilityError(
                f"{name}={value} was asked for together with {what}, which guesses tokens of one sequence and not of "
                f"{of}; set {name}=1"
            )
