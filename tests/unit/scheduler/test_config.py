"""Configurations that cannot work are refused."""

import pytest

from onnxgen.errors import ConfigError, NeverFitsError
from onnxgen.kvcache.base import PoolShape
from onnxgen.kvcache.manager import CacheManager
from onnxgen.scheduler.config import SchedulerConfig
from onnxgen.scheduler.costs import PreemptionCosts
from onnxgen.scheduler.job import Job
from onnxgen.scheduler.scheduler import Scheduler


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"max_seqs": 0}, "max_seqs is 0; it must be at least 1"),
        ({"chunk_tokens": -1}, "chunk_tokens is -1"),
        ({"max_step_tokens": 0}, "max_step_tokens is 0"),
        ({"max_cache_bytes": 0}, "max_cache_bytes is 0"),
        ({"max_waiting": -1}, "max_waiting is -1"),
        ({"aging_steps": 0}, "aging_steps is 0"),
        ({"max_seqs": True}, "max_seqs is True; it must be an integer of at least 1"),
        ({"chunk_tokens": "64"}, "chunk_tokens is '64'; it must be an integer"),
        ({"aging_steps": 2.5}, "aging_steps is 2.5; it must be an integer"),
        ({"wait_for_prefix": 1}, "wait_for_prefix is 1; it must be True or False"),
        ({"solo": "no"}, "solo is 'no'; it must be True or False"),
        ({"tenant_weights": ["a"]}, r"tenant_weights is \['a'\]; it must map"),
        ({"tenant_weights": {"a": "2"}}, r"tenant_weights\['a'\] is '2'"),
        ({"tenant_weights": {"a": True}}, r"tenant_weights\['a'\] is True"),
        ({"policy": None}, "policy is None; it must be a name"),
        ({"preemption": None}, "preemption is None; it is one of"),
        ({"max_seqs": 9, "max_step_tokens": 8}, "max_step_tokens is 8, but max_seqs=9"),
        ({"tenant_weights": {"a": 0.0}}, r"tenant_weights\['a'\] is 0.0"),
        ({"tenant_weights": {"a": float("nan")}}, r"tenant_weights\['a'\] is nan"),
        ({"preemption": "recompte"}, "mean 'recompute'"),
        ({"solo": True, "chunk_tokens": 600}, "chunk_tokens=600"),
    ],
)
def test_what_cannot_work_is_refused(fields, message):
    with pytest.raises(ConfigError, match=message):
        SchedulerConfig(**fields)


def test_a_budget_in_bytes_needs_blocks_with_a_size():
    cache = CacheManager(PoolShape(num_blocks=4, block_size=4))
    with pytest.raises(ConfigError, match="does not say how many bytes a block takes"):
        Scheduler(SchedulerConfig(max_cache_bytes=1000), cache, costs=PreemptionCosts())


def test_a_budget_in_bytes_counts_blocks_of_windows_where_there_are_no_others():
    shape = PoolShape(num_blocks=8, block_size=4, window=4, window_blocks=8, window_block_bytes=100)
    config = SchedulerConfig(max_cache_bytes=200, chunk_tokens=4, max_step_tokens=32)
    scheduler = Scheduler(config, CacheManager(shape), costs=PreemptionCosts())
    scheduler.add(Job(0, [1] * 7, max_tokens=8))
    with pytest.raises(NeverFitsError, match="200 bytes"):
        scheduler.add(Job(1, [1] * 7, max_tokens=9))


def test_chunks_that_must_be_whole_fit_the_blocks_of_windows():
    cache = CacheManager(PoolShape(num_blocks=64, block_size=4, window=8, window_blocks=11))
    Scheduler(SchedulerConfig(solo=True, chunk_tokens=32), cache, costs=PreemptionCosts())
    with pytest.raises(ConfigError, match=r"chunk_tokens=33 tokens, but the 11 blocks .* have room for 32"):
        Scheduler(SchedulerConfig(solo=True, chunk_tokens=33), cache, costs=PreemptionCosts())
    Scheduler(SchedulerConfig(chunk_tokens=33), cache, costs=PreemptionCosts())


def test_a_bad_configuration_changes_nothing_while_running():
    cache = CacheManager(PoolShape(num_blocks=4, block_size=4))
    scheduler = Scheduler(SchedulerConfig(), cache, costs=PreemptionCosts())
    for bad in (SchedulerConfig(max_cache_bytes=1000), SchedulerConfig(policy="nope")):
        with pytest.raises(ConfigError):
            scheduler.reconfigure(bad)
    assert scheduler._config == SchedulerConfig()
