"""Bugs put into the engine on purpose: the checker must name the rule that each of them breaks.

The run is a fixed one with shared beginnings, forks, steps that fail or are interrupted, a cancel, sequences that give
way and an answer that is continued. Without a bug it breaks no rule.
"""

import contextlib
from dataclasses import replace

import pytest

from engine_runs import FailsOn
from onnxgen.backends.fake import FakeBackend
from onnxgen.conformance.engine_trace import check_trace
from onnxgen.engine.config import EngineConfig
from onnxgen.engine.core import EngineCore
from onnxgen.engine.execution import Executor
from onnxgen.engine.register import Register
from onnxgen.engine.request import EngineRequest
from onnxgen.engine.sampling.options import SamplingOptions
from onnxgen.kvcache import prefix_tree
from onnxgen.kvcache.base import PoolShape
from onnxgen.kvcache.block_keys import TOKEN_BYTES
from onnxgen.kvcache.block_pool import BlockPool
from onnxgen.kvcache.manager import CacheManager
from onnxgen.kvcache.prefix_tree import PrefixTree
from onnxgen.kvcache.reservation import Reservation
from onnxgen.kvcache.supply import BlockSupply
from onnxgen.scheduler.config import SchedulerConfig
from onnxgen.scheduler.scheduler import Scheduler

SHARED = [1, 2, 3, 4, 5, 6, 7, 8, 9, 1]


BUDGETS = SchedulerConfig(max_seqs=4, max_step_tokens=14, chunk_tokens=8, preemption="recompute")

FAULTY = 11
"""No sequence with two of these tokens side by side can be computed."""


class Model(FakeBackend):
    """Is interrupted once; fails once for everybody, and for one request for good."""

    def __init__(self, **options):
        fails_on = FailsOn(FAULTY, FAULTY)
        super().__init__(13, max_context=64, block_size=4, fail_steps={6}, fail_when=fails_on, **options)

    def execute(self, step, cache):
        output = super().execute(step, cache)
        if self.num_steps == 9:
            raise KeyboardInterrupt
        return output


def run(folder, **backend):
    """The rules that the fixed run breaks; an engine that gives up in the middle is closed there."""
    config = EngineConfig(scheduler=BUDGETS, cache_tokens=128, trace=folder / "trace")
    core = EngineCore(Model(**backend), config)
    with contextlib.suppress(Exception):
        drive(core)
    with contextlib.suppress(Exception):
        core.close()
    core._trace._file.close()
    with (folder / "trace").open(encoding="utf-8") as lines:
        return {violation.rule for violation in check_trace(lines, starved_steps=2).violations}


def drive(core):
    def ask(prompt, new, *, n=1, **options):
        sampling = SamplingOptions(temperature=1, seed=len(prompt))
        core.submit(EngineRequest(prompt, sampling, max_new_tokens=new, n=n, ignore_eos=True, **options))

    def steps(count):
        for _ in range(count):
            with contextlib.suppress(KeyboardInterrupt):
                events.extend(core.step())

    events = []
    ask([*SHARED, 2, 2], 20, n=3)
    steps(3)
    ask([*SHARED, 3], 16)
    ask([7] * 21, 9)
    steps(3)
    ask(SHARED, 6, salt="salt")
    ask([*SHARED[:6], 12, 12, 12, 12, 12, 12], 12)
    ask([*SHARED, FAULTY, FAULTY], 4)
    steps(6)
    core.cancel(1)
    steps(4)
    core.reconfigure(replace(BUDGETS, max_seqs=2))
    steps(4)
    core.reconfigure(BUDGETS)
    steps(8)
    first = [e.token_id for e in events if (e.request_id, e.index) == (0, 0)]
    ask([*SHARED, 2, 2, *first], 8)
    steps(6)
    for _ in range(100):
        if core.has_work:
            steps(1)
    ask([*SHARED, 5], 9, n=2)
    steps(1)


def skips_copies(patch):
    patch.setattr(BlockPool, "may_write", lambda self, block, offset: True)


def forgets_copies(patch):
    patch.setattr(Reservation, "copies", lambda self, seqs=None: [])


def copies_one_token_less(patch):
    honest = Reservation.copies
    patch.setattr(
        Reservation, "copies", lambda *a: [replace(c, num_tokens=c.num_tokens - 1) for c in honest(*a)]
    )


def frees_blocks_twice(patch):
    honest = BlockPool.release

    def release(self, block):
        honest(self, block)
        if not self.references[block]:
            self._free.append(block)

    patch.setattr(BlockPool, "release", release)


def is_one_token_short_after_a_rollback(patch):
    honest = Reservation.rollback

    def rollback(self, seq):
        sequence = self._growth(seq).sequence
        honest(self, seq)
        sequence.length -= 1

    patch.setattr(Reservation, "rollback", rollback)


def commits_what_failed(patch):
    patch.setattr(Executor, "_roll_back", Executor._commit)


def commits_one_token_too_few(patch):
    honest = Reservation.commit

    def commit(self, seq, tokens):
        growth = self._growth(seq)
        growth.num_tokens -= growth.num_tokens > 1
        honest(self, seq, tokens)

    patch.setattr(Reservation, "commit", commit)


