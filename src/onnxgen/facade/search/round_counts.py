"""`RoundCounts`: what guessing ahead did, and what onnxruntime-genai's ``get_speculative_stats`` makes of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace

_HISTOGRAM = 8


@dataclass(slots=True)
class RoundCounts:
    """Counts and milliseconds since a generator was made; names are those of the report.

    Attributes:
        accepted_lengths: Completed rounds by how many guesses were accepted.
        formula_widths: Rounds without a grammar by how many tokens were guessed: those that the formula is about.
    """

    rounds: int = 0
    completed_rounds: int = 0
    interrupted_rounds: int = 0
    draft_tokens_proposed: int = 0
    draft_tokens_evaluated: int = 0
    draft_tokens_accepted: int = 0
    correction_tokens: int = 0
    bonus_tokens: int = 0
    tokens_queued: int = 0
    tokens_emitted: int = 0
    tokens_discarded: int = 0
    draft_forward_passes: int = 0
    adaptive_k_increases: int = 0
    adaptive_k_decreases: int = 0
    adaptive_k_observations: int = 0
    adaptive_k_probes: int = 0
    cooldown_entries: int = 0
    cooldown_steps: int = 0
    standard_fallback_steps: int = 0
    full_accept_rounds: int = 0
    partial_accept_rounds: int = 0
    zero_accept_rounds: int = 0
    target_verify_forward_passes: int = 0
    target_reanchor_forward_passes: int = 0
    target_reconciliation_forward_passes: int = 0
    ngram_lookup_hits: int = 0
    ngram_lookup_misses: int = 0
    ngram_lookup_tokens_proposed: int = 0
    ngram_chained_tokens_proposed: int = 0
    ngram_grammar_candidate_rejections: int = 0
    ngram_history_syncs: int = 0
    ngram_history_tokens_synced: int = 0
    mtp_failures: int = 0
    dflash2_failures: int = 0
    dflash2_disables: int = 0
    dflash2_admission_misses: int = 0
    total_draft_ms: float = 0.0
    total_reconciliation_ms: float = 0.0
    total_target_verify_ms: float = 0.0
    total_target_reanchor_ms: float = 0.0
    total_ngram_history_sync_ms: float = 0.0
    total_ngram_lookup_ms: float = 0.0
    accepted_lengths: Counter[int] = field(default_factory=Counter[int])
    formula_widths: Counter[int] = field(default_factory=Counter[int])

    def copy(self) -> RoundCounts:
        """Other counts that begin where these are."""
        return replace(
            self, accepted_lengths=self.accepted_lengths.copy(), formula_widths=self.formula_widths.copy()
        )

    def report(
        self, *, buffered: int = 0, width: int = 0, cooldown_remaining: int = 0, throughput: float = 0.0
    ) -> Mapping[str, int | float | bool | list[int]]:
        """All counts, and what follows from them (docs/SpeculativeDecoding.md of onnxruntime-genai has the formulas).

        Args:
            buffered: Tokens that wait to be handed out.
            width: How many tokens are guessed now.
            cooldown_remaining: Plain steps that are still to be done.
            throughput: Tokens per millisecond that the width is judged by.
        """
        counted = {f.name: getattr(self, f.name) for f in fields(self) if f.type in ("int", "float")}
        passes = (
            self.target_verify_forward_passes
            + self.target_reanchor_forward_passes
            + self.target_reconciliation_forward_passes
        )
        now = {
            "active_rounds": int(buffered > 0),
            "tokens_buffered": buffered,
            "target_forward_passes": passes,
            "effective_k": width,
            "cooldown_remaining": cooldown_remaining,
            "adaptive_k_throughput": throughput,
            "acceptance_length_histogram": self._histogram(),
        }
        return counted | now | self._rates()

    def _rates(self) -> dict[str, int | float | bool]:
        accepted = _ratio(self.draft_tokens_accepted, self.draft_tokens_evaluated)
        target_ms = self.total_target_verify_ms + self.total_target_reanchor_ms
        supported = 0 < self.rounds == self.formula_widths.total()
        baseline = _ratio(self.total_target_reanchor_ms, self.target_reanchor_forward_passes)
        rates = {
            "formula_supported": supported,
            "total_target_ms": target_ms,
            "acceptance_rate": accepted,
            "avg_draft_ms_per_token": _ratio(self.total_draft_ms, self.draft_tokens_proposed),
            "avg_draft_tokens_per_round": _ratio(self.draft_tokens_proposed, self.rounds),
            "mean_emitted_tokens_per_round": _ratio(self.tokens_emitted, self.rounds),
            "avg_target_ms_per_round": _ratio(target_ms, self.rounds),
            "expected_tokens_per_round": self._expected(accepted) if supported else 0.0,
            "target_baseline_ms_per_token": baseline,
            "target_overhead_ratio": 0.0,
            "estimated_speedup": 0.0,
            "observed_speedup": 0.0,
        }
        if supported and baseline:
            overhead = rates["avg_target_ms_per_round"] / baseline - 1
            drafting = rates["avg_draft_tokens_per_round"] * rates["avg_draft_ms_per_token"] / baseline
            cost = 1 + drafting + overhead
            rates["target_overhead_ratio"] = overhead
            rates["estimated_speedup"] = _ratio(rates["expected_tokens_per_round"], cost)
            rates["observed_speedup"] = _ratio(rates["mean_emitted_tokens_per_round"], cost)
        return rates

    def _expected(self, accepted: float) -> float:
        """Tokens of a round, if every guess is right with the same probability: 1 + a + a**2 + ... + a**width."""
        if not self.draft_tokens_evaluated:
            return 0.0
        widths = self.formula_widths
        total = sum(rounds * sum(accepted**i for i in range(width + 1)) for width, rounds in widths.items())
        return total / widths.total()

    def _histogram(self) -> list[int]:
        """Completed rounds in which 0, 1, ... guesses were accepted; the last place is for all longer ones."""
        bins = [0] * _HISTOGRAM
        for length, rounds in self.accepted_lengths.items():
            bins[min(length, _HISTOGRAM - 1)] += rounds
        return bins


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0
