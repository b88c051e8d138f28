"""Paged attention: against float64, and against itself in other chunks, blocks and parts, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from onnxgen.errors import OptionError
from onnxgen.graph.cpu.paged_attention import PagedAttention, Rotation
from paged_attention_runs import Cache, Chunk, StepRun, Tables, expected

SEED = int(np.random.default_rng().integers(1 << 32))


def random_rows(rng: np.random.Generator, attention: PagedAttention, tokens: int) -> np.ndarray:
    a = attention
    columns = (a.heads + a.kv_heads) * a.head_dim + a.kv_heads * a.value_dim
    return rng.standard_normal((tokens, columns), dtype=np.float32)


def random_tables(rng: np.random.Generator, attention: PagedAttention, positions: int) -> Tables:
    a = attention
    angles = rng.uniform(0, 7, (positions, a.rotary_dim // 2))
    return Tables(
        cos=np.cos(angles).astype(np.float32),
        sin=np.sin(angles).astype(np.float32),
        query_norm=rng.uniform(0.5, 2, a.head_dim).astype(np.float32),
        key_norm=rng.uniform(0.5, 2, a.head_dim).astype(np.float32),
    )


def in_one_step(
    attention: PagedAttention, rows: np.ndarray, tables: Tables, block_size: int = 16
) -> np.ndarray:
    blocks = -(-len(rows) // block_size)
    cache = Cache(attention, blocks, block_size)
    return StepRun(cache, [Chunk(rows, 0, list(range(blocks)))], tables).run()


ATTENTIONS = {
    "three heads a key": PagedAttention(9, 3, 64, 64),
    "one head a key": PagedAttention(2, 2, 48, 48),
    "many heads a key": PagedAttention(32, 1, 32, 32),
    "wide": PagedAttention(2, 1, 256, 256),
    "values of another size": PagedAttention(4, 2, 96, 32),
    "window": PagedAttention(4, 2, 64, 64, window=70),
    "softcap": PagedAttention(4, 2, 64, 64, softcap=3.0, scale=0.5),
    "norm and rotary": PagedAttention(4, 2, 64, 64, norm=True, rotary_dim=64),
    "part is rotated": PagedAttention(4, 2, 80, 80, rotary_dim=20),
    "neighbours are rotated": PagedAttention(4, 2, 64, 64, rotary_dim=48, rotation=Rotation.NEIGHBOURS),
}


@pytest.mark.parametrize("name", ATTENTIONS)
def test_it_is_attention(name):
    attention, rng = ATTENTIONS[name], np.random.default_rng(SEED)
    rows = random_rows(rng, attention, 331)
    tables = random_tables(rng, attention, len(rows))
    got, wanted = in_one_step(attention, rows, tables), expected(attention, rows, tables)
    assert np.linalg.norm(got - wanted) < 1e-3 * np.linalg.norm(wanted), f"seed {SEED}"


@pytest.mark.parametrize("name", ["three heads a key", "window"])
def test_chunks_blocks_and_parts_change_no_bit(name):
    attention, rng = ATTENTIONS[name], np.random.default_rng(SEED)
    rows = random_rows(rng, attention, 600)
    whole = in_one_step(attention, rows, Tables(), block_size=64)
    blocks = [int(block) for block in rng.permutation(40)[: -(-len(rows) // 16)]]
    cache, outs, done = Cache(attention, 40, 16, garbage=0x7F), [], 0
    while done < len(rows):
        size = min(int(rng.choice([1, 1, 2, 5, 64, 150])), len(rows) - done)
        parts = int(rng.integers(1, 6))
        run = StepRun(
            cache,
            [Chunk(rows[done : done + size], done, blocks)],
            Tables(),
            workers=int(rng.integers(1, 17)),
            most_partials=int(rng.choice([0, 4096])),
        )
        outs.append(run.run(parts=parts, order=[int(part) for part in rng.permutation(parts)]))
        done += size
    np.testing.assert_array_equal(np.concatenate(outs), whole, err_msg=f"seed {SEED}")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"head_dim": 72}, "head_dim 72"),
        ({"value_dim": 272}, "value_dim 272"),
        ({"heads": 5}, "5 heads over 2"),
        ({"rotary_dim": 66}, "66 of 64"),
        ({"window": 0}, "window of 0"),
        ({"softcap": -1.0}, "softcap of -1.0"),
    ],
)
def test_what_it_does_not_have_is_said(change, message):
    with pytest.raises(OptionError, match=message):
        PagedAttention(**{"heads": 4, "kv_heads": 2, "head_dim": 64, "value_dim": 64, **change})
