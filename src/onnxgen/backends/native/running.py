"""Runs steps: cuts them into passes and walks the table for each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnxgen.backends.base import DecoderModel, Float32Array, Step
from onnxgen.backends.native.adapter_table import AdapterTable
from onnxgen.backends.native.bind import Binding
from onnxgen.backends.native.bound_table import BoundTable
from onnxgen.backends.native.cache import NativeCache
from onnxgen.backends.native.contents import Span
from onnxgen.backends.native.passes import Pass, cut_step, embedding_pass, with_adapters
from onnxgen.backends.native.plan import StepPlan, View
from onnxgen.backends.native.prepared import Prepared
from onnxgen.backends.native.profiling import StepProfiler
from onnxgen.backends.native.weight_files import WeightFiles
from onnxgen.backends.native.weights import load_weights
from onnxgen.foundations.reused_arrays import ReusedArrays
from onnxgen.graph.cpu.step.crew import crew

MOST_TOKENS = 256
"""Tokens of a pass: enough to keep unpacked weights busy, few enough for activations to stay near."""


class StepRunner:
    """A bound plan with its weights.

    Args:
        prepared: The plan.
        model: Whose weights to load.
        context: The longest sequence.
        threads: How many work on a step.
        spinning: Whether they look for the next step for a while before they sleep.
        cache_bits: Of each number of keys and values, 16 or 8.

    Attributes:
        weights: Packed weights, which the tables with and without adapters share.
        adapters: What adapters add, and the table that adds it.
        profiler: Told what each kernel took; None measures nothing.

    Raises:
        ModelFileError: A file of weights is missing or too short.
    """

    def __init__(
        self,
        prepared: Prepared,
        model: DecoderModel,
        *,
        context: int,
        threads: int,
        spinning: bool = True,
        cache_bits: int = 16,
    ) -> None:
        self._plan, self._rotary = prepared.plan, prepared.rotary
        self._threads, self._spinning = threads, spinning
        files = WeightFiles(model.path.parent, str(model.path))
        try:
            self.weights = load_weights(prepared.plan, files, threads=threads)
        finally:
            files.close()

        def bind(plan: StepPlan) -> BoundTable:
            binding = Binding(
                plan,
                self.weights.packed,
                most_tokens=MOST_TOKENS,
                context=context,
                threads=threads,
                cache_bits=cache_bits,
            )
            return BoundTable(binding)

        self._plain = bind(prepared.plan)
        self.adapters = AdapterTable(prepared.plan, bind=bind)
        self._logits, self._hidden = ReusedArrays(), ReusedArrays()
        self.profiler: StepProfiler | None = None

    def run(
        self,
        step: Step,
        groups: Sequence[Sequence[Span]],
        cache: NativeCache,
        adapters: Sequence[int] = (),
    ) -> tuple[Float32Array, Float32Array | None]:
        """Run a checked step; returns the logits, and the hidden states if the plan has them, of the wanted rows.

        Args:
            step: The step.
            groups: Its sequences, for each group of blocks.
            cache: Where their keys and values are.
            adapters: Which of `adapters` each sequence has, -1 for none; empty: nobody has one.
        """
        wanted = step.logits_rows.size
        results: dict[str, tuple[View, np.ndarray]] = {}
        if step.want_logits:
            results["logits"] = (self._plan.logits, self._logits.take((wanted, self._plan.logits.width)))
        if self._plan.hidden_states is not None:
            width = self._plan.hidden_states.width
            results["hidden_states"] = (self._plan.hidden_states, self._hidden.take((wanted, width)))
        passes = cut_step(
            step,
            groups,
            most_tokens=MOST_TOKENS,
            block_size=cache.geometry.block_size,
            stored_size=cache.stored_size,
            rotary=self._rotary,
        )
        of_tokens = np.repeat(np.array(adapters, np.int32), step.query_lens) if adapters else None
        start = 0
        for own in passes:
            end = start + own.shape.tokens
            part = None if of_tokens is None else of_tokens[start:end]
            if part is None or (part < 0).all():
                self._run(self._plain, cache, own, results)
            else:
                self._run(self.adapters.table, cache, with_adapters(own, part), results)
            start = end
        logits, hidden = results.get("logits"), results.get("hidden_states")
        return (
            np.empty((0, self._plan.logits.width), np.float32) if logits is None else logits[1],
            None if hidden is None else hidden[1],
        )

    def embeddings(self, token_ids: np.ndarray) -> Float32Array:
        """The embeddings of checked ids int64 ``[n]``, float32 ``[n, width]``."""
        binding = self._plain.binding
        view, end = binding.embeddings, binding.embedded_row
        assert view is not None
        found = np.empty((token_ids.size, view.width), np.float32)
        for start in range(0, token_ids.size, MOST_TOKENS):
            own = embedding_pass(np.ascontiguousarray(token_ids[start : start + MOST_TOKENS], np.int64))
            builder, count = binding.builder, own.shape.tokens
            parts = builder.table.counts(own.shape)
            parts[end:] = 0
            crew().run(builder.table, parts, own.header, threads=self._threads, spinning=self._spinning)
            found[start : start + count] = builder.arena.floats(view, count)
        return found

    def _run(
        self, table: BoundTable, cache: NativeCache, own: Pass, results: dict[str, tuple[View, np.ndarray]]
    ) -> None:
        table.use(cache)
        builder, rows = table.binding.builder, own.shape.rows
        given = set(builder.arena.given.values())
        for name, (_, array) in results.items():
            if name in given:
                builder.give(name, array.ctypes.data + own.first_row * array.strides[0])
        parts, profiler = table.parts(own.shape, with_head="logits" in results), self.profiler
        times = None if profiler is None else np.zeros(len(parts), np.int64)
        crew().run(
            builder.table,
            parts,
            own.header,
            threads=self._threads,
            spinning=self._spinning,
            profile=times,
        )
        if profiler is not None and times is not None:
            profiler.add_pass(builder.table, parts, times)
        for name, (view, array) in results.items():
            if name not in given:
                array[own.first_row : own.first_row + rows] = builder.arena.floats(view, rows)
