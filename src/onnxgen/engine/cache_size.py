"""How large a cache an engine makes: by tokens, by memory, or by what the machine has."""

from __future__ import annotations

import logging

from onnxgen.backends.base import WINDOW_STEP_TOKENS, Backend, KVCache
from onnxgen.engine.config import EngineConfig
from onnxgen.errors import BackendError
from onnxgen.foundations.cpuinfo import detect_memory

_log = logging.getLogger(__name__)

_MIB = 1 << 20
_PROBE_TOKENS = 256
_SHARE_OF_MEMORY = 4
_FALLBACK_BYTES = 1 << 30


def make_cache(
    backend: Backend, config: EngineConfig, *, max_seq_tokens: int, whole_chunk_tokens: int = 1
) -> KVCache:
    """A cache as large as the configuration asks for.

    Without a size in the configuration, a cache that the backend refuses is tried at half the size, down to one
    sequence.

    Args:
        backend: Makes it.
        config: What was asked for.
        max_seq_tokens: The longest sequence.
        whole_chunk_tokens: So many new tokens of a sequence must fit into one step. Where windowed layers' blocks of
            their own have no room for that, all layers share one kind.

    Raises:
        BackendError: The memory cannot be had; the message has both sizes.
    """
    asked = config.cache_mb is not None or config.cache_tokens is not None
    probe = _Probe(backend, max_seq_tokens)
    num_tokens = _wanted_tokens(config, probe, max_seq_tokens=max_seq_tokens)
    windowed = backend.capabilities.window is not None and whole_chunk_tokens <= WINDOW_STEP_TOKENS
    while True:
        try:
            cache = _cache_of(
                backend, config, num_tokens, probe, max_seq_tokens=max_seq_tokens, window_group=windowed
            )
        except BackendError as error:
            if asked or num_tokens <= max_seq_tokens:
                raise
            _log.info("a cache of %d tokens was refused (%s), trying half of it", num_tokens, error)
            num_tokens = max(num_tokens // 2, max_seq_tokens)
        else:
            size = cache.geometry
            _log.info(
                "keys and values: %d blocks of %d tokens, %.0f MiB once all are used",
                size.num_blocks,
                size.block_size,
                cache.num_bytes / _MIB,
            )
            return cache


class _Probe:
    """What a small cache tells of larger ones: the positions of a block, and the memory of a position."""

    def __init__(self, backend: Backend, max_seq_tokens: int) -> None:
        cache = backend.create_cache(num_seqs=1, num_tokens=min(_PROBE_TOKENS, max_seq_tokens))
        geometry = cache.geometry
        self.block_size = geometry.block_size
        self.token_bytes = max(cache.num_bytes // (geometry.num_blocks * geometry.block_size), 1)
        cache.close()


def _cache_of(
    backend: Backend,
    config: EngineConfig,
    num_tokens: int,
    probe: _Probe,
    *,
    max_seq_tokens: int,
    window_group: bool,
) -> KVCache:
    if not backend.capabilities.paged:
        return backend.create_cache(num_seqs=max(num_tokens // max_seq_tokens, 1), num_tokens=max_seq_tokens)
    # whole blocks, as many for each of `max_seqs`
    num_blocks = -(-num_tokens // probe.block_size)
    blocks_each = max(num_blocks // config.scheduler.max_seqs, 1)
    blocks_each = min(blocks_each, -(-max_seq_tokens // probe.block_size))
    return backend.create_cache(
        num_seqs=-(-num_blocks // blocks_each),
        num_tokens=min(blocks_each * probe.block_size, max_seq_tokens),
        window_group=window_group,
    )


def _wanted_tokens(config: EngineConfig, probe: _Probe, *, max_seq_tokens: int) -> int:
    if config.cache_tokens is not None:
        return config.cache_tokens
    if config.cache_mb is not None:
        return max(config.cache_mb * _MIB // probe.token_bytes, 1)
    available = detect_memory().available_bytes or _FALLBACK_BYTES * _SHARE_OF_MEMORY
    most = config.scheduler.max_seqs * max_seq_tokens
    return min(max(available // _SHARE_OF_MEMORY // probe.token_bytes, 1), most)
