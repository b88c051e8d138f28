"""Calls of what requests bring: whatever happens in there is the fault of single sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from onnxgen.engine.sampling.custom import (
    BatchLogitsProcessor,
    LogitsProcessor,
    Row,
    Rows,
    SampledRow,
    Sampler,
    TokenArray,
)
from onnxgen.engine.sampling.own_text import own_text
from onnxgen.errors import LogitsProcessorError


def call_processor(processor: LogitsProcessor, sequence: SampledRow, row: Row) -> None:
    """Let a processor change a row.

    Raises:
        LogitsProcessorError: It raised, or returned something.
    """
    try:
        returned: object = processor(_history(sequence), row)
    except Exception as cause:
        raise _raised("logits processor", processor, [sequence], cause) from cause
    _check_nothing(processor, returned)


def call_batch_processor(
    processor: BatchLogitsProcessor, sequences: Sequence[SampledRow], logits: Rows
) -> None:
    """Let a processor change some rows.

    Raises:
        LogitsProcessorError: It raised, or returned something.
    """
    try:
        returned: object = processor.process_rows([_history(sequence) for sequence in sequences], logits)
    except Exception as cause:
        raise _raised("logits processor", processor, sequences, cause) from cause
    _check_nothing(processor, returned)


def call_sampler(
    sampler: Sampler, sequences: Sequence[SampledRow], logits: Rows, *, num_tokens: int
) -> list[int]:
    """Let a sampler choose tokens of some rows.

    Args:
        sampler: Of all sequences.
        sequences: Whose rows they are.
        logits: float32 ``[rows, vocab]``; to be changed by the sampler as it likes.
        num_tokens: Ids below are tokens.

    Raises:
        LogitsProcessorError: It raised, or returned something else than a token for each row, none of them forbidden.
    """
    forbidden = np.isneginf(logits)
    try:
        returned: Any = sampler.choose_rows(logits, sequences)
        tokens: npt.NDArray[Any] = np.asarray(returned)
    except Exception as cause:
        raise _raised("sampler", sampler, sequences, cause) from cause
    if tokens.shape != (len(sequences),) or tokens.dtype.kind not in "iu":
        raise LogitsProcessorError(
            f"sampler {own_text(sampler)} returned {own_text(returned)}; it must return {len(sequences)} token ids, one "
            "for each row"
        )
    for row, token in enumerate(tokens.tolist()):
        if not 0 <= token < num_tokens:
            raise LogitsProcessorError(
                f"sampler {own_text(sampler)} chose {token}, which is outside [0, {num_tokens})"
            )
        if forbidden[row, token]:
            raise LogitsProcessorError(
                f"sampler {own_text(sampler)} chose {token}, which is forbidden: its logit is -inf"
            )
    return tokens.tolist()


def _history(sequence: SampledRow) -> TokenArray:
    history = sequence.history.view()
    history.flags.writeable = False
    return history


def _raised(
    kind: str, own: object, sequences: Sequence[SampledRow], cause: Exception
) -> LogitsProcessorError:
    after = ", ".join(str(sequence.num_tokens) for sequence in sequences)
    return LogitsProcessorError(
        f"{kind} {own_text(own)} raised {type(cause).__name__} after {after} tokens: {own_text(cause, str)}"
    )


def _check_nothing(processor: object, returned: object) -> None:
    if returned is not None:
        raise LogitsProcessorError(
            f"logits processor {own_text(processor)} returned {type(returned).__name__}; it must change what it is given in "
            "place and return None"
        )
