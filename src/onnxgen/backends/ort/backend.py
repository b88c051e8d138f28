"""The backend that runs models with ONNX Runtime."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from weakref import WeakSet

import onnxruntime as ort

from onnxgen.backends.adapters import Adapter
from onnxgen.backends.base import (
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
from onnxgen.backends.ort.adapted import AdaptedPlan, AdapterSessions
from onnxgen.backends.ort.batched import BatchedPlan
from onnxgen.backends.ort.dense import DensePlan
from onnxgen.backends.ort.embeddings import EmbeddingLookup
from onnxgen.backends.ort.model_file import read_content, read_embedding
from onnxgen.backends.ort.options import (
    CPU_PROVIDER,
    choose_providers,
    make_session_options,
    refuse_cache_type,
)
from onnxgen.backends.ort.packed import PackedPlan
from onnxgen.backends.ort.plan import LoadedDecoder, Plan
from onnxgen.backends.ort.plan_kind import PlanKind
from onnxgen.backends.ort.prepare import NOTHING, OpenTo, Prepared, prepare
from onnxgen.backends.ort.prepared_store import PreparedStore
from onnxgen.backends.ort.session import OrtSession
from onnxgen.backends.ort.slots import SlotCache
from onnxgen.errors import CapabilityError, StateError, StepError
from onnxgen.foundations.runtime_config import RuntimeConfig

_log = logging.getLogger(__name__)

_RAGGED_SINCE = (1, 32)
_PLANS = {PlanKind.PACKED: PackedPlan, PlanKind.BATCHED: BatchedPlan, PlanKind.DENSE: DensePlan}


class OrtBackend:
    """A decoder in an ONNX Runtime session.

    Safe to use from several threads: steps run one at a time.

    Args:
        model: The decoder.
        config: Threads, providers, memory limit.
        plan: How steps become calls; None takes the best way that the graph and the providers allow.

    Raises:
        ConfigError: A session option or a provider is wrong.
        ModelFileError: A file of the model is missing or broken.
        CapabilityError: The graph needs what this backend cannot do.
        BackendError: ONNX Runtime failed to load the graph.
    """

    def __init__(self, model: DecoderModel, config: RuntimeConfig, *, plan: PlanKind | None = None) -> None:
        refuse_cache_type(config)
        providers = choose_providers(model, config, ort.get_available_providers())
        on_cpu = [p.name for p in providers] == [CPU_PROVIDER]
        ragged_attention = on_cpu and _version() >= _RAGGED_SINCE

        def open_session(content: bytes, data_folder: Path) -> OrtSession:
            return OrtSession(
                content,
                path=model.path,
                data_folder=data_folder,
                options=make_session_options(model, config),
                providers=providers,
                run_options=model.run_options,
            )

        def load(open_to: OpenTo, kind: PlanKind | None) -> LoadedDecoder:
            prepared = _prepared(model, config, ragged_attention=ragged_attention, plan=kind, open_to=open_to)
            session = open_session(prepared.content, prepared.data_folder)
            return LoadedDecoder(
                session,
                prepared,
                vocab_size=model.vocab_size,
                max_context=model.context_length,
                switch_length=model.rope_switch_length,
                memory_limit_mb=config.memory_limit_mb,
            )

        loaded = load(NOTHING, plan)
        prepared = loaded.prepared
        for reason in prepared.declined:
            _log.debug("%s declines the plan %s", model.path, reason)
        make_plan = _PLANS[prepared.kind]
        self._plan: Plan | None = make_plan(loaded)
        self._sessions = AdapterSessions(
            model,
            plain=loaded,
            load=lambda open_to: load(open_to, prepared.kind),
            make_plan=make_plan,
        )
        self._look_up = EmbeddingLookup(prepared, lambda content: open_session(content, prepared.data_folder))
        self._adapters = LoadedAdapters[AdaptedPlan](self._bind, self._unbind)
        self._caches = WeakSet[KVCache]()
        self._required = prepared.ports.required
        self._capabilities = self._plan.capabilities
        self._vocab_size, self._num_ids = model.vocab_size, model.num_ids
        self._lock = threading.Lock()
        self.plan_kind = prepared.kind
        self.declined = prepared.declined
        self.providers = tuple(loaded.session.providers)

    @property
    def capabilities(self) -> Capabilities:
        """What callers may rely on."""
        return self._capabilities

    @property
    def vocab_size(self) -> int:
        """Width of the logits."""
        return self._vocab_size

    @property
    def adapters(self) -> LoadedAdapters[AdaptedPlan]:
        """The adapters that steps may name."""
        return self._adapters

    def create_cache(self, *, num_seqs: int, num_tokens: int, window_group: bool = False) -> KVCache:
        """Allocate room for ``num_seqs`` sequences of up to ``num_tokens`` tokens each.

        There is no group of windows, whether it is asked for or not: the graph keeps what it keeps.

        Raises:
            BackendError: The memory cannot be had; the message has both sizes.
            CapabilityError: ``num_tokens`` is more than the model's context.
            StateError: The backend was closed.
        """
        plan = self._loaded()
        if num_seqs < 1 or num_tokens < 1:
            raise StepError(f"a cache needs room, asked for {num_seqs} sequences of {num_tokens} tokens")
        if num_tokens > self._capabilities.max_context:
            raise CapabilityError(
                f"asked for sequences of {num_tokens} tokens; the model's context is "
                f"{self._capabilities.max_context}"
            )
        cache = plan.create_cache(num_seqs=num_seqs, num_tokens=num_tokens)
        with self._lock:  # adapters that go look at all caches
            self._caches.add(cache)
        return cache

    def execute(self, step: Step, cache: KVCache) -> StepOutput:
        """Run one step.

        Raises:
            StepError: The step breaks the contract. Nothing was changed.
            TokenIdError: A token id is outside the vocabulary. Nothing was changed.
            BackendError: ONNX Runtime failed. No position below any ``context_len`` was changed.
            StateError: The backend or the cache was closed.
        """
        with self._lock:
            plan = self._loaded()
            if getattr(cache, "owner", None) is not plan:
                raise StepError("the cache was made by another backend")
            runs = self._plan_of(step, plan) if step.adapters else plan
            repeated = None if runs is None else runs.repeat(step, cache)
            if repeated is not None:
                return repeated
            check_step(
                step,
                geometry=cache.geometry,
                capabilities=self._capabilities,
                vocab_size=self._num_ids,
                adapters=self._adapters,
            )
            assert runs is not None, "the check has found what is wrong with the adapters"
            if runs is plan and self._required:
                raise StepError(
                    f"missing input {self._required[0].name!r}: this model's graph has an input that nobody here knows; "
                    "give it a value with Generator.set_model_input"
                )
            return runs.execute(step, cache)

    def token_embeddings(self, token_ids: Int64Array) -> Float32Array:
        """What the first layer reads for tokens, float32 ``[n, width]``. See `GivesEmbeddings`."""
        if self._capabilities.embedding_size is None:
            raise CapabilityError(
                "this graph does not look tokens up in exactly one table: no row stands for a token"
            )
        with self._lock:
            self._loaded()
            check_ids(token_ids, self._num_ids)
            return self._look_up(token_ids)

    def close(self) -> None:
        """Release the session. Calling it twice is harmless."""
        with self._lock:
            self._plan = None
            self._adapters.clear()
            self._sessions.close()

    def _plan_of(self, step: Step, plain: Plan) -> Plan | None:
        """The plan of a step's only adapter; None where something is wrong with what the step names."""
        name = step.adapters[0]
        if len(step.adapters) != step.num_seqs or any(other != name for other in step.adapters):
            return None
        if name is None:
            return plain
        return self._adapters.bound(name).plan if name in self._adapters else None

    def _bind(self, adapter: Adapter) -> AdaptedPlan:
        self._loaded()
        return self._sessions.bind(adapter)

    def _unbind(self, adapted: AdaptedPlan) -> None:
        self._sessions.unbind(adapted)
        with self._lock:
            for cache in self._caches:  # bound calls hold sessions and matrices
                if isinstance(cache, SlotCache):
                    cache.calls.clear()

    def _loaded(self) -> Plan:
        if self._plan is None:
            raise StateError("this backend was closed; load the model again")
        return self._plan


def _prepared(
    model: DecoderModel,
    config: RuntimeConfig,
    *,
    ragged_attention: bool,
    plan: PlanKind | None,
    open_to: OpenTo,
) -> Prepared:
    """The graph to run, from the user's cache where it was made before."""
    content = read_content(model)
    store = PreparedStore(config.cache_dir / "graphs")
    key = store.key(model, content, ragged_attention, plan, open_to, embedding=read_embedding(model))
    prepared = None if key is None else store.load(key)
    if prepared is None:
        prepared = prepare(model, content, ragged_attention=ragged_attention, plan=plan, open_to=open_to)
        if key is not None:
            store.save(key, prepared)
    return prepared


def _version() -> tuple[int, int]:
    major, minor = ort.__version__.split(".")[:2]
    return int(major), int(minor)
