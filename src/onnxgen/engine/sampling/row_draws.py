"""What a sequence's options say to the kernel that draws, and what Mirostat remembers of its answer."""

from __future__ import annotations

from onnxgen.engine.sampling.custom import SampledRow
from onnxgen.graph.cpu.draws import Draw

_MOST_BITS = 1000.0
"""Bounds beyond this keep no other tokens, and powers of two of them overflow."""


def draw_of(row: SampledRow) -> Draw:
    """How the kernel chooses a sequence's next token."""
    options = row.options
    assert options.seed is not None
    return Draw(
        options.temperature,
        options.top_k,
        options.top_p,
        options.seed,
        options.stream,
        row.num_tokens,
        options.top_n_sigma,
        options.typical_p,
        options.min_p,
        options.top_a,
        options.xtc_probability,
        options.xtc_threshold,
        options.mirostat,
        _mu(row) if options.mirostat else 0.0,
    )


def note_surprise(row: SampledRow, surprise: float) -> None:
    """Let Mirostat learn from what was drawn (https://arxiv.org/abs/2007.14966, line 10 of algorithm 1).

    Args:
        row: The sequence, still without the token.
        surprise: Of the token, in bits.
    """
    options = row.options
    mu = _mu(row) - options.mirostat_eta * (surprise - options.mirostat_tau)
    row.row_state.note_mu(row.num_tokens + 1, min(max(mu, -_MOST_BITS), _MOST_BITS))


def _mu(row: SampledRow) -> float:
    return row.row_state.mu(row.num_tokens, first=2 * row.options.mirostat_tau)
