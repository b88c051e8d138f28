"""An engine from inside: sequences, steps and known prefixes; names of requests, and how long they waited."""

import json
import logging
import time

import numpy as np
import pytest

from onnxgen.backends.fake import FakeBackend
from onnxgen.conformance.engine_trace import check_trace
from onnxgen.engine.config import EngineConfig
from onnxgen.engine.core import EngineCore
from onnxgen.engine.request import EngineRequest
from onnxgen.errors import OptionError
from onnxgen.kvcache.block_keys import blake2b, pack, root_key
from onnxgen.scheduler.config import SchedulerConfig

BLOCK = 4


def _engine(*, seqs=2, **config):
    backend = FakeBackend(max_context=64, block_size=BLOCK)
    config.setdefault("cache_tokens", 64 * 8)
    return EngineCore(backend, EngineConfig(scheduler=SchedulerConfig(max_seqs=seqs), **config), eos_ids=[31])


def _drive(core):
    events = []
    while core.has_work:
        events += core.step()
    return events


def test_sequences_are_shown_by_name_as_they_are():
    core = _engine(seqs=1)
    core.submit(EngineRequest([1, 2, 3], max_new_tokens=9, ignore_eos=True, name="first", priority=3))
    core.submit(EngineRequest([4, 5], max_new_tokens=9, ignore_eos=True))
    core.step()
    first, second = core.view(steps=0, prefixes=0).sequences
    assert (first.name, first.state, first.prompt_tokens, first.priority) == ("first", "decode", 3, 3)
    assert (first.num_tokens, first.held_tokens, first.num_blocks) == (4, 3, 1)
    assert (second.name, second.state, second.num_tokens, second.num_blocks) == ("1", "waiting", 2, 0)
    _drive(core)
    assert core.view(steps=0, prefixes=0).sequences == ()


def test_the_last_steps_are_in_order_and_of_this_time():
    core, began = _engine(), time.perf_counter()
    core.submit(EngineRequest([1, 2, 3], max_new_tokens=7, ignore_eos=True))
    _drive(core)
    steps = core.view(steps=3, prefixes=0).steps
    assert [s.number for s in steps] == [4, 5, 6]
    assert len(core.view(steps=1000, prefixes=0).steps) == 7
    assert core.view(steps=0, prefixes=0).steps == ()
    times = [began, *(t for s in steps for t in (s.began_s, s.began_s + s.total_s)), time.perf_counter()]
    assert times == sorted(times)


@pytest.mark.parametrize("salt", [None, "theirs"])
def test_prefixes_are_the_keys_of_whole_blocks(salt):
    core = _engine()
    prompt = list(np.random.default_rng(5).integers(0, 31, 2 * BLOCK + 1))
    core.submit(EngineRequest(prompt, max_new_tokens=1, salt=salt))
    _drive(core)
    view = core.view(steps=0, prefixes=10)
    assert view.block_size == BLOCK
    key = root_key(None if salt is None else (salt, None, None), digest=blake2b)
    expected = []
    for block in range(2):
        key = blake2b(key + pack([int(t) for t in prompt[block * BLOCK : (block + 1) * BLOCK]]))
        expected.append((key.hex(), (block + 1) * BLOCK))
    assert [(p.key, p.num_tokens) for p in view.prefixes] == expected
    assert len(core.view(steps=0, prefixes=1).prefixes) == 1


def test_how_long_a_request_waited_is_known_when_it_ends():
    core = _engine(seqs=1)
    for prompt in ([1, 2], [3, 4]):
        core.submit(EngineRequest(prompt, max_new_tokens=5, ignore_eos=True))
    never = core.submit(EngineRequest([5, 6], max_new_tokens=5))
    core.cancel(never)
    ends = {e.request_id: e.usage for e in _drive(core) if e.finish_reason is not None}
    assert ends[never].queued_s is None
    assert 0 <= ends[0].queued_s < ends[1].queued_s


def test_names_are_in_the_trace_and_in_the_log(tmp_path, caplog):
    path = tmp_path / "trace.jsonl"
    core = _engine(trace=path)
    core.submit(EngineRequest([1, 2], max_new_tokens=2, name="named"))
    core.submit(EngineRequest([1, 2], max_new_tokens=2))
    _drive(core)
    core.close()
    lines = path.read_text().splitlines()
    submits = [line for line in map(json.loads, lines) if line["event"] == "submit"]
    assert [line.get("name") for line in submits] == ["named", None]
    assert not check_trace(lines).violations


def test_a_fault_is_logged_with_the_name_of_its_request(caplog):
    class Faulty(FakeBackend):
        def execute(self, step, cache):
            raise RuntimeError("no luck")

    core = EngineCore(Faulty(max_context=64, block_size=BLOCK), EngineConfig(cache_tokens=256), eos_ids=[31])
    core.submit(EngineRequest([1, 2], max_new_tokens=2, name="unlucky"))
    with caplog.at_level(logging.WARNING, logger="onnxgen.engine"):
        (end,) = _drive(core)
    assert end.finish_reason == "error"
    assert any("request unlucky" in r.getMessage() and "no luck" in r.getMessage() for r in caplog.records)


def test_a_name_is_a_text():
    with pytest.raises(OptionError, match="name must be a text"):
        EngineRequest([1], name=7)  # type: ignore[arg-type]
