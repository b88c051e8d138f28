"""Paged attention: against float64, and against itself in other chunks, blocks and parts, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from onnxgen.errors import OptionError
from onnxgen.graph.cpu.compiled.header import Header
from onnxgen.graph.cpu.paged_attention import PagedAttention, Rotation
from paged_attention_runs import Cache, Chunk, StepRun, Tables, expected

NO_TABLES = Tables()
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
    attention: PagedAttention, rows: np.ndarray, tables: Tables = NO_TABLES, block_size: int = 16
) -> np.ndarray:
    blocks = -(-len(rows) // block_size)
    cache = Cache(attention, blocks, block_size)
    return StepRun(cache, [Chunk(rows, 0, list(range(blocks)))], tables).run()


ATTENTIONS = {
    "three heads a key": PagedAttention(9, 3, 64, 64),
    "one head a key": PagedAttention(2, 2, 64, 64),
    "many heads a key": PagedAttention(32, 1, 64, 64),
    "wide": PagedAttention(2, 1, 256, 256),
    "window": PagedAttention(4, 2, 64, 64, window=70),
    "softcap, values of another size": PagedAttention(4, 2, 96, 32, softcap=3.0, scale=0.5),
    "norm and rotary": PagedAttention(4, 2, 64, 64, norm=True, rotary_dim=64),
    "neighbours are rotated, some": PagedAttention(4, 2, 64, 64, rotary_dim=20, rotation=Rotation.NEIGHBOURS),
    "bytes": PagedAttention(9, 3, 64, 64, bits=8),
    "bytes of wide heads, window": PagedAttention(4, 2, 160, 96, window=70, bits=8),
}


@pytest.mark.parametrize("name", ATTENTIONS)
def test_it_is_attention(name):
    attention, rng = ATTENTIONS[name], np.random.default_rng(SEED)
    rows = random_rows(rng, attention, 331)
    tables = random_tables(rng, attention, len(rows))
    got, wanted = in_one_step(attention, rows, tables), expected(attention, rows, tables)
    bound = 6e-4 if attention.bits == 16 else 2e-2
    assert np.linalg.norm(got - wanted) < bound * np.linalg.norm(wanted), f"seed {SEED}"


def test_sinks_take_their_share():
    attention, rng = PagedAttention(6, 2, 64, 64), np.random.default_rng(SEED)
    rows = random_rows(rng, attention, 70)
    tables = Tables(sinks=rng.uniform(-2, 4, 6).astype(np.float32))
    got, wanted = in_one_step(attention, rows, tables), expected(attention, rows, tables)
    assert np.linalg.norm(got - wanted) < 6e-4 * np.linalg.norm(wanted), f"seed {SEED}"
    assert np.linalg.norm(got - expected(attention, rows, NO_TABLES)) > 0.05 * np.linalg.norm(wanted)


def test_outliers_cost_no_more_than_in_a_float16_cache():
    attention, rng = PagedAttention(4, 2, 64, 64), np.random.default_rng(SEED)
    rows = random_rows(rng, attention, 300)
    for head in range(2):
        rows[:, 4 * 64 + head * 64 + 5] *= 50
        rows[:, 6 * 64 + head * 64 + 9] *= 50
    in_halves = rows.copy()
    in_halves[:, 4 * 64 :] = rows[:, 4 * 64 :].astype(np.float16)
    wanted = expected(attention, rows, NO_TABLES)
    ours = np.linalg.norm(in_one_step(attention, rows) - wanted)
    theirs = np.linalg.norm(expected(attention, in_halves, NO_TABLES) - wanted)
    assert ours < theirs, f"seed {SEED}"


def test_outliers_among_keys_cost_bytes_little():
    attention, rng = ATTENTIONS["bytes of wide heads, window"], np.random.default_rng(SEED)
    dim = attention.head_dim
    rows = random_rows(rng, attention, 300)
    for head in range(2):
        rows[:, (4 + head) * dim + 5] *= 30
    rows[:, : 4 * dim] *= 0.3
    wanted = expected(attention, rows, NO_TABLES)
    error = np.linalg.norm(in_one_step(attention, rows) - wanted) / np.linalg.norm(wanted)
    keys = rows[:, 4 * dim : 6 * dim].reshape(-1, 2, dim)
    scale = np.abs(keys).max(-1, keepdims=True) / 127
    one_by_one = rows.copy()
    one_by_one[:, 4 * dim : 6 * dim] = (np.round(keys / scale) * scale).reshape(-1, 2 * dim)
    theirs = np.linalg.norm(expected(attention, one_by_one, NO_TABLES) - wanted) / np.linalg.norm(wanted)
    assert error < 0.5 * theirs, f"seed {SEED}"


def test_rows_of_zeros_are_zeros():
    attention = PagedAttention(4, 2, 64, 64)
    rows = np.zeros((3, 8 * 64), np.float32)
    assert not in_one_step(attention, rows).any()


@pytest.mark.parametrize("bits", [8, 16])
def test_what_is_no_number_stays_where_it_is_seen(bits):
    attention, rng = PagedAttention(4, 2, 64, 64, bits=bits), np.random.default_rng(SEED)
    rows = random_rows(rng, attention, 100)
    clean = in_one_step(attention, rows)
    for column, value in ((0, np.nan), (4 * 64, np.inf), (6 * 64, np.nan), (6 * 64, -np.inf)):
        spoiled = rows.copy()
        spoiled[60, column] = value
        got = in_one_step(attention, spoiled)
        np.testing.assert_array_equal(got[:60], clean[:60], err_msg=f"seed {SEED}")
        assert not np.isfinite(got[60, :64]).any(), f"column {column}, {value}"
        other_head = slice(2 * 64, None)
        np.testing.assert_array_equal(got[:, other_head], clean[:, other_head], err_msg=f"seed {SEED}")


def test_sequences_of_a_step_do_not_meet():
    attention, rng = PagedAttention(9, 3, 64, 64), np.random.default_rng(SEED)
    lengths, contexts = [1, 40, 1, 7, 1], [300, 0, 15, 256, 0]
    rows = [random_rows(rng, attention, c + n) for c, n in zip(contexts, lengths, strict=True)]
    cache = Cache(attention, 60, 32)
    order = [int(block) for block in rng.permutation(60)]
    blocks = [[order.pop() for _ in range(-(-len(each) // 32))] for each in rows]
    for each, context, mine in zip(rows, contexts, blocks, strict=True):
        if context:
            StepRun(cache, [Chunk(each[:context], 0, mine)], NO_TABLES).run()
    chunks = [Chunk(e[c:], c, mine) for e, c, mine in zip(rows, contexts, blocks, strict=True)]
    got = StepRun(cache, chunks, NO_TABLES, workers=3).run(threads=2, parts=7)
    wanted = [in_one_step(attention, e)[c:] for e, c in zip(rows, contexts, strict=True)]
    np.testing.assert_array_equal(got, np.concatenate(wanted), err_msg=f"seed {SEED}")


@pytest.mark.parametrize("kind", ["keys", "values"])
def test_bytes_keep_the_largest_exactly_and_others_to_half_a_step(kind):
    attention, rng = PagedAttention(1, 1, 32, 32, bits=8), np.random.default_rng(SEED)
    rows = random_rows(rng, attention, 16)
    cache = Cache(attention, 1, 16)
    StepRun(cache, [Chunk(rows, 0, [0])], NO_TABLES).run()
    scales, keys, values = np.split(cache.memory, [3 * 64, 3 * 64 + 16 * 32])
    key_scales, value_logs, _ = scales.view(np.float32).reshape(3, 16, 1)
    if kind == "keys":
        wholes = keys.view(np.int8).reshape(16, 16, 2).transpose(1, 0, 2).reshape(16, 32)
        signs = np.array([[(-1) ** (i & j).bit_count() for j in range(32)] for i in range(32)])
        scale, wanted, least = key_scales, rows[:, 32:64] @ signs, 127
    else:
        wholes = values.view(np.int8).reshape(8, 32, 2).transpose(0, 2, 1).reshape(16, 32)
        scale, wanted, least = np.exp2(value_logs), rows[:, 64:], 127 / 1.07
    assert (np.abs(wholes).max(1) >= least).all()
    assert (np.abs(wholes * scale - wanted) <= 0.501 * scale).all(), f"seed {SEED}"


def test_windowed_layers_may_have_another_table():
    attention, rng = ATTENTIONS["window"], np.random.default_rng(SEED)
    rows = random_rows(rng, attention, 50)
    cache = Cache(attention, 4, 16)
    run = StepRun(cache, [Chunk(rows, 0, [2, 0, 3, 1])], NO_TABLES)
    for own, other in (
        (Header.SLOTS, Header.WINDOW_SLOTS),
        (Header.BLOCK_TABLE, Header.WINDOW_TABLE),
        (Header.BLOCK_TABLE_WIDTH, Header.WINDOW_TABLE_WIDTH),
    ):
        run.header[other], run.header[own] = run.header[own], 0
    run.write_arguments["slots_word"] = int(Header.WINDOW_SLOTS)
    run.attend_arguments["table_word"] = int(Header.WINDOW_TABLE)
    np.testing.assert_array_equal(run.run(), in_one_step(attention, rows), err_msg=f"seed {SEED}")


def test_blocks_outside_of_a_window_are_not_needed():
    attention, rng = ATTENTIONS["window"], np.random.default_rng(SEED)
    rows = random_rows(rng, attention, 400)
    whole = in_one_step(attention, rows)
    cache, blocks = Cache(attention, 25, 16), list(range(25))
    StepRun(cache, [Chunk(rows[:399], 0, blocks)], NO_TABLES).run()
    # Token 399 sees 330 to 399: blocks 20 to 24.
    kept = [-1] * 20 + blocks[20:]
    last = StepRun(cache, [Chunk(rows[399:], 399, kept)], NO_TABLES).run()
    np.testing.assert_array_equal(last[0], whole[399], err_msg=f"seed {SEED}")


@pytest.mark.parametrize("block_size", [16, 32, 48, 192])
@pytest.mark.parametrize("name", ["three heads a key", "window", "bytes", "bytes of wide heads, window"])
def test_chunks_blocks_and_parts_change_no_bit(name, block_size):
    attention, rng = ATTENTIONS[name], np.random.default_rng(SEED)
    rows = random_rows(rng, attention, 600)
    whole = in_one_step(attention, rows, block_size=64)
    blocks = [int(block) for block in rng.permutation(40)[: -(-len(rows) // block_size)]]
    cache, outs, done = Cache(attention, 40, block_size, garbage=0x7F), [], 0
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
        ({"bits": 4}, "4 bits"),
    ],
)
def test_what_it_does_not_have_is_said(change, message):
    with pytest.raises(OptionError, match=message):
        PagedAttention(**{"heads": 4, "kv_heads": 2, "head_dim": 64, "value_dim": 64, **change})
