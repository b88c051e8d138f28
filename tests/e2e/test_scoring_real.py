"""Real models score a fixed text as transformers does, through the serving engine: what evaluations stand on."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from onnxgen.backends import load_backend
from onnxgen.backends.base import Backend
from onnxgen.builder import BuildOptions, build
from onnxgen.engine.config import EngineConfig
from onnxgen.engine.core import EngineCore
from onnxgen.engine.events import EngineEvent
from onnxgen.engine.of_model import engine_of
from onnxgen.engine.request import EngineRequest
from onnxgen.foundations.runtime_config import RuntimeConfig
from onnxgen.metadata import load_model_spec
from onnxgen.metadata.model_spec import ModelSpec
from onnxgen.scheduler.config import SchedulerConfig
from real_models import checkpoint_file, real_golden

pytestmark = [pytest.mark.network, pytest.mark.timeout(1200)]

FP32, CARRIED_OVER = BuildOptions(precision="fp32"), BuildOptions()


@dataclass(frozen=True)
class Scorer:
    """A loaded model that scores texts on new engines."""

    name: str
    spec: ModelSpec
    backend: Backend

    @property
    def text(self) -> list[int]:
        return real_golden(self.name)["text_ids"]

    @contextlib.contextmanager
    def engine(self, **budgets) -> Iterator[EngineCore]:
        config = EngineConfig(scheduler=SchedulerConfig(**budgets), cache_tokens=4096, max_seq_tokens=1024)
        with contextlib.closing(engine_of(self.spec, self.backend, config)) as core:
            yield core


def drive(core: EngineCore) -> list[EngineEvent]:
    events: list[EngineEvent] = []
    while core.has_work:
        events += core.step()
    assert all(event.error is None for event in events)
    return events


def scored(core: EngineCore, ids: Sequence[int], *, start: int = 0, top: int = 0) -> list[float]:
    """Log probabilities of the tokens of a text from a position on, but for the first of all."""
    request = EngineRequest(ids, max_new_tokens=0, prompt_logprobs=top, prompt_logprobs_start=start)
    core.submit(request)
    [event] = drive(core)
    assert event.prompt_logprobs is not None
    assert len(event.prompt_logprobs) == len(ids) - start
    return [score.logprob for score in event.prompt_logprobs if score is not None]


def perplexity(logprobs: Sequence[float]) -> float:
    return math.exp(-float(np.mean(logprobs)))


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Path]:
    return {}


@contextlib.contextmanager
def open_scorer(
    name: str, options: BuildOptions, backend: str, folders, tmp_path_factory
) -> Iterator[Scorer]:
    checkpoint = checkpoint_file(name, fetch=name == "smollm2")
    key = name, str(options.precision)
    if key not in folders:
        folders[key] = tmp_path_factory.mktemp(name) / "model"
        build(checkpoint, folders[key], options=options)
    spec = load_model_spec(folders[key])
    loaded = load_backend(spec.decoder, RuntimeConfig(backend=backend, threads=2))
    with contextlib.closing(loaded):
        yield Scorer(name, spec, loaded)


@pytest.mark.parametrize("backend", ["native", "ort"])
@pytest.mark.parametrize("name", ["smollm2", "gemma3-270m"])
def test_the_perplexity_of_a_text_is_that_of_transformers(
    name: str, backend: str, folders, tmp_path_factory: pytest.TempPathFactory
):
    with open_scorer(name, FP32, backend, folders, tmp_path_factory) as scorer:
        golden, text = math.exp(real_golden(name)["text_nll"]), scorer.text
        with scorer.engine() as core:
            whole = scored(core, text)
            found = perplexity(whole)
            print(f"{name} {backend}: perplexity {found:.5f}, transformers {golden:.5f}, {len(text)} tokens")
            assert found == pytest.approx(golden, rel=1e-3)
            assert core.stats().prefill_tokens == len(text)
            rest = scored(core, text, start=400)
            assert core.stats().prefill_tokens == 2 * len(text) - 399, "all that may be reused was"
            np.testing.assert_allclose(rest, whole[399:], atol=2e-3)
        with scorer.engine(chunk_tokens=48, max_step_tokens=100) as core:
            for i in range(3):
                core.submit(
                    EngineRequest(text[i * 7 : i * 7 + 90], max_new_tokens=20, ignore_eos=True, logprobs=2)
                )
            core.submit(EngineRequest(text, max_new_tokens=1, prompt_logprobs=5))
            told = next(e.prompt_logprobs for e in drive(core) if e.prompt_logprobs is not None)
            np.testing.assert_allclose([s.logprob for s in told if s is not None], whole, atol=2e-3)


def test_four_bits_cost_little_likelihood(folders, tmp_path_factory: pytest.TempPathFactory):
    """The file's own blocks, so that only the rounding of activations is left."""
    with open_scorer("gemma3-270m", CARRIED_OVER, "native", folders, tmp_path_factory) as scorer:
        golden, text = math.exp(real_golden(scorer.name)["text_nll"]), scorer.text
        with scorer.engine() as core:
            found = perplexity(scored(core, text, top=3))
    print(f"gemma3-270m, 4 bits: perplexity {found:.4f}, float32 in transformers {golden:.4f}")
    assert found == pytest.approx(golden, rel=0.02)
