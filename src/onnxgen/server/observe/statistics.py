"""`statistics_line`: what an engine does, in one line for people."""

from __future__ import annotations

from onnxgen.server.observe.engine_numbers import EngineNumbers, EngineRates


def statistics_line(model: str, now: EngineNumbers, rates: EngineRates | None) -> str:
    """One line; what there was nothing of is not in it.

    Args:
        model: The served id.
        now: The engine's last numbers.
        rates: What it did since the last line; None: not known.
    """
    stats = now.stats
    parts = [f"{stats.running} running, {stats.waiting} waiting"]
    if rates is not None:
        parts.append(f"prompts {rates.prompt_tok_s:.1f} tok/s, answers {rates.answer_tok_s:.1f} tok/s")
    parts.append(f"KV {now.kv_usage:.1%}")
    if rates is not None:
        if rates.prefix_hit_rate is not None:
            parts.append(f"prefix hits {rates.prefix_hit_rate:.1%}")
        if rates.accepted_rate is not None:
            parts.append(f"drafts accepted {rates.accepted_rate:.1%}")
        if rates.preemptions:
            parts.append(f"{rates.preemptions} preemptions")
    return f"{model}: " + ", ".join(parts)
