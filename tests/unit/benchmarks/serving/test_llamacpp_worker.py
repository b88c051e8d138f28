import ctypes
from types import SimpleNamespace

import pytest
from benchmarks.serving.scenario import Request, Scenario, Setup
from benchmarks.serving.workers.driving import play
from benchmarks.serving.workers.llamacpp import LlamaServer

VOCAB = 50


class FakeLlama:
    """The functions that are used, over caches that are lists; a token is followed by the sum of its sequence."""

    def __init__(self, step_tokens, sequences):
        self.batch = SimpleNamespace(
            n_tokens=0,
            token=[0] * step_tokens,
            pos=[0] * step_tokens,
            logits=[False] * step_tokens,
            n_seq_id=[0] * step_tokens,
            seq_id=[[0] for _ in range(step_tokens)],
        )
        self.caches = [[] for _ in range(sequences)]
        self.steps = []

    def llama_decode(self, context, batch):
        rows = range(batch.n_tokens)
        assert rows
        self.steps.append([batch.seq_id[row][0] for row in rows])
        self.logits = {}
        for row in rows:
            cache = self.caches[batch.seq_id[row][0]]
            assert batch.pos[row] == len(cache) and batch.n_seq_id[row] == 1
            cache.append(batch.token[row])
            if batch.logits[row]:
                values = (ctypes.c_float * VOCAB)()
                values[sum(cache) % VOCAB] = 1.0
                self.logits[row] = values
        return 0

    def llama_get_logits_ith(self, context, row):
        return ctypes.cast(self.logits[row], ctypes.POINTER(ctypes.c_float))

    def llama_get_memory(self, context):
        return self

    def llama_memory_seq_rm(self, memory, sequence, begin, end):
        del self.caches[sequence][begin:]


def _answer(prompt, new_tokens):
    tokens = list(prompt)
    for _ in range(new_tokens):
        tokens.append(sum(tokens) % VOCAB)
    return tokens[len(prompt) :]


def _serve(requests, **setup):
    asked = Scenario(requests, Setup(**{"max_seqs": 2, "max_tokens": 99, "step_tokens": 8, **setup}))
    api = FakeLlama(asked.setup.step_tokens, asked.setup.max_seqs)
    answers = play(LlamaServer(api, None, api.batch, VOCAB, asked.setup), asked).answers
    return api, answers


@pytest.mark.parametrize("max_seqs", [1, 2, 5])
def test_answers_are_those_of_each_request_alone(max_seqs):
    requests = [Request([number + 1] * (3 * number + 1), 2 + number) for number in range(5)]
    api, answers = _serve(requests, max_seqs=max_seqs)
    assert [answer.tokens for answer in answers] == [_answer(one.prompt, one.new_tokens) for one in requests]
    assert all(len(step) <= 8 for step in api.steps)


def test_who_decodes_goes_first_and_a_long_prompt_takes_what_is_left():
    api, _ = _serve([Request([1], 4), Request([2] * 20, 2, after=(0, 1))])
    assert api.steps[0] == [0]
    assert api.steps[1] == [0] + [1] * 7
    assert api.steps[2] == [0] + [1] * 7


def test_a_slot_is_left_when_its_answer_is_whole():
    api, answers = _serve([Request([1], 2), Request([2], 6), Request([3], 1)])
    assert answers[2].token_step == [2]
    assert sorted(api.steps[2]) == [0, 1]


def test_the_slot_that_holds_most_of_a_prompt_is_taken():
    prompt = [4, 5, 6, 7, 8]
    _, answers = _serve([Request(prompt, 2), Request([9] * 5, 3), Request([*prompt, 1], 2, after=(1, 3))])
    assert answers[2].cached_tokens == 5
    assert answers[2].tokens == _answer([*prompt, 1], 2)


def test_an_equal_prompt_computes_its_last_token_again():
    _, answers = _serve([Request([4, 5, 6], 1), Request([4, 5, 6], 1, after=(0, 1))], max_seqs=1)
    assert [answer.cached_tokens for answer in answers] == [0, 2]
    assert answers[0].tokens == answers[1].tokens


def test_nothing_is_taken_over_where_reuse_is_off():
    requests = [Request([4, 5, 6], 1), Request([4, 5, 6], 1, after=(0, 1))]
    _, answers = _serve(requests, max_seqs=1, prefix_reuse=False)
    assert [answer.cached_tokens for answer in answers] == [0, 0]
