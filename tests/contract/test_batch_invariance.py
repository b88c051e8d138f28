"""The native backend's promise: a sequence gets the same bits alone and in a crowd, however it is cut and placed."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checkpoints import CHECKPOINTS, write_checkpoint
from onnxgen.backends.base import BlockCopy, DecoderModel, KVCache, SequenceInput, pack_step
from onnxgen.backends.native import running
from onnxgen.backends.native.backend import NativeBackend
from onnxgen.builder import BuildOptions, build
from onnxgen.foundations.runtime_config import RuntimeConfig
from onnxgen.metadata import load_model_spec

SEED = secrets.randbits(32)
LENGTH = 90
KINDS = {
    "float32": ("llama-untied", BuildOptions(precision="fp32")),
    "int4, int8 activations": ("qwen3", BuildOptions(precision="int4", block_size=32, accuracy_level=4)),
    "int4, int16 activations": (
        "qwen2-window",
        BuildOptions(precision="int4", block_size=16, accuracy_level=0),
    ),
    "head norms, windows": ("gemma3", BuildOptions(precision="bf16")),
    "keys and values of 8 bits": ("qwen3", BuildOptions(precision="fp32")),
}


@dataclasses.dataclass(repr=False)
class Loaded:
    """Backends of one model on one and on two threads, and what sequences get alone."""

    model: DecoderModel
    backends: list[NativeBackend]
    alone: list[tuple[list[int], np.ndarray]]


@pytest.fixture(scope="module", params=KINDS)
def loaded(request, tmp_path_factory):
    print(f"seed {SEED}")
    name, options = KINDS[request.param]
    dtype = "int8" if "8 bits" in request.param else "auto"
    folder = tmp_path_factory.mktemp("model")
    build(write_checkpoint(CHECKPOINTS[name], folder / "checkpoint"), folder / "model", options=options)
    model = load_model_spec(folder / "model").decoder
    backends = [
        NativeBackend(
            model, RuntimeConfig(threads=threads, cache_dir=folder, kv_cache_dtype=dtype), block_size=16
        )
        for threads in (1, 2)
    ]
    rng = np.random.default_rng(SEED)
    prompts = [rng.integers(3, model.vocab_size, LENGTH).tolist() for _ in range(3)]
    yield Loaded(model, backends, [(p, _alone(backends[0], p)) for p in prompts])
    for backend in backends:
        backend.close()


def _alone(backend: NativeBackend, prompt: Sequence[int]) -> np.ndarray:
    """Logits of every position, the prompt in one piece."""
    cache = backend.create_cache(num_seqs=1, num_tokens=LENGTH)
    blocks = range(cache.geometry.num_blocks)
    return backend.execute(pack_step([SequenceInput(prompt, 0, list(blocks), logits="all")]), cache).logits


class Crowd:
    """Sequences in one cache whose blocks are handed out in any order; every row is compared with what it is alone."""

    def __init__(self, loaded: Loaded, backend: NativeBackend, seed: int) -> None:
        self.loaded, self.backend = loaded, backend
        self.cache: KVCache = backend.create_cache(num_seqs=8, num_tokens=LENGTH)
        self.size = self.cache.geometry.block_size
        self.free = np.random.default_rng(seed).permutation(self.cache.geometry.num_blocks).tolist()
        self.copies: list[BlockCopy] = []  # for the next step
        self.rows: list[tuple[int, int, list[int]]] = []  # prompt, tokens so far, blocks

    def join(self, prompt: int, *, sharing: int | None) -> None:
        """A new sequence; of the prompt's full blocks, those of another one are used where it may share them."""
        done, blocks = 0, list[int]()
        if sharing is not None and self.rows:
            other, length, owned = self.rows[sharing % len(self.rows)]
            if other == prompt:
                done = length // self.size * self.size
                blocks = owned[: done // self.size]
        if done == LENGTH:
            return
        if len(self.rows) < 5:
            self.rows.append((prompt, done, blocks))

    def fork(self, which: int) -> None:
        """A copy of a sequence with a block of its own for what is not a full block."""
        if not self.rows or len(self.rows) >= 5 or self.copies:
            return
        prompt, length, blocks = self.rows[which % len(self.rows)]
        full, rest = divmod(length, self.size)
        if length == 0 or length == LENGTH or not rest:
            return
        own = self.free.pop()
        self.rows.append((prompt, length, [*blocks[:full], own]))
        self.copies.append(BlockCopy(blocks[full], own, rest))

    def step(self, news: Sequence[int]) -> None:
        parts, places = [], []
        for index, (prompt, length, blocks) in enumerate(self.rows):
            count = min(news[index % len(news)], LENGTH - length)
            if not count:
                continue
            while len(blocks) * self.size < length + count:
                blocks.append(self.free.pop())
            tokens, expected = self.loaded.alone[prompt]
            parts.append(SequenceInput(tokens[length : length + count], length, list(blocks), logits="all"))
            places.append(expected[length : length + count])
            self.rows[index] = (prompt, length + count, blocks)
        if not parts:
            return
        logits = self.backend.execute(pack_step(parts, copies=self.copies), self.cache).logits
        self.copies = []
        assert np.array_equal(logits.view(np.uint32), np.concatenate(places).view(np.uint32))


schedules = st.lists(
    st.tuples(
        st.lists(
            st.tuples(st.integers(0, 2), st.none() | st.integers(0, 4)), max_size=2
        ),  # prompts that join
        st.none() | st.integers(0, 4),  # a sequence that forks
        st.lists(st.integers(0, 40) | st.just(1), min_size=1, max_size=5),  # new tokens
    ),
    min_size=1,
    max_size=8,
)


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    schedule=schedules,
    threads=st.integers(0, 1),
    most=st.sampled_from([7, 64, 256]),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_schedule_gives_the_bits_of_a_sequence_alone(loaded: Loaded, schedule, threads, most, seed):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "MOST_TOKENS", most)  # where passes are cut; memory is for 256
        crowd = Crowd(loaded, loaded.backends[threads], seed)
        for joins, fork, news in schedule:
            for prompt, sharing in joins or [(0, None)]:
                crowd.join(prompt, sharing=sharing)
            if fork is not None:
                crowd.fork(fork)
            crowd.step(news)
        crowd.cache.close()


def test_the_folder_of_a_real_builder_too(tmp_path: Path):
    folder = Path(__file__).parents[1] / "fixtures" / "og-built-llama-int4"
    model = load_model_spec(folder).decoder
    backend = NativeBackend(model, RuntimeConfig(threads=2, cache_dir=tmp_path))
    prompt = np.random.default_rng(SEED).integers(3, model.vocab_size, LENGTH).tolist()
    whole = _alone(backend, prompt)
    cache = backend.create_cache(num_seqs=1, num_tokens=LENGTH)
    blocks = list(range(cache.geometry.num_blocks))[::-1]
    for at, token in enumerate(prompt):
        (row,) = backend.execute(pack_step([SequenceInput([token], at, blocks)]), cache).logits
        assert np.array_equal(row.view(np.uint32), whole[at].view(np.uint32)), at
