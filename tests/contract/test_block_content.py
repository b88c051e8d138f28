"""What every backend promises of blocks that leave a cache and come back, run over all of them."""

import secrets

import numpy as np
import pytest

from backend_cases import CASE_NAMES, CONTEXT, Runner, make_case
from onnxgen.backends.base import WINDOW, SequenceInput, pack_step
from onnxgen.errors import StateError, StepError
from tier_world import World

SEED = secrets.randbits(32)


@pytest.fixture(scope="module", params=CASE_NAMES)
def case(request, tmp_path_factory):
    print(f"seed {SEED}")  # shown when a test fails
    made = make_case(request.param, tmp_path_factory.mktemp("content"), SEED)
    yield made
    made.backend.close()


@pytest.fixture
def tokens():
    rng = np.random.default_rng(SEED)
    return lambda n: rng.integers(0, 61, n).tolist()


def exported(run, name, length=None):
    """Content of a sequence's blocks, with how many tokens each has."""
    length = len(run.tokens[name]) if length is None else length
    counts = [min(run.block_size, length - at) for at in range(0, length, run.block_size)]
    return [
        (run.cache.export_block(block, count), count)
        for block, count in zip(run.blocks[name], counts, strict=False)
    ]


def imported(run, name, tokens, contents):
    """Make a sequence of contents that were exported."""
    run.tokens[name] = list(tokens)
    run.long[name] = run.case.rope_switch is not None and len(tokens) > run.case.rope_switch
    for block, (content, count) in zip(run.grow(name, len(tokens)), contents, strict=True):
        run.cache.import_block(block, content, count)


@pytest.mark.parametrize("length", [1, 11, 16, 21, CONTEXT - 4])
def test_a_sequence_goes_on_in_another_cache_with_the_same_bits(case, tokens, length):
    one, two = (Runner(case, num_seqs=2, num_tokens=CONTEXT, seed=seed) for seed in (1, 2))
    one.step({"a": tokens(length)})
    two.step({"other": tokens(7)})
    imported(two, "a", one.tokens["a"], exported(one, "a"))
    for new in (tokens(1), tokens(2)):
        want = one.step({"a": new}, logits="all").logits
        assert np.array_equal(two.step({"a": new}, logits="all").logits, want)
    two.step({"other": tokens(1), "a": tokens(1)})


def test_content_outlives_its_cache_and_its_block(case, tokens):
    run, other = (Runner(case, num_seqs=2, num_tokens=CONTEXT) for _ in range(2))
    run.step({"a": tokens(10)})
    held, contents = list(run.tokens["a"]), exported(run, "a")
    run.rewind("a", 0)
    run.step({"a": tokens(15)})
    imported(run, "back", held, contents)
    run.step({"back": tokens(1), "a": tokens(1)})
    run.cache.close()
    imported(other, "a", held, contents)
    other.step({"a": tokens(1)})


def test_the_beginning_of_a_sequence_can_be_had_where_it_can_be_rewound(case, tokens):
    one, two = (Runner(case, num_seqs=1, num_tokens=CONTEXT) for _ in range(2))
    one.step({"a": tokens(10)})
    if not case.backend.capabilities.rewind:
        with pytest.raises(StepError, match=r"asked for 7 .* 10"):
            exported(one, "a", 7)
        return
    imported(two, "a", one.tokens["a"][:7], exported(one, "a", 7))
    two.step({"a": tokens(2)}, logits="all")


def test_what_lay_behind_imported_content_is_gone(case, tokens):
    one, two = (Runner(case, num_seqs=1, num_tokens=CONTEXT) for _ in range(2))
    one.step({"a": tokens(3)})
    two.step({"b": tokens(7)})
    block = two.blocks["b"][0]
    two.cache.import_block(block, *exported(one, "a")[0])
    with pytest.raises(StepError):
        two.cache.export_block(block, 4)
    with pytest.raises(StepError):
        two.step({"b": tokens(1)})


