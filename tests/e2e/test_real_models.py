"""Real models from GGUF files: the answers that transformers gives, and what four bits cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from backend_runs import BackendRun, open_folder
from onnxgen import LLM
from onnxgen.backends.base import SequenceInput, pack_step
from onnxgen.builder import BuildOptions, build
from onnxgen.foundations.runtime_config import RuntimeConfig
from real_models import checkpoint_file, real_golden

pytestmark = [pytest.mark.network, pytest.mark.timeout(1200)]

FP32 = BuildOptions(precision="fp32")
CHUNK = 64


@pytest.fixture(scope="module")
def smollm2() -> Path:
    return checkpoint_file("smollm2", fetch=True)


@pytest.fixture(scope="module")
def gemma3() -> Path:
    return checkpoint_file("gemma3-270m", fetch=False)


@pytest.fixture(scope="module")
def smollm2_fp32(smollm2: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _built(smollm2, tmp_path_factory.mktemp("smollm2") / "fp32", FP32)


@pytest.fixture(scope="module")
def gemma3_fp32(gemma3: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _built(gemma3, tmp_path_factory.mktemp("gemma3") / "fp32", FP32)


def _built(source: Path, output: Path, options: BuildOptions) -> Path:
    build(source, output, options=options)
    return output


def _greedy_together(run: BackendRun, prompts: Sequence[Sequence[int]], new_tokens: int) -> list[list[int]]:
    """Greedy tokens of all prompts in one cache, each step for all of them."""
    longest = max(len(prompt) for prompt in prompts) + new_tokens
    cache = run.backend.create_cache(num_seqs=len(prompts), num_tokens=longest)
    own = cache.geometry.num_blocks // len(prompts)
    done = [0] * len(prompts)
    sequences = [list(prompt) for prompt in prompts]
    for _ in range(new_tokens):
        parts = [
            SequenceInput(tokens[have:], context_len=have, blocks=range(slot * own, (slot + 1) * own))
            for slot, (tokens, have) in enumerate(zip(sequences, done, strict=True))
        ]
        logits = run.backend.execute(pack_step(parts), cache).logits
        done = [len(tokens) for tokens in sequences]
        for tokens, row in zip(sequences, logits, strict=True):
            tokens.append(int(row.argmax()))
    cache.close()
    return [tokens[len(prompt) :] for tokens, prompt in zip(sequences, prompts, strict=True)]


def _log_probabilities(run: BackendRun, ids: Sequence[int]) -> Iterator[np.ndarray]:
    """Log probabilities of the next token after each of ``ids``, in pieces ``[CHUNK, vocab]``."""
    cache = run.backend.create_cache(num_seqs=1, num_tokens=len(ids))
    blocks = range(cache.geometry.num_blocks)
    for start in range(0, len(ids), CHUNK):
        piece = ids[start : start + CHUNK]
        step = pack_step([SequenceInput(piece, context_len=start, blocks=blocks, logits="all")])
        logits = run.backend.execute(step, cache).logits.astype(np.float64)
        logits -= logits.max(axis=-1, keepdims=True)
        yield logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    cache.close()


def _mean_negative_log_likelihood(run: BackendRun, ids: Sequence[int]) -> float:
    likelihoods: list[float] = []
    for number, piece in enumerate(_log_probabilities(run, ids)):
        following = ids[number * CHUNK + 1 : number * CHUNK + 1 + len(piece)]
        likelihoods += piece[np.arange(len(following)), following].tolist()
    return -float(np.mean(likelihoods))


def _mean_divergence(exact: Sequence[np.ndarray], rounded: Iterator[np.ndarray]) -> float:
    """Mean Kullback-Leibler divergence over the text, in nats."""
    rows = [(np.exp(p) * (p - q)).sum(axis=-1) for p, q in zip(exact, rounded, strict=True)]
    return float(np.concatenate(rows).mean())


on_each_backend = pytest.mark.parametrize("backend", ["native", "ort"])


def _check_greedy(folder: Path, golden: dict[str, Any], backend: str) -> None:
    prompts = golden["prompts"]
    with open_folder(folder, threads=2, backend=backend) as run:
        answers = _greedy_together(run, [p["input_ids"] for p in prompts], len(prompts[0]["output_ids"]))
    for prompt, answer in zip(prompts, answers, strict=True):
        assert answer == prompt["output_ids"], prompt["text"]


@on_each_backend
def test_smollm2_gives_the_tokens_of_transformers(smollm2_fp32: Path, backend: str):
    golden = real_golden("smollm2")
    assert [len(p["output_ids"]) for p in golden["prompts"]] == [64] * 10
    _check_greedy(smollm2_fp32, golden, backend)


@on_each_backend
def test_gemma3_gives_the_tokens_of_transformers(gemma3_fp32: Path, backend: str):
    golden = real_golden("gemma3-270m")
    assert [len(p["output_ids"]) for p in golden["prompts"]] == [48] * 5
    _check_greedy(gemma3_fp32, golden, backend)


@pytest.mark.parametrize("name", ["smollm2", "gemma3-270m"])
def test_a_long_text_is_as_likely_as_transformers_says(name: str, request: pytest.FixtureRequest):
    folder = request.getfixturevalue("smollm2_fp32" if name == "smollm2" else "gemma3_fp32")
    golden = real_golden(name)
    with open_folder(folder, threads=2) as run:
        found = _mean_negative_log_likelihood(run, golden["text_ids"])
    assert found == pytest.approx(golden["text_nll"], abs=2e-4)


@pytest.mark.parametrize("name", ["smollm2", "gemma3-270m"])
def test_text_becomes_the_same_tokens_and_the_same_answer(name: str, request: pytest.FixtureRequest):
    folder = request.getfixturevalue("smollm2_fp32" if name == "smollm2" else "gemma3_fp32")
    golden = real_golden(name)
    with LLM(folder, config=RuntimeConfig(threads=2)) as llm:
        for prompt in golden["prompts"]:
            chat = prompt["text"].startswith("<|im_start|>")
            assert llm.tokenizer.encode(prompt["text"], add_special_tokens=not chat) == prompt["input_ids"]
        prompt = golden["prompts"][0]
        answer = llm.generate(prompt["text"], temperature=0, max_new_tokens=len(prompt["output_ids"]))
        assert list(answer.token_ids) == prompt["output_ids"]


@pytest.fixture(scope="module")
def exact_text(smollm2_fp32: Path) -> list[np.ndarray]:
    """Log probabilities of the float32 build over the fixed text."""
    with open_folder(smollm2_fp32, threads=2) as run:
        return [
            piece.astype(np.float32) for piece in _log_probabilities(run, real_golden("smollm2")["text_ids"])
        ]


@on_each_backend
@pytest.mark.parametrize(
    ("options", "bound"),
    [
        # the file's own blocks: what is left is the rounding of activations, where the backend rounds them
        pytest.param(BuildOptions(), 0.005, id="carried over"),
        # rounding to 15 symmetric levels: about 9 % of each block's spread, 30 layers deep
        pytest.param(BuildOptions(requantize=True), 0.4, id="requantized"),
        pytest.param(BuildOptions(precision="int8", requantize=True), 0.02, id="requantized to 8 bits"),
    ],
)
def test_the_divergence_of_quantized_builds_is_bounded(
    smollm2: Path,
    exact_text: list[np.ndarray],
    tmp_path: Path,
    options: BuildOptions,
    bound: float,
    backend: str,
):
    folder = _built(smollm2, tmp_path / "model", options)
    ids = real_golden("smollm2")["text_ids"]
    with open_folder(folder, threads=2, backend=backend) as run:
        divergence = _mean_divergence(exact_text, _log_probabilities(run, ids))
    print(f"mean KL divergence to float32 over {len(ids)} tokens: {divergence:.5f} nats (bound {bound})")
    assert 0 < divergence < bound
