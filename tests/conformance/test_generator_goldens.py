"""`Generator` on built folders against transformers: the same greedy tokens, however the prompt is cut and batched."""

from __future__ import annotations

import pytest

import onnxgen as og
from checkpoints import CHECKPOINTS, write_checkpoint
from golden_data import golden_cases
from onnxgen.builder import BuildOptions, build
from onnxgen.foundations.runtime_config import RuntimeConfig
from tiny_tokenizer import EOS, PAD

NAMES = ["llama", "llama-llama3", "qwen2", "qwen3", "mistral", "phi3", "phi3-longrope", "gemma3"]


@pytest.fixture(scope="module", params=NAMES)
def opened(request, tmp_path_factory):
    checkpoint = CHECKPOINTS[request.param]
    work = tmp_path_factory.mktemp(request.param)
    build(
        write_checkpoint(checkpoint, work / "checkpoint"),
        work / "model",
        options=BuildOptions(precision="fp32"),
    )
    with og.Model(work / "model", runtime=RuntimeConfig(threads=1)) as model:
        yield model, [(c.prompt, until_eos(c.greedy)) for c in golden_cases(checkpoint)]


def until_eos(tokens):
    return tokens[: tokens.index(EOS)] if EOS in tokens else tokens


def generator(model, **search):
    params = og.GeneratorParams(model)
    params.set_search_options(**search)
    return og.Generator(model, params)


def continue_by(g, count):
    for _ in range(count):
        g.generate_next_token()


@pytest.mark.parametrize("chunk", [0, 1, 5])
def test_greedy_tokens_are_the_golden_ones(opened, chunk):
    model, cases = opened
    for prompt, answer in cases:
        g = generator(model, chunk_size=chunk)
        g.append_tokens(prompt)
        continue_by(g, len(answer))
        assert g.get_sequence(0).tolist() == [*prompt, *answer]


def test_rewound_and_appended_tokens_change_nothing(opened):
    model, cases = opened
    for prompt, answer in cases:
        g = generator(model)
        whole = [*prompt, *answer]
        g.append_tokens([*whole, *whole][: len(whole) + 3])
        kept = len(prompt) // 2
        g.rewind_to(kept)
        g.append_tokens(prompt[kept:])
        continue_by(g, len(answer))
        assert g.get_sequence(0).tolist() == whole
        g.rewind_to(len(prompt) + 1)
        continue_by(g, len(answer) - 1)
        assert g.get_sequence(0).tolist() == whole


def test_rows_of_a_batch_are_the_golden_ones(opened):
    model, cases = opened
    longest = max(len(prompt) for prompt, _ in cases)
    steps = min(len(answer) for _, answer in cases)
    g = generator(model, batch_size=len(cases))
    g.append_tokens([prompt + [PAD] * (longest - len(prompt)) for prompt, _ in cases])
    continue_by(g, steps)
    for i, (_, answer) in enumerate(cases):
        assert g.get_sequence(i)[longest:].tolist() == answer[:steps]
