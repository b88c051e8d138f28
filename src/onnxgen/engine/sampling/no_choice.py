"""Why a row has no token: the model's logits were broken, or what was done to them left nothing."""

from __future__ import annotations

import numpy as np

from onnxgen.engine.sampling.custom import Row, SampledRow
from onnxgen.engine.sampling.own_text import own_text
from onnxgen.errors import BackendError, LogitsProcessorError, OnnxgenError, OptionError


def no_choice(model_row: Row, row: Row, sequence: SampledRow) -> OnnxgenError:
    """The error of a row without a finite maximum.

    Args:
        model_row: The model's logits of all tokens, float32 ``[tokens]``.
        row: The same after all changes; only looked at where processors have made them, which change a copy.
        sequence: Whose they are.
    """
    if not np.isfinite(model_row.max()):
        return BackendError(
            f"the model returned {_best(model_row)} after {sequence.num_tokens} tokens; "
            "it is numerically broken on this backend"
        )
    if sequence.mask is not None:
        allowed = int.from_bytes(sequence.mask.tobytes(), "little").bit_count()
        return OptionError(
            f"no token can be chosen after {sequence.num_tokens} tokens: the grammar lets {allowed} follow there, and "
            "logit_bias or a logits processor forbids them all"
        )
    if sequence.processors:
        return LogitsProcessorError(
            f"{_best(row)} after {sequence.num_tokens} tokens; a logits processor left no token to choose, or wrote "
            f"NaN or infinity: {own_text(sequence.processors)}"
        )
    return OptionError(
        f"no token can be chosen after {sequence.num_tokens} tokens, though the model's own logits are fine: "
        "logit_bias forbids every token, or a penalty is too large"
    )


def _best(row: Row) -> str:
    token = int(row.argmax())  # the first maximum, or the first NaN
    return f"{row[token]} as the best logit (token {token})"
