"""Published tiny models of onnxruntime-genai give the greedy answers that it gives."""

import numpy as np
import pytest

from onnxgen.backends import load_backend
from onnxgen.backends.base import DecoderModel, SequenceInput, pack_step
from onnxgen.foundations.runtime_config import RuntimeConfig
from published_models import published


@pytest.fixture(scope="module")
def gpt2():
    return load_backend(
        DecoderModel(
            path=published("hf-internal-testing/tiny-random-gpt2-fp32/past.onnx"),
            inputs={"past_names": "past_%d"},
            outputs={"present_names": "present_%d"},
            num_layers=5,
            vocab_size=1000,
            context_length=512,
            session_options={"session.use_device_allocator_for_initializers": "0", "provider_options": []},
            run_options={"memory.enable_memory_arena_shrinkage": ""},
        ),
        RuntimeConfig(threads=1),
    )


@pytest.fixture(scope="module")
def lfm2():
    return load_backend(
        DecoderModel(
            path=published("hf-internal-testing/tiny-random-lfm2-fp32/decoder.onnx"),
            inputs={"past_conv_names": "past_conv.%d"},
            outputs={"present_conv_names": "present_conv.%d"},
            num_layers=4,
            vocab_size=1000,
            context_length=512,
        ),
        RuntimeConfig(threads=1),
    )


def greedy(backend, prompts, count):
    """Greedy continuations, all sequences in one step each time."""
    cache = backend.create_cache(num_seqs=len(prompts), num_tokens=64)
    new, past, out = [list(p) for p in prompts], [0] * len(prompts), [[] for _ in prompts]
    for _ in range(count):
        step = pack_step([SequenceInput(t, n, [i]) for i, (t, n) in enumerate(zip(new, past, strict=True))])
        ids = backend.execute(step, cache).logits.argmax(axis=-1).tolist()
        past = [n + len(t) for n, t in zip(past, new, strict=True)]
        new = [[i] for i in ids]
        for sequence, i in zip(out, ids, strict=True):
            sequence.append(i)
    return out


def test_gpt2_answers_greedily_as_published(gpt2):
    assert greedy(gpt2, [[0, 0, 0, 52], [0, 0, 195, 731]], 6) == [[204] * 6, [731] + [114] * 5]


def test_gpt2_sequences_of_different_lengths_are_as_alone(gpt2):
    prompts = [[0, 0, 195, 731], [41, 554, 74, 622, 206, 222, 75], [52]]
    assert greedy(gpt2, prompts, 8) == [greedy(gpt2, [p], 8)[0] for p in prompts]


def test_gpt2_rewinds(gpt2):
    cache = gpt2.create_cache(num_seqs=1, num_tokens=16)
    gpt2.execute(pack_step([SequenceInput([0, 0, 0, 52, 204, 204], 0, [0])]), cache)
    out, new, past = [], [195, 731], 2
    for _ in range(3):
        out.append(int(gpt2.execute(pack_step([SequenceInput(new, past, [0])]), cache).logits.argmax()))
        new, past = [out[-1]], past + len(new)
    assert out == [731, 114, 114]


def test_lfm2_answers_greedily_and_its_states_cannot_be_cut(lfm2):
    assert greedy(lfm2, [[0, 0, 195, 731]], 6) == [[849, 973, 649, 212, 414, 667]]
    assert not lfm2.capabilities.rewind
    assert lfm2.capabilities.copy_blocks  # whole states


def test_lfm2_takes_its_prompt_in_chunks(lfm2):
    cache, prompt = lfm2.create_cache(num_seqs=1, num_tokens=16), [5, 9, 0, 0, 195, 731]
    whole = lfm2.execute(pack_step([SequenceInput(prompt, 0, [0])]), cache).logits
    for start in range(0, 6, 2):
        part = pack_step([SequenceInput(prompt[start : start + 2], start, [0])])
        chunked = lfm2.execute(part, cache).logits
    assert np.allclose(whole, chunked, atol=1e-5)
