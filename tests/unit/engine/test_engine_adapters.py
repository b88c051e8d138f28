"""Requests with adapters on the scripted backend, which counts every token as another one under an adapter."""

import numpy as np
import pytest

from onnxgen.backends.adapters import Adapter
from onnxgen.backends.fake import FakeBackend
from onnxgen.engine.config import EngineConfig
from onnxgen.engine.core import EngineCore
from onnxgen.engine.request import EngineRequest
from onnxgen.errors import AdmissionError, OptionError, StateError
from onnxgen.scheduler.config import SchedulerConfig

PROMPT = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8]
NAMES = (None, "poet", "lawyer")


def backend_of(**options):
    backend = FakeBackend(max_context=64, block_size=4, **options)
    for name in NAMES[1:]:
        backend.adapters.load(Adapter(name, "", digest=name))
    return backend


def engine(backend, **budgets):
    config = EngineConfig(scheduler=SchedulerConfig(**budgets), cache_tokens=512)
    return EngineCore(backend, config, rope_switch_length=20)


def drive(core):
    found, cached = {}, []
    while core.has_work:
        for event in core.step():
            assert event.error is None
            found.setdefault((event.request_id, event.index), []).append(event.token_id)
            if event.finish_reason is not None:
                cached.append(event.usage.cached_tokens)
        core.check_integrity()
    return found, cached


def greedy(backend, adapter, count):
    tokens = list(PROMPT)
    for _ in range(count):
        tokens.append(int(np.argmax(backend.logits_after(tokens, adapter=adapter))))
    return tokens[len(PROMPT) :]


@pytest.mark.parametrize("applies", ["step", "sequence"])
def test_each_request_is_answered_with_its_own_and_shares_no_prefix_with_others(applies):
    backend = backend_of(adapters=applies)
    core = engine(backend, chunk_tokens=5)
    for expected in (0, len(PROMPT) - 1):
        numbers = {
            core.submit(EngineRequest(PROMPT, max_new_tokens=15, ignore_eos=True, adapter=name, n=2)): name
            for name in NAMES
        }
        found, cached = drive(core)
        assert cached == [expected] * 6
        for (number, _), tokens in found.items():
            assert tokens == greedy(backend, numbers[number], 15)
    mixed = any(len(set(step.adapters)) > 1 for step in backend.steps)
    assert mixed == (applies == "sequence")


def test_an_adapter_cannot_leave_while_somebody_uses_it():
    backend = backend_of()
    core = engine(backend)
    request = core.submit(EngineRequest(PROMPT, max_new_tokens=5, adapter="poet", n=2))
    core.cancel(request, index=0)
    core.step()
    with pytest.raises(StateError, match="in use by 1"):
        backend.adapters.unload("poet")
    drive(core)
    backend.adapters.unload("poet")
    with pytest.raises(OptionError, match="there is no adapter 'poet'; loaded: lawyer"):
        core.submit(EngineRequest(PROMPT, adapter="poet"))


def test_who_is_refused_or_dropped_uses_none():
    backend = backend_of()
    core = engine(backend)
    with pytest.raises(AdmissionError):
        core.submit(EngineRequest(PROMPT, max_new_tokens=5, adapter="poet", n=100))
    backend.adapters.unload("poet")
    core.submit(EngineRequest(PROMPT, adapter="lawyer"))
    core.step()
    core.close()
    backend.adapters.unload("lawyer")


def test_another_adapter_by_the_same_name_finds_nothing_of_the_first():
    backend = backend_of()
    core = engine(backend)
    core.submit(EngineRequest(PROMPT, max_new_tokens=2, adapter="poet"))
    drive(core)
    backend.adapters.unload("poet")
    backend.adapters.load(Adapter("poet", "", digest="another"))
    core.submit(EngineRequest(PROMPT, max_new_tokens=2, adapter="poet"))
    drive(core)
    assert core.stats().cache.hit_tokens == 0
