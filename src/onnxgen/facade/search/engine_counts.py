"""What an engine counts of guesses, under the names of onnxruntime-genai's ``get_speculative_stats``."""

from __future__ import annotations

from collections.abc import Mapping

from onnxgen.engine.speculation.stats import MethodStats, SpeculationStats
from onnxgen.facade.search.round_counts import RoundCounts


def speculative_report(stats: SpeculationStats) -> Mapping[str, int | float | bool | list[int]]:
    """All counts, and what follows from them; see `RoundCounts.report`."""
    total, lookups = stats.total, stats.by_method.get("prompt_lookup", MethodStats())
    heads = stats.by_method.get("heads", MethodStats())
    counts = RoundCounts(
        rounds=total.rounds,
        completed_rounds=total.rounds,
        draft_tokens_proposed=total.proposed_tokens,
        draft_tokens_evaluated=total.verified_tokens,
        draft_tokens_accepted=total.accepted_tokens,
        correction_tokens=total.rounds - total.fully_accepted,
        bonus_tokens=total.fully_accepted,
        tokens_queued=total.accepted_tokens + total.rounds,
        tokens_emitted=total.accepted_tokens + total.rounds,
        full_accept_rounds=total.fully_accepted,
        partial_accept_rounds=total.rounds - total.fully_accepted - total.not_accepted,
        zero_accept_rounds=total.not_accepted,
        target_verify_forward_passes=stats.verify_steps,
        ngram_lookup_hits=lookups.rounds,
        ngram_lookup_tokens_proposed=lookups.proposed_tokens,
        mtp_failures=heads.failures,
        cooldown_entries=stats.switched_off,
        total_draft_ms=1e3 * total.draft_s,
        total_target_verify_ms=1e3 * stats.verify_s,
        total_ngram_lookup_ms=1e3 * lookups.draft_s,
    )
    return counts.report()
