"""Proposers and steps that fail while drafts are about: every request gets the answer it gets without."""

import random

import pytest

from list_grammars import ListCompiler, lists
from onnxgen.backends.fake import FakeBackend
from onnxgen.engine.config import EngineConfig
from onnxgen.engine.core import EngineCore
from onnxgen.engine.request import EngineRequest
from onnxgen.engine.sampling.options import SamplingOptions
from onnxgen.engine.speculation import asking
from onnxgen.engine.speculation.base import Draft
from onnxgen.engine.speculation.options import Speculation

VOCAB, EOS = 64, 1
ANSWERS = [(10, 11, 12, 13, 12, 13, 12, 13), (10, 11, 14, 10, 11, 14), (20, 21)]
FAILING = [26 * turn + turn % 4 for turn in range(20)]  # far apart: what fails again alone ends a request


class Mishaps:
    """Proposes what may be right, what is wrong, and what is no draft; or raises."""

    name, needs_hidden_states = "mishaps", False

    def __init__(self, chance):
        self._chance = chance

    def propose(self, wanted):
        match self._chance.randrange(5):
            case 0:
                raise RuntimeError("out of ideas")
            case 1:
                return [Draft((0.5, 3)) for _ in wanted]
            case 2:
                return []
            case _:
                return [Draft(tuple(self._chance.choices([10, 11, 12, 13, 14, 20, 21], k=4))) for _ in wanted]

    def forget(self, key):
        if self._chance.random() < 0.2:
            raise ValueError(f"{key} is not known")

    def close(self):
        pass


def some_requests(chance):
    for number in range(chance.randint(3, 7)):
        yield EngineRequest(
            [chance.randrange(2, VOCAB) for _ in range(chance.randint(1, 20))],
            max_new_tokens=chance.randint(1, 30),
            grammar=lists(*ANSWERS, fast_forward=chance.random() < 0.5) if number % 2 else None,
            sampling=SamplingOptions(temperature=0.0, seed=number),
        )


def answers(requests, *, method="off", proposer=None, fail_steps=(), cache_tokens=1600, block_size=4):
    backend = FakeBackend(
        VOCAB, max_context=64, eos_token_id=EOS, block_size=block_size, fail_steps=fail_steps
    )
    core = EngineCore(
        backend,
        EngineConfig(
            cache_tokens=cache_tokens,
            max_seq_tokens=64,
            speculation=Speculation(method, max_draft_tokens=6, adaptive=False),
        ),
        eos_ids=[EOS],
        grammars=ListCompiler(VOCAB, (EOS,)),
        proposers={} if proposer is None else {method: proposer},
    )
    numbers = [core.submit(request) for request in requests]
    found = {number: ([], []) for number in numbers}
    while core.has_work:
        for event in core.step():
            tokens, ends = found[event.request_id]
            if event.token_id is not None and not event.is_eos:
                tokens.append(event.token_id)
            if event.finish_reason is not None:
                ends.append(event.finish_reason)
        core.check_integrity()
    return list(found.values()), core.stats()


@pytest.mark.parametrize("block_size", [None, 4])
@pytest.mark.parametrize("cache_tokens", [132, 1600])
def test_mishaps_cost_nobody_anything(monkeypatch, block_size, cache_tokens):
    monkeypatch.setattr(asking, "_MOST_FAILURES", 10**9)
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    failed = failures = rounds = 0
    for _ in range(10):
        requests = list(some_requests(chance))
        expected, _ = answers(requests)
        found, stats = answers(
            requests,
            method="prompt_lookup",
            proposer=Mishaps(chance),
            fail_steps=FAILING,
            cache_tokens=cache_tokens,
            block_size=block_size,
        )
        assert found == expected
        failed += stats.failed_steps
        failures += stats.speculation.total.failures
        rounds += stats.speculation.total.rounds
    assert failed and failures and rounds
