"""Requests whose prompts are embeddings, in a crowd."""

from __future__ import annotations

import secrets
from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from onnxgen.backends.fake import FakeBackend
from onnxgen.engine.config import EngineConfig
from onnxgen.engine.core import EngineCore
from onnxgen.engine.request import EngineRequest
from onnxgen.errors import CapabilityError, OptionError
from onnxgen.scheduler.config import SchedulerConfig

VOCAB, WIDTH, CONTEXT = 23, 4, 64
SEED = secrets.randbits(32)


def answers(core: EngineCore, requests: list[EngineRequest]) -> list[list[int]]:
    ids = [core.submit(request) for request in requests]
    found: dict[int, list[int]] = defaultdict(list)
    ended = 0
    for _ in range(2000):
        for event in core.step():
            assert event.error is None
            if event.token_id is not None:
                found[event.request_id].append(event.token_id)
            ended += event.finish_reason is not None
        if ended == len(ids):
            return [found[i] for i in ids]
    raise AssertionError("the engine does not end")


def greedy(backend: FakeBackend, prompt: list[int], count: int) -> list[int]:
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(int(backend.logits_after(tokens).argmax()))
    return tokens[len(prompt) :]


@pytest.mark.parametrize("form", [{"block_size": 4}, {}, {"rewind": False}], ids=str)
def test_embeddings_of_ids_give_the_answers_of_ids(form: dict[str, Any]) -> None:
    """With preemption, chunks and shared prefixes: ids below embeddings are all alike, the embeddings are not."""
    print(f"seed {SEED}")
    rng = np.random.default_rng(SEED)
    backend = FakeBackend(VOCAB, hidden_size=WIDTH, max_context=CONTEXT, **form)
    config = EngineConfig(
        cache_tokens=96 if "block_size" in form else 4 * CONTEXT,
        scheduler=SchedulerConfig(chunk_tokens=5, max_step_tokens=16, max_seqs=8),
    )
    core = EngineCore(backend, config)
    stem = rng.integers(0, VOCAB, 12).tolist()
    prompts = [
        [*stem[: rng.integers(0, 13)], *rng.integers(0, VOCAB, rng.integers(1, 9)).tolist()]
        for _ in range(12)
    ]
    requests = [
        EngineRequest([0] * len(p), max_new_tokens=12, prompt_embeds=backend.token_embeddings(np.array(p)))
        if i % 2
        else EngineRequest(p, max_new_tokens=12)
        for i, p in enumerate(prompts)
    ]
    for _ in range(2):  # the second time from the prefix cache
        for prompt, answer in zip(prompts, answers(core, requests), strict=True):
            assert answer == greedy(backend, prompt, 12)
    core.close()


def test_equal_embeddings_share_their_prefix_and_others_do_not() -> None:
    backend = FakeBackend(VOCAB, hidden_size=WIDTH, max_context=CONTEXT, block_size=4)
    core = EngineCore(backend, EngineConfig(cache_tokens=256))
    table = backend.token_embeddings(np.arange(VOCAB))

    def computed(ids: list[int]) -> int:
        before = backend.num_tokens
        request = EngineRequest([0] * 12, max_new_tokens=1, prompt_embeds=table[ids])
        assert answers(core, [request]) == [greedy(backend, ids, 1)]
        return backend.num_tokens - before

    first, second = list(range(12)), [5] * 12
    assert computed(first) == 12
    assert computed(second) == 12
    assert computed(first) < 12
    core.close()


def test_several_samples_share_an_embedded_prompt() -> None:
    backend = FakeBackend(VOCAB, hidden_size=WIDTH, max_context=CONTEXT, block_size=4)
    core = EngineCore(backend, EngineConfig(cache_tokens=64))
    ids = [3, 1, 4, 1, 5]
    embeds = backend.token_embeddings(np.array(ids))
    request = EngineRequest([0] * 5, max_new_tokens=30, n=4, prompt_embeds=embeds)  # too much for all at once
    core.submit(request)
    found: dict[int, list[int]] = defaultdict(list)
    while core.has_work:
        for event in core.step():
            if event.token_id is not None:
                found[event.index].append(event.token_id)
    assert list(found.values()) == [greedy(backend, ids, 30)] * 4
    core.close()


def test_wrong_embeddings_are_refused() -> None:
    core = EngineCore(
        FakeBackend(VOCAB, hidden_size=WIDTH, max_context=CONTEXT), EngineConfig(cache_tokens=256)
    )
    for wrong, message in (
        (np.zeros((2, WIDTH), np.float32), r"must be \[3, width\]"),
        (np.zeros((3, WIDTH)), "float32"),
        (np.full((3, WIDTH), np.inf, np.float32), "infinities"),
    ):
        with pytest.raises(OptionError, match=message):
            EngineRequest([1, 2, 3], prompt_embeds=wrong)
    with pytest.raises(OptionError, match="5 wide; this model's embeddings are 4 wide"):
        core.submit(EngineRequest([1], prompt_embeds=np.zeros((1, 5), np.float32)))
    core.close()
    plain = EngineCore(FakeBackend(VOCAB, max_context=CONTEXT), EngineConfig(cache_tokens=256))
    with pytest.raises(CapabilityError, match="prompt_embeds"):
        plain.submit(EngineRequest([1], prompt_embeds=np.zeros((1, 5), np.float32)))
    plain.close()
