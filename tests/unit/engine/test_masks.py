"""Masks that are worked out in another thread, for one step after the other."""

import gc
import itertools
import threading

import numpy as np
import pytest

from list_grammars import ListCompiler, ListState, lists
from onnxgen.engine.masks import MaskWorker
from onnxgen.engine.request import EngineRequest
from onnxgen.engine.sample import Sample
from onnxgen.engine.sampling.options import SamplingOptions
from onnxgen.engine.tokens import TokenBuffer
from onnxgen.errors import GrammarError

VOCAB, EOS = 70, 2
COMPILER = ListCompiler(VOCAB, (EOS,))


def sample_of(grammar, answer=(), **options):
    tokens = TokenBuffer()
    tokens.extend([9, *answer])
    return Sample(
        0,
        0,
        request=EngineRequest([9], grammar=grammar, **options),
        tokens=tokens,
        prompt_tokens=1,
        options=SamplingOptions(seed=0),
        processors=(),
        grammar=COMPILER.compile(grammar).new_state(),
    )


def allowed(mask):
    return np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little")).tolist()


@pytest.fixture(params=["alone", "helped"])
def worker(request):
    late = itertools.count() if request.param == "helped" else itertools.repeat(0)
    made = MaskWorker(vocab_size=VOCAB, eos_ids=[EOS], clock=late.__next__)
    yield made
    made.close()
    made.close()


def test_each_sample_gets_its_masks_also_along_drafts(worker):
    first = sample_of(lists((4, 5, 6), (4, 7), (69,)), (4,))
    second = sample_of(lists((4, 5, 6), (4, 7), (69,)))
    for _ in range(3):
        worker.begin([(first, ()), (second, (4, 7))])
        assert [allowed(mask) for mask in worker.masks(second)] == [[4, 69], [5, 7], [EOS]]
        assert [allowed(mask) for mask in worker.masks(first)] == [[5, 7]]
    worker.begin([])
    with pytest.raises(GrammarError, match="not worked out"):
        worker.masks(first)


def test_masks_are_of_answers_as_they_are_now(worker):
    sample = sample_of(lists((4, 5, 6), (4, 7)))
    for token, expected in ((4, [4]), (5, [5, 7]), (6, [6])):
        worker.begin([(sample, ())])
        assert allowed(worker.masks(sample)[0]) == expected
        sample.tokens.append(token)


def test_what_breaks_is_told_to_who_asks_for_it_alone(worker):
    broken, fine = sample_of(lists((0, 8))), sample_of(lists((1, 8)))
    broken.tokens.append(0)
    worker.begin([(broken, ()), (fine, ())])
    with pytest.raises(GrammarError, match="told to"):
        worker.masks(broken)
    assert allowed(worker.masks(fine)[0]) == [1]


def test_an_answer_that_the_grammar_does_not_allow_is_told(worker):
    sample = sample_of(lists((4, 5)), (7,))
    worker.begin([(sample, ())])
    with pytest.raises(GrammarError, match="7 may not come"):
        worker.masks(sample)


def test_ends_that_do_not_count_are_left_out_where_others_may_follow(worker):
    goes_on = sample_of(lists((4,), (4, 5)), (4,), ignore_eos=True)
    counts = sample_of(lists((4,), (4, 5)), (4,))
    complete = sample_of(lists((4, 5)), (4, 5), ignore_eos=True)
    worker.begin([(goes_on, ()), (counts, ()), (complete, ())])
    assert [allowed(worker.masks(s)[0]) for s in (goes_on, counts, complete)] == [[5], [EOS, 5], [EOS]]


def test_the_next_step_waits_for_a_mask_that_nobody_asked_about(monkeypatch):
    worker = MaskWorker(vocab_size=VOCAB, eos_ids=[EOS], clock=itertools.count().__next__)
    gate, begun, fill = threading.Event(), threading.Event(), ListState.fill

    def slow(self, mask):
        begun.set()
        gate.wait()
        fill(self, mask)

    monkeypatch.setattr(ListState, "fill", slow)
    samples = [sample_of(lists((4, 5), (4, 6))) for _ in range(5)]
    worker.begin([(sample, ()) for sample in samples])
    assert begun.wait(10)
    threading.Timer(0.05, gate.set).start()
    for sample in samples:  # as after a step that was interrupted, and done again
        sample.tokens.append(4)
    worker.begin([(sample, ()) for sample in samples])
    assert [allowed(worker.masks(sample)[0]) for sample in samples] == [[5, 6]] * 5
    worker.close()


def test_masks_that_take_long_are_worked_out_by_both(monkeypatch):
    worker = MaskWorker(vocab_size=VOCAB, eos_ids=[EOS], clock=itertools.count(step=0.0006).__next__)
    both, threads, fill = threading.Barrier(2), {}, ListState.fill

    def together(self, mask):
        threads[id(self)] = threading.get_ident()
        if len(threads) > 1:  # the first is worked out before the pass
            both.wait(10)
        fill(self, mask)

    monkeypatch.setattr(ListState, "fill", together)
    samples = [sample_of(lists((4, 5), (4, 6))) for _ in range(5)]
    worker.begin([(sample, ()) for sample in samples])
    assert [allowed(worker.masks(sample)[0]) for sample in samples] == [[4]] * 5
    assert threads[id(samples[0].grammar)] == threading.get_ident()
    assert len(set(threads.values())) == 2
    worker.close()


def test_a_worker_that_is_dropped_ends_its_thread():
    worker = MaskWorker(vocab_size=VOCAB, eos_ids=[EOS], clock=itertools.count().__next__)
    samples = [sample_of(lists((4, 5))) for _ in range(4)]
    worker.begin([(sample, ()) for sample in samples])
    worker.masks(samples[0])
    [thread] = [t for t in threading.enumerate() if t.name == "onnxgen-masks"]
    del worker
    gc.collect()
    thread.join(10)
    assert not thread.is_alive()


def test_without_masks_there_is_no_thread(worker):
    before = threading.active_count()
    worker.begin([])
    worker.finish()
    assert threading.active_count() == before
