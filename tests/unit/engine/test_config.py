"""Configurations of engines: what cannot work is refused, and paths may be texts."""

import pytest

from onnxgen.backends.fake import FakeBackend
from onnxgen.engine.config import EngineConfig
from onnxgen.engine.core import EngineCore
from onnxgen.engine.request import EngineRequest
from onnxgen.errors import ConfigError, StateError
from onnxgen.scheduler.config import SchedulerConfig


class Counted(FakeBackend):
    """Remembers the caches that it made."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.caches = []

    def create_cache(self, **size):
        self.caches.append(super().create_cache(**size))
        return self.caches[-1]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"max_seq_tokens": 0}, "max_seq_tokens is 0; it must be at least 1"),
        ({"cache_mb": "2048"}, "cache_mb is '2048'; it must be an integer"),
        ({"cache_tokens": True}, "cache_tokens is True; it must be an integer"),
        ({"host_tier_mb": -1}, "host_tier_mb is -1; it must be at least 0"),
        ({"host_tier_mb": 0.5}, "host_tier_mb is 0.5; it must be an integer"),
        ({"prefix_reuse": None}, "prefix_reuse is None; it must be True or False"),
        ({"strict": 1}, "strict is 1; it must be True or False"),
        ({"trace": 7}, "trace is 7; it must be a path"),
        ({"cache_mb": 1, "cache_tokens": 2}, "cache_mb=1 and cache_tokens=2"),
        ({"disk_tier_mb": 1}, "disk_tier_mb=1 needs disk_tier_dir"),
        ({"disk_tier_dir": "blocks"}, "disk_tier_dir='blocks' needs disk_tier_mb"),
    ],
)
def test_what_cannot_work_is_refused(fields, message):
    with pytest.raises(ConfigError, match=message):
        EngineConfig(**fields)


def test_paths_may_be_texts(tmp_path):
    config = EngineConfig(
        cache_tokens=64,
        disk_tier_mb=1,
        disk_tier_dir=str(tmp_path / "tier"),
        trace=str(tmp_path / "steps.jsonl"),
    )
    core = EngineCore(FakeBackend(max_context=32, block_size=4), config)
    assert list((tmp_path / "tier").iterdir())
    core.submit(EngineRequest([1, 2], max_new_tokens=1))
    core.step()
    core.close()
    assert (tmp_path / "steps.jsonl").stat().st_size > 0


def test_an_engine_that_cannot_be_made_leaves_nothing_behind(tmp_path):
    config = EngineConfig(
        scheduler=SchedulerConfig(policy="fastest"),
        cache_tokens=64,
        disk_tier_mb=1,
        disk_tier_dir=tmp_path / "tier",
        trace=tmp_path / "steps.jsonl",
    )
    backend = Counted(max_context=32, block_size=4)
    with pytest.raises(ConfigError, match="unknown scheduling policy 'fastest'"):
        EngineCore(backend, config)
    assert backend.caches
    for cache in backend.caches:
        with pytest.raises(StateError):
            cache.export_block(0, 1)
    assert list((tmp_path / "tier").iterdir()) == []
