"""Folders under adapters beside transformers with the same matrices added by hand."""

from __future__ import annotations

import numpy as np
import pytest

from adapter_cases import ADAPTER_CASES, check_scale, golden
from checkpoints import write_checkpoint
from onnxgen.backends import load_backend
from onnxgen.backends.base import SequenceInput, pack_step
from onnxgen.builder import BuildOptions, build
from onnxgen.builder.adapters import read_adapter
from onnxgen.foundations.runtime_config import RuntimeConfig
from onnxgen.metadata import load_model_spec

EXACT = {"ort": 1e-4, "native": 1e-3}
"""Of the spread of logits; native keeps keys and values in 16 bits."""


class Run:
    """A built folder with its case's adapter, on one backend."""

    def __init__(self, name: str, kind: str, tmp_path, precision: str = "fp32") -> None:
        case = ADAPTER_CASES[name]
        checkpoint = write_checkpoint(case.base, tmp_path / "checkpoint")
        folder = tmp_path / f"{kind}-{precision}"
        build(checkpoint, folder, options=BuildOptions(precision=precision))
        config = RuntimeConfig(backend=kind, cache_dir=tmp_path / "cache")
        self.backend = load_backend(load_model_spec(folder).decoder, config)
        self.backend.adapters.load(read_adapter(case.write(tmp_path / "adapter"), "it"))

    def logits(self, ids: list[int], adapter: str | None = "it") -> np.ndarray:
        cache = self.backend.create_cache(num_seqs=1, num_tokens=len(ids))
        blocks = range(cache.geometry.num_blocks)
        part = SequenceInput(ids, 0, blocks, logits="all", adapter=adapter)
        return self.backend.execute(pack_step([part]), cache).logits

    def greedy(self, prompt: list[int], count: int) -> tuple[list[int], np.ndarray]:
        cache = self.backend.create_cache(num_seqs=1, num_tokens=len(prompt) + count)
        blocks, new, context = range(cache.geometry.num_blocks), prompt, 0
        tokens: list[int] = []
        rows = []
        for _ in range(count):
            step = pack_step([SequenceInput(new, context, blocks, adapter="it")])
            rows.append(self.backend.execute(step, cache).logits[0])
            context += len(new)
            new = [int(rows[-1].argmax())]
            tokens += new
        return tokens, np.stack(rows)


def error(got: np.ndarray, want: np.ndarray, spread: float) -> float:
    assert got.shape == want.shape
    return float(np.abs(got - want).max()) / spread


@pytest.mark.parametrize("name", ADAPTER_CASES)
def test_cases_say_the_same_scale_twice(name):
    check_scale(ADAPTER_CASES[name])


@pytest.mark.parametrize("kind", ["ort", "native"])
@pytest.mark.parametrize("name", ADAPTER_CASES)
def test_logits_and_greedy_tokens_under_an_adapter(name, kind, tmp_path):
    run, wanted = Run(name, kind, tmp_path), golden(name)
    prompt, spread = wanted["prompt"].tolist(), float(np.ptp(wanted["logits"]))
    assert error(run.logits(prompt), wanted["logits"], spread) < EXACT[kind]
    tokens, logits = run.greedy(prompt, len(wanted["greedy"]))
    assert tokens == wanted["greedy"].tolist()
    assert error(logits, wanted["greedy_logits"], spread) < EXACT[kind]
    assert error(run.logits(prompt, None), wanted["logits"], spread) > 0.05


@pytest.mark.parametrize("kind", ["ort", "native"])
@pytest.mark.parametrize("precision", ["int4", "int8", "bf16"])
def test_an_adapter_on_a_quantized_base_is_as_near_as_the_base(precision, kind, tmp_path):
    """What quantization costs is the base's, and the adapter is added to it in full."""
    name = "llama-attention"
    run, exact, wanted = Run(name, kind, tmp_path, precision), Run(name, kind, tmp_path), golden(name)
    prompt, spread = wanted["prompt"].tolist(), float(np.ptp(wanted["logits"]))
    base = error(run.logits(prompt, None), exact.logits(prompt, None), spread)
    assert error(run.logits(prompt), wanted["logits"], spread) < 3 * base + EXACT[kind]


@pytest.mark.parametrize("precision", ["int4", "int8"])
def test_both_backends_agree_on_a_quantized_base(precision, tmp_path):
    name = "llama"
    prompt = golden(name)["prompt"].tolist()
    native, ort = (Run(name, kind, tmp_path, precision).logits(prompt) for kind in ("native", "ort"))
    spread = float(np.ptp(ort))
    plain = error(Run(name, "native", tmp_path, "fp32").logits(prompt), ort, spread)
    assert error(native, ort, spread) < 0.5 * plain, "the two differ by less than quantization costs"