def test_a_full_block_takes_what_the_geometry_says(case, tokens):
    run = Runner(case, num_seqs=2, num_tokens=CONTEXT)
    run.step({"a": tokens(CONTEXT), "b": tokens(1)})
    geometry = run.cache.geometry
    ((content, count), *_) = exported(run, "a")
    assert count == geometry.block_size
    assert content.dtype == np.uint8
    assert 0 <= content.nbytes - geometry.block_bytes <= 16
    assert 0 < run.cache.num_bytes <= geometry.num_blocks * geometry.block_bytes


def test_what_does_not_fit_is_refused_and_changes_nothing(case, tokens):
    run = Runner(case, num_seqs=3, num_tokens=CONTEXT)
    run.step({"a": tokens(10), "b": tokens(6)})
    (content, count), block, pool = exported(run, "a")[0], run.blocks["b"][0], run.cache.geometry.num_blocks
    for what in (content[:-1], np.append(content, np.uint8(0)), content[:0], content.view(np.int8)):
        with pytest.raises(StepError, match="bytes"):
            run.cache.import_block(block, what, count)
    for number in (count - 1, 0, -1, run.block_size + 1):
        with pytest.raises(StepError):
            run.cache.import_block(block, content, number)
    for unknown in (-1, pool):
        with pytest.raises(StepError, match=f"{unknown} of a pool of {pool}"):
            run.cache.import_block(unknown, content, count)
        with pytest.raises(StepError, match=f"{unknown} of a pool of {pool}"):
            run.cache.export_block(unknown, 1)
    with pytest.raises(StepError, match="pool of 0"):
        run.cache.export_block(0, 1, group=WINDOW)
    spare = run.grow("spare", 1)[0]
    for number in (1, 0, run.block_size + 1):
        with pytest.raises(StepError):
            run.cache.export_block(spare, number)
    run.step({"a": tokens(1), "b": tokens(1)})


def test_a_closed_cache_neither_gives_nor_takes(case, tokens):
    run = Runner(case, num_seqs=1, num_tokens=CONTEXT)
    run.step({"a": tokens(3)})
    content, count = exported(run, "a")[0]
    run.cache.close()
    with pytest.raises(StateError, match="cache was closed"):
        run.cache.export_block(0, 1)
    with pytest.raises(StateError, match="cache was closed"):
        run.cache.import_block(0, content, count)


def test_a_slot_or_block_that_decodes_takes_other_content(case, tokens):
    one, two = (Runner(case, num_seqs=1, num_tokens=CONTEXT) for _ in range(2))
    one.step({"a": tokens(5)})
    two.step({"a": tokens(6)})
    for _ in range(3):
        one.step({"a": tokens(1)}, check=False)
    imported(one, "a", two.tokens["a"], exported(two, "a"))
    for _ in range(3):
        new = tokens(1)
        want = two.step({"a": new}, check=False).logits
        assert np.array_equal(one.step({"a": new}, check=False).logits, want)


def test_what_went_through_memory_and_disk_changes_no_answer(case, tmp_path):
    if case.rope_switch is not None:
        pytest.skip("sequences that cross a switch of rotary tables start again, which an engine sees to")
    alone = case.backend.create_cache(num_seqs=1, num_tokens=CONTEXT)

    def check(row, tokens):
        if not case.backend.capabilities.batch_invariant:
            case.check(row[None], tokens, [len(tokens) - 1])
            return
        whole = pack_step([SequenceInput(tokens, 0, range(alone.geometry.num_blocks))])
        assert np.array_equal(row, case.backend.execute(whole, alone).logits[0]), f"after {tokens}"

    world = World(
        case.backend,
        check,
        seed=SEED,
        folder=tmp_path,
        host_bytes=60_000,
        disk_bytes=120_000,
        vocab=61,
    )
    for _ in range(150):
        world.anything()
    assert world.tiers.usage().failures == 0
    assert world.tiers.usage().loaded > 0
    world.end()
