"""Blocks of keys and values: sizes, and copies of their beginnings."""

from __future__ import annotations

import numpy as np
import pytest

from onnxgen.errors import OptionError
from onnxgen.graph.cpu.key_value_pages import KeyValuePages
from onnxgen.graph.cpu.paged_attention import PagedAttention
from paged_attention_runs import Cache, Chunk, StepRun, Tables


@pytest.mark.parametrize(
    ("block_size", "tile"), [(16, 16), (48, 16), (32, 32), (96, 32), (64, 64), (256, 64)]
)
def test_a_tile_is_as_long_as_the_block_size_allows(block_size, tile):
    for bits in (8, 16):
        pages = KeyValuePages(3, 64, 32, block_size, bits)
        assert pages.tile_tokens == tile
        assert pages.block_bytes == 3 * block_size * (12 + bits // 8 * (64 + 32))
        assert pages.tile_bytes % 64 == 0


def test_a_block_size_that_does_not_fit_is_said():
    with pytest.raises(OptionError, match="blocks of 40 tokens"):
        KeyValuePages(1, 64, 64, 40)
    with pytest.raises(OptionError, match="at least 1"):
        KeyValuePages(0, 64, 64, 16)
    with pytest.raises(OptionError, match="of 4 bits"):
        KeyValuePages(1, 64, 64, 16, 4)


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("block_size", [16, 32, 128])
def test_copied_tokens_are_as_if_written_there(block_size, bits):
    attention, rng = PagedAttention(4, 2, 64, 64, bits=bits), np.random.default_rng()
    first, second = rng.standard_normal((2, block_size, 8 * 64), dtype=np.float32)
    for count in (0, 1, block_size // 2 + 1, block_size):
        cache = Cache(attention, 3, block_size, garbage=0)
        mixed = np.concatenate([first[:count], second[count:]])
        for block, rows in enumerate((first, second, mixed)):
            StepRun(cache, [Chunk(rows, 0, [block])], Tables()).run()
        source, target, wanted = cache.memory.reshape(3, -1)
        attention.pages(block_size=block_size).copy_tokens(source, target, count)
        np.testing.assert_array_equal(target, wanted)
