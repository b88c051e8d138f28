"""How large a cache an engine makes."""

import pytest

from onnxgen.backends.fake import FakeBackend
from onnxgen.engine.cache_size import make_cache
from onnxgen.engine.config import EngineConfig
from onnxgen.errors import BackendError
from onnxgen.scheduler.config import SchedulerConfig


@pytest.mark.parametrize(
    ("tokens", "max_seqs", "max_seq_tokens", "blocks"),
    [
        (112, 1, 112, 7),
        (113, 1, 128, 8),
        (192, 32, 128, 12),
        (1000, 3, 64, 63),
        (5, 8, 64, 1),
        (48, 1, 40, 3),
    ],
)
def test_pages_are_whole_blocks_for_at_least_the_tokens_asked_for(tokens, max_seqs, max_seq_tokens, blocks):
    backend = FakeBackend(block_size=16, max_context=128)
    config = EngineConfig(cache_tokens=tokens, scheduler=SchedulerConfig(max_seqs=max_seqs))
    geometry = make_cache(backend, config, max_seq_tokens=max_seq_tokens).geometry
    assert geometry.block_size == 16
    # a sequence's share is in whole blocks too, so the last share may be more than what was asked for
    assert blocks <= geometry.num_blocks <= blocks + -(-blocks // max_seqs)


@pytest.mark.parametrize(("tokens", "slots"), [(64, 1), (10, 1), (200, 3), (256, 4)])
def test_slots_hold_a_whole_sequence_each(tokens, slots):
    geometry = make_cache(FakeBackend(), EngineConfig(cache_tokens=tokens), max_seq_tokens=64).geometry
    assert (geometry.num_blocks, geometry.block_size) == (slots, 64)


def test_memory_says_how_many_tokens():
    backend = FakeBackend(block_size=16, max_context=1 << 20)
    cache = make_cache(backend, EngineConfig(cache_mb=1), max_seq_tokens=1 << 16)
    assert abs(cache.num_bytes - (1 << 20)) <= 32 * 16 * 8


def test_a_size_that_nobody_asked_for_gives_way_to_the_memory_there_is():
    class Small(FakeBackend):
        def create_cache(self, *, num_seqs, num_tokens, window_group=False):
            if num_seqs * num_tokens > 200:
                raise BackendError("no memory")
            return super().create_cache(num_seqs=num_seqs, num_tokens=num_tokens, window_group=window_group)

    backend = Small(block_size=16, max_context=128)
    cache = make_cache(backend, EngineConfig(), max_seq_tokens=128)
    assert 128 <= cache.geometry.num_blocks * 16 <= 200
    with pytest.raises(BackendError, match="no memory"):
        make_cache(backend, EngineConfig(cache_tokens=1000), max_seq_tokens=128)
