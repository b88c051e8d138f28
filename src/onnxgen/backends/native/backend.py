"""The backend that runs decoders with this project's own kernels."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from onnxgen.backends.adapters import Adapter
from onnxgen.backends.base import (
    EMBEDS_ROWS,
    INPUTS_EMBEDS,
    Capabilities,
    DecoderModel,
    Float32Array,
    Int64Array,
    KVCache,
    Step,
    StepOutput,
)
from onnxgen.backends.check import check_ids, check_step
from onnxgen.backends.loaded_adapters import LoadedAdapters
from onnxgen.backends.native.adapter_table import NativeAdapter
from onnxgen.backends.native.cache import NativeCache
from onnxgen.backends.native.contents import spans_of
from onnxgen.backends.native.prepared import Prepared, prepare
from onnxgen.backends.native.profiling import StepProfiler
from onnxgen.backends.native.running import StepRunner
from onnxgen.backends.native.windows import layer_windows
from onnxgen.backends.native.wishes import cache_bits, refuse_wishes, thread_count
from onnxgen.backends.profile import StepProfile
from onnxgen.errors import BackendError, CapabilityError, OnnxgenError, StateError, StepError
from onnxgen.foundations.after_fork import in_forked_children
from onnxgen.foundations.cpuinfo import default_threads
from onnxgen.foundations.runtime_config import RuntimeConfig

_log = logging.getLogger(__name__)

BLOCK_SIZE = 64
"""Long enough for keys and values to be read in long pieces, which is worth a quarter of the time at long contexts."""


class NativeBackend:
    """A decoder as a table of kernel calls.

    Safe to use from several threads: steps run one at a time.

    Args:
        model: The decoder.
        config: Threads, memory limit, what keys and values are kept as, and where plans are kept.
        block_size: Token positions of a cache block, a multiple of 16.

    Raises:
        ConfigError: An option asks for what only another backend has.
        ModelFileError: A file of the model is missing or broken.
        CapabilityError: The graph needs what this backend cannot do; the message has every node, and why.
    """

    def __init__(self, model: DecoderModel, config: RuntimeConfig, *, block_size: int = BLOCK_SIZE) -> None:
        refuse_wishes(model, config)
        self._cache_bits = cache_bits(config)
        prepared = prepare(model, config)
        self._threads = thread_count(model, config, default_threads())
        self._limit_mb, self._block_size = config.memory_limit_mb, block_size
        self._switch_length = model.rope_switch_length
        self._layers = prepared.plan.caches
        self._vocab_size, self._num_ids = model.vocab_size, model.num_ids
        longest = min(model.context_length, prepared.plan.positions or model.context_length)
        self._windows = layer_windows(prepared.plan, context=longest)
        embeddings = prepared.plan.embeddings
        self._capabilities = Capabilities(
            ragged=True,
            paged=True,
            rewind=True,
            copy_blocks=True,
            hidden_states=prepared.plan.hidden_states is not None,
            max_context=longest,
            batch_invariant=True,
            adapters="sequence",
            window=max((window for window in self._windows if window is not None), default=None),
            inputs=frozenset(prepared.plan.row_widths)
            | (frozenset() if embeddings is None else frozenset({INPUTS_EMBEDS, EMBEDS_ROWS})),
            embedding_size=None if embeddings is None else embeddings.width,
            row_widths=prepared.plan.row_widths,
        )
        self._runner: StepRunner | None = _runner(
            prepared,
            model,
            context=longest,
            threads=self._threads,
            spinning=config.spinning,
            cache_bits=self._cache_bits,
        )
        self._lock = threading.Lock()
        self._adapters = LoadedAdapters[NativeAdapter](self._bind, self._unbind)
        in_forked_children(self, NativeBackend._renew_lock)
        self.plan = prepared.plan

    @property
    def capabilities(self) -> Capabilities:
        """What callers may rely on."""
        return self._capabilities

    @property
    def vocab_size(self) -> int:
        """Width of the logits."""
        return self._vocab_size

    @property
    def adapters(self) -> LoadedAdapters[NativeAdapter]:
        """The adapters that steps may name."""
        return self._adapters

    def create_cache(self, *, num_seqs: int, num_tokens: int, window_group: bool = False) -> NativeCache:
        """Allocate room for ``num_seqs`` sequences of up to ``num_tokens`` tokens each.

        With ``window_group``, layers that see a window have blocks of their own.

        Raises:
            BackendError: The memory cannot be had; the message has both sizes.
            CapabilityError: ``num_tokens`` is more than the model's context.
            StateError: The backend was closed.
        """
        self._loaded()
        if num_seqs < 1 or num_tokens < 1:
            raise StepError(f"a cache needs room, asked for {num_seqs} sequences of {num_tokens} tokens")
        if num_tokens > self._capabilities.max_context:
            raise CapabilityError(
                f"asked for sequences of {num_tokens} tokens; the model's context is "
                f"{self._capabilities.max_context}"
            )
        return NativeCache(
            self._layers,
            windows=self._windows if window_group else None,
            bits=self._cache_bits,
            num_seqs=num_seqs,
            num_tokens=num_tokens,
            block_size=self._block_size,
            switch_length=self._switch_length,
            limit_mb=self._limit_mb,
            owner=self,
        )

    def execute(self, step: Step, cache: KVCache) -> StepOutput:
        """Run one step.

        Raises:
            StepError: The step breaks the contract. Nothing was changed.
            TokenIdError: A token id is outside the vocabulary. Nothing was changed.
            BackendError: A kernel failed. No position below any ``context_len`` was changed.
            StateError: The backend or the cache was closed.
        """
        with self._lock:
            started = time.perf_counter()
            runner = self._loaded()
            if not isinstance(cache, NativeCache) or cache.owner is not self:
                raise StepError("the cache was made by another backend")
            cache.layers  # noqa: B018 - a closed cache says so before anything else
            check_step(
                step,
                geometry=cache.geometry,
                capabilities=self._capabilities,
                vocab_size=self._num_ids,
                adapters=self._adapters,
            )
            numbers = [-1 if name is None else self._adapters.bound(name).number for name in step.adapters]
            groups = spans_of(step, window=self._capabilities.window)
            cache.check(groups, step.copies)
            cache.begin(groups, step.copies)
            try:
                logits, hidden = runner.run(step, groups, cache, numbers)
            except OnnxgenError:
                raise
            except Exception as cause:
                raise BackendError(f"a step of {step.num_tokens} tokens failed: {cause}") from cause
            cache.end(groups)
            if runner.profiler is not None:
                runner.profiler.add_step(time.perf_counter() - started)
            return StepOutput(logits, hidden if step.want_hidden_states else None)

    def token_embeddings(self, token_ids: Int64Array) -> Float32Array:
        """What the first layer reads for tokens, float32 ``[n, width]``. See `GivesEmbeddings`."""
        if self._capabilities.embedding_size is None:
            raise CapabilityError("this graph looks tokens up in several places: no row stands for a token")
        with self._lock:
            runner = self._loaded()
            check_ids(token_ids, self._num_ids)
            return runner.embeddings(token_ids)

    def profile(self, run: Callable[[], object]) -> StepProfile:
        """Call ``run``, which executes steps, and say where their time went; see `ProfiledBackend`.

        Raises:
            StateError: The backend was closed.
        """
        runner, profiler = self._loaded(), StepProfiler()
        runner.profiler = profiler
        try:
            run()
        finally:
            runner.profiler = None
        return profiler.result()

    def close(self) -> None:
        """Release the model. Calling it twice is harmless."""
        with self._lock:
            self._runner = None
            self._adapters.clear()

    def _bind(self, adapter: Adapter) -> NativeAdapter:
        table = self._loaded().adapters
        packed = table.pack(adapter)
        with self._lock:  # not while a step reads the table
            return table.add(packed)

    def _unbind(self, adapter: NativeAdapter) -> None:
        with self._lock:
            self._loaded().adapters.remove(adapter)

    def _renew_lock(self) -> None:
        self._lock = threading.Lock()

    def _loaded(self) -> StepRunner:
        if self._runner is None:
            raise StateError("this backend was closed; load the model again")
        return self._runner


def _runner(
    prepared: Prepared, model: DecoderModel, *, context: int, threads: int, spinning: bool, cache_bits: int
) -> StepRunner:
    try:
        return StepRunner(
            prepared, model, context=context, threads=threads, spinning=spinning, cache_bits=cache_bits
        )
    except MemoryError as cause:
        raise BackendError(f"the weights of {model.path} do not fit into memory") from cause
