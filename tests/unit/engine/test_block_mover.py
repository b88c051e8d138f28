"""Content of blocks in memory and files: it comes back as it was, or is known to be lost."""

import logging
import stat
import sys

import numpy as np
import pytest

from onnxgen.backends.base import WINDOW, SequenceInput, pack_step
from onnxgen.backends.fake import FakeBackend
from onnxgen.engine.block_mover import CacheBlockMover
from onnxgen.errors import ConfigError
from onnxgen.kvcache.tiers import Piece, Tiers

PROMPT = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3]
PIECES = [Piece(0, 4), Piece(1, 4), Piece(2, 2)]
ELSEWHERE = [Piece(5, 4), Piece(4, 4), Piece(3, 2)]


@pytest.fixture
def backend():
    return FakeBackend(block_size=4)


@pytest.fixture
def cache(backend):
    cache = backend.create_cache(num_seqs=2, num_tokens=12)
    backend.execute(pack_step([SequenceInput(PROMPT, 0, [0, 1, 2])]), cache)
    return cache


def wipe(cache):
    cache.tokens[...] = -1


def answers(backend, cache):
    output = backend.execute(pack_step([SequenceInput([7], len(PROMPT), [5, 4, 3])]), cache)
    return np.array_equal(output.logits[0], backend.logits_after([*PROMPT, 7]))


def files_in(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


def test_content_comes_back_from_memory(backend, cache):
    mover = CacheBlockMover(cache)
    assert mover.save(1, PIECES) > 8 * len(PROMPT)
    wipe(cache)
    assert mover.load(1, ELSEWHERE)
    assert answers(backend, cache)
    assert not mover.to_disk(1), "there is no disk"


def test_content_comes_back_from_disk(backend, cache, tmp_path):
    mover = CacheBlockMover(cache, folder=tmp_path / "not" / "yet")
    mover.save(1, PIECES)
    assert mover.to_disk(1)
    assert len(files_in(tmp_path)) == 1
    wipe(cache)
    assert mover.load(1, ELSEWHERE)
    assert answers(backend, cache)
    mover.forget(1)
    assert files_in(tmp_path) == []
    mover.close()
    mover.close()
    assert list((tmp_path / "not" / "yet").iterdir()) == []


def test_blocks_of_windows_are_moved_as_well(tmp_path):
    backend = FakeBackend(block_size=4, window=4)
    cache = backend.create_cache(num_seqs=2, num_tokens=12, window_group=True)
    start = SequenceInput(PROMPT, 0, [0, 1, 2], window_blocks=[2, 1, 0])
    backend.execute(pack_step([start]), cache)
    mover = CacheBlockMover(cache, folder=tmp_path)
    windows = [Piece(1, 4, WINDOW), Piece(0, 2, WINDOW)]
    mover.save(1, [*PIECES, *windows])
    mover.to_disk(1)
    wipe(cache)
    cache.window_tokens[...] = -1
    assert mover.load(1, [*ELSEWHERE, Piece(3, 4, WINDOW), Piece(4, 2, WINDOW)])
    step = pack_step([SequenceInput([7], len(PROMPT), [5, 4, 3], window_blocks=[-1, 3, 4])])
    assert np.array_equal(backend.execute(step, cache).logits[0], backend.logits_after([*PROMPT, 7]))
    mover.close()


@pytest.mark.parametrize("how", ["flipped", "cut", "empty", "gone", "another"])
def test_a_damaged_file_is_lost_and_said_so(cache, tmp_path, caplog, how):
    mover = CacheBlockMover(cache, folder=tmp_path)
    mover.save(1, PIECES)
    mover.to_disk(1)
    (path,) = files_in(tmp_path)
    content = bytearray(path.read_bytes())
    if how == "flipped":
        content[np.random.default_rng().integers(len(content))] ^= 4
    elif how == "another":
        mover.save(2, PIECES)
        mover.to_disk(2)
        content = path.with_name("2.blocks").read_bytes()
    elif how == "cut":
        content = content[: np.random.default_rng().integers(1, len(content))]
    if how == "gone":
        path.unlink()
    else:
        path.write_bytes(b"" if how == "empty" else content)
    with caplog.at_level(logging.WARNING):
        assert not mover.load(1, ELSEWHERE)
    assert "cannot" in caplog.text or "could not be read back" in caplog.text
    mover.forget(1)
    mover.close()


def test_a_disk_that_takes_nothing_leaves_content_in_memory(backend, cache, tmp_path, caplog, monkeypatch):
    mover = CacheBlockMover(cache, folder=tmp_path)
    mover.save(1, PIECES)

    def full(checksum, *_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
        patch.setattr("onnxgen.engine.block_mover.zlib.crc32", full)
        assert not mover.to_disk(1)
        assert not mover.to_disk(1)
    assert caplog.text.count("No space left on device") == 1, "one line is enough until it works again"
    assert files_in(tmp_path) == []
    wipe(cache)
    assert mover.load(1, ELSEWHERE)
    assert answers(backend, cache)
    assert mover.to_disk(1)
    mover.close()


def test_a_cache_that_cannot_give_is_a_failure_and_not_an_error(cache):
    mover = CacheBlockMover(cache)
    tiers = Tiers(mover, host_bytes=10**6)
    assert tiers.put([Piece(4, 4)]) is None  # nobody wrote it
    assert tiers.usage().failures == 1
    key = tiers.put(PIECES)
    assert not tiers.take(key, [Piece(0, 4), Piece(1, 3), Piece(2, 2)])
    assert tiers.usage().failures == 2
    assert tiers.usage().num_items == 0


def test_movers_share_a_folder_and_clear_up_after_the_dead(cache, tmp_path):
    dead = tmp_path / ".blocks.abcdefgh.partial"
    dead.mkdir()
    (dead / "1.blocks").write_bytes(b"left")
    first, second = (CacheBlockMover(cache, folder=tmp_path) for _ in range(2))
    for mover in (first, second):
        mover.save(1, PIECES)
        assert mover.to_disk(1)
    if sys.platform != "win32":
        assert not dead.exists()
        (folder, _) = [path for path in tmp_path.iterdir() if path.is_dir()]
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    first.close()
    assert second.load(1, ELSEWHERE)
    second.close()


def test_a_folder_that_cannot_be_made_is_said_at_once(cache, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ConfigError, match="file"):
        CacheBlockMover(cache, folder=tmp_path / "file" / "below")


def test_moves_are_measured(cache, tmp_path):
    seen, times = [], iter(range(100))
    mover = CacheBlockMover(
        cache, folder=tmp_path, observe=lambda *what: seen.append(what), clock=lambda: next(times)
    )
    size = mover.save(1, PIECES)
    mover.to_disk(1)
    mover.load(1, ELSEWHERE)
    assert seen == [(size, 1), (size, 1)]
    mover.close()
