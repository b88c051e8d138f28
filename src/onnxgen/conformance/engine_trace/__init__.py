"""Replays what an engine wrote down of its run and reports every promise that it broke.

Knows the format of `onnxgen.engine.trace`; shares no code with the engine, the scheduler or the cache manager.
"""

from __future__ import annotations

from onnxgen.conformance.engine_trace.model import RULES, Rule, Violation
from onnxgen.conformance.engine_trace.reader import STARVED_STEPS, TraceReport, check_trace

__all__ = ["RULES", "STARVED_STEPS", "Rule", "TraceReport", "Violation", "check_trace"]