def believes_hashes(patch):
    """Keys collide, and nobody compares the tokens themselves."""

    def child(self, node, content):
        return node.children[0] if node.children and len(node.children[0].content) == len(content) else None

    patch.setattr(PrefixTree, "child", child)


def takes_near_hits_for_whole_ones(patch):
    patch.setattr(prefix_tree, "num_common", lambda left, right: min(len(left), len(right)) // TOKEN_BYTES)


def ignores_salts(patch):
    honest = PrefixTree.root
    patch.setattr(PrefixTree, "root", lambda self, extra: honest(self, None))


def hands_out_a_block_that_is_held(patch):
    """Sequence 4 gets block 0, which the sequences before it share."""
    honest = Reservation.extend

    def extend(self, seq, num_tokens):
        pool = self._supply.pools[0]
        if seq == 4 and pool.references[0]:
            pool.references[0] += 1
            pool._free.append(0)
        return honest(self, seq, num_tokens)

    patch.setattr(Reservation, "extend", extend)


def forgets_blocks_of_who_is_cancelled(patch):
    honest = Scheduler.remove

    def remove(self, job, *, keep):
        if job.id == 1:
            self._roster.leave(job)
        else:
            honest(self, job, keep=keep)

    patch.setattr(Scheduler, "remove", remove)


def never_lets_go_of_cached_blocks(patch):
    def drop(self, entries):
        for entry in entries:
            self.pools[0].share(entry.block)

    patch.setattr(BlockSupply, "drop", drop)


def tells_an_end_twice(patch):
    def tell_end(self, tracked, event):
        honest(self, tracked, event)
        self._trace.finish(event.request_id, event.index, event.finish_reason)

    honest = Register._tell_end
    patch.setattr(Register, "_tell_end", tell_end)


def goes_on_after_an_end(patch):
    def end_index(self, tracked, index, reason):
        self._trace.finish(tracked.id, index, reason)

    patch.setattr(Register, "end_index", end_index)


def lets_go_without_a_word(patch):
    patch.setattr(Register, "_tell_end", lambda self, tracked, event: None)


def plans_too_many_tokens(patch):
    honest = EngineCore._scheduling
    patch.setattr(
        EngineCore, "_scheduling", lambda self, config: replace(honest(self, config), chunk_tokens=14)
    )


def runs_too_many_sequences(patch):
    honest = EngineCore._scheduling
    patch.setattr(EngineCore, "_scheduling", lambda self, config: replace(honest(self, config), max_seqs=6))


def lets_answers_wait_for_prompts(patch):
    honest = Scheduler.plan

    def plan(self):
        found = honest(self)
        prompts = [part for part in found.slices if part.num_tokens > 1] if found else []
        for part in found.slices if prompts else ():
            if part not in prompts:
                found.reservation.withdraw(part.job.id)
        return replace(found, slices=prompts) if prompts else found

    patch.setattr(Scheduler, "plan", plan)


def feeds_the_last_token_twice(patch):
    honest = Executor._execute

    def execute(self, parts, reservation):
        for part in parts:
            if part.num_tokens > 1:
                part.job.tokens.view()[part.context_len + 1] = part.job.tokens.view()[part.context_len]
        return honest(self, parts, reservation)

    patch.setattr(Executor, "_execute", execute)


def keeps_tables_of_who_gave_way(patch):
    honest = CacheManager.open

    def open_again(self, seq, tokens, **options):
        cached = honest(self, seq, tokens, **options)
        if len(tokens) > 20 and not cached:
            self._sequences[seq].length = 4
            self._sequences[seq].tables[0] = [self._supply.take(0)]
            return 4
        return cached

    patch.setattr(CacheManager, "open", open_again)


def gives_window_blocks_back_too_early(patch):
    patch.setattr(
        PoolShape,
        "first_seen",
        lambda self, length: max(0, length + 5 - (self.window or 0)) // self.block_size,
    )


BUGS = {
    skips_copies: "sharing",
    forgets_copies: "content",
    copies_one_token_less: "content",
    frees_blocks_twice: "sharing",
    is_one_token_short_after_a_rollback: "context",
    commits_what_failed: "lifecycle",
    commits_one_token_too_few: "context",
    believes_hashes: "content",
    takes_near_hits_for_whole_ones: "content",
    ignores_salts: "content",
    hands_out_a_block_that_is_held: "sharing",
    forgets_blocks_of_who_is_cancelled: "leak",
    never_lets_go_of_cached_blocks: "leak",
    tells_an_end_twice: "finish",
    goes_on_after_an_end: "after_finish",
    lets_go_without_a_word: "finish",
    plans_too_many_tokens: "budget",
    runs_too_many_sequences: "budget",
    lets_answers_wait_for_prompts: "starved",
    feeds_the_last_token_twice: "tokens",
    keeps_tables_of_who_gave_way: "content",
}


def test_the_run_without_a_bug_breaks_no_rule(tmp_path):
    assert run(tmp_path) == set()
    assert run(tmp_path, window=6) == set()


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_the_checker_names_the_rule_that_a_bug_breaks(tmp_path, monkeypatch, bug):
    bug(monkeypatch)
    assert BUGS[bug] in run(tmp_path)


def test_blocks_of_a_window_that_are_given_back_too_early(tmp_path, monkeypatch):
    gives_window_blocks_back_too_early(monkeypatch)
    assert "range" in run(tmp_path, window=6)
