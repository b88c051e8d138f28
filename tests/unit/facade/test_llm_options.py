"""What `LLM` makes of options beyond the plain ones: several answers, probabilities, scores, stops, own code."""

import itertools
import math
import random

import numpy as np
import pytest

from onnxgen.errors import ContextLengthError, LogitsProcessorError, OptionError, TokenIdError
from onnxgen.facade.scoring import windows
from onnxgen.preprocess.tokenizer import Tokenizer
from tiny_model_folder import CONTEXT, fake_backend, open_llm, write_model_folder
from tiny_tokenizer import EOS, VOCAB_SIZE


@pytest.fixture
def folder(tmp_path):
    return write_model_folder(tmp_path / "model")


@pytest.fixture
def tokenizer(folder):
    return Tokenizer.from_folder(folder)


def scripted(tokenizer, answers, **options):
    script = {tuple(tokenizer.encode(q)): tokenizer.encode(a) for q, a in answers.items()}
    return fake_backend(continuations=script, **{"eos_token_id": EOS, **options})


def log_softmax(logits):
    logits = np.asarray(logits, np.float64)
    return logits - logits.max() - math.log(np.exp(logits - logits.max()).sum())


def test_n_answers_come_in_the_order_of_prompts(folder):
    llm = open_llm(folder, fake_backend())
    options = {"n": 3, "temperature": 3.0, "seed": 5, "max_new_tokens": 6, "ignore_eos": True}
    answers = llm.generate(["abc", "the other"], **options)
    assert len(answers) == 6 and len({a.token_ids for a in answers}) > 2
    assert [a.token_ids for a in llm.generate("the other", **options)] == [a.token_ids for a in answers[3:]]
    assert [a.token_ids for a in llm.generate("abc", **{**options, "n": 2})] == [
        a.token_ids for a in answers[:2]
    ]
    chunks = list(llm.generate(["abc", "the other"], stream=True, **options))
    assert {c.index: c.completion.token_ids for c in chunks if c.completion} == {
        i: a.token_ids for i, a in enumerate(answers)
    }
    assert len(llm.chat([{"role": "user", "content": "x"}], n=2, max_new_tokens=2)) == 2


def test_a_stop_token_ends_an_answer_and_is_named(folder, tokenizer):
    llm = open_llm(folder, scripted(tokenizer, {"x": "the other thing"}))
    ids = tokenizer.encode("the other thing")
    done = llm.generate("x", stop_token_ids=[ids[2]])
    assert (list(done.token_ids), done.finish_reason, done.stop) == (ids[:2], "stop", ids[2])
    assert llm.generate("x").stop is None
    with pytest.raises(TokenIdError, match="stop_token_ids"):
        llm.generate("x", stop_token_ids=[VOCAB_SIZE])


def test_pieces_up_to_a_stop_text_tell_each_probability_once(folder, tokenizer):
    llm = open_llm(folder, scripted(tokenizer, {"q": "one two three"}))
    pieces = list(llm.generate("q", stop="two", logprobs=1, stream=True, max_new_tokens=20))
    whole = pieces[-1].completion
    assert (whole.text, whole.finish_reason) == ("one ", "stop")
    assert [told for piece in pieces for told in piece.logprobs] == list(whole.logprobs)
    assert [told.token_id for told in whole.logprobs] == list(whole.token_ids)


def test_a_stop_text_is_named(folder, tokenizer):
    llm = open_llm(folder, scripted(tokenizer, {"x": "the other thing"}))
    done = llm.generate("x", stop=["nowhere", "thing", "r t"])
    assert (done.text, done.finish_reason, done.stop) == ("the othe", "stop", "r t")


def test_log_probabilities_are_those_of_the_logits(folder, tokenizer):
    backend = fake_backend()
    llm = open_llm(folder, backend)
    done = llm.generate("abc", max_new_tokens=6, ignore_eos=True, logprobs=3, prompt_logprobs=2)
    prompt = tokenizer.encode("abc")
    assert [t.token_id for t in done.logprobs] == list(done.token_ids)
    assert done.prompt_logprobs[0] is None
    tokens = [*prompt, *done.token_ids]
    for place, told in enumerate([*done.prompt_logprobs[1:], *done.logprobs], start=1):
        expected = log_softmax(backend.logits_after(tokens[:place]))
        best = np.argsort(-expected, kind="stable")
        assert told.token_id == tokens[place]
        assert told.logprob == pytest.approx(expected[told.token_id], abs=1e-4)
        assert told.rank == 1 + list(best).index(told.token_id)
        assert [t.token_id for t in told.top] == list(best[: 3 if place >= len(prompt) else 2])
        assert told.token_bytes == tokenizer.token_bytes(told.token_id)
    whole = tokenizer.decode(done.token_ids, skip_special_tokens=False)
    assert b"".join(t.token_bytes for t in done.logprobs).decode("utf-8", "replace") == whole


def test_offsets_are_places_in_the_text(folder, tokenizer):
    llm = open_llm(folder, scripted(tokenizer, {"x": "the 😀 other"}))
    done = llm.generate("x", logprobs=0)
    for told, after in itertools.pairwise(done.logprobs):
        shown = done.text[told.text_offset : after.text_offset]
        assert not shown or shown.encode().startswith(told.token_bytes[:1]) or "😀" in shown
    assert done.logprobs[0].text_offset == 0
    assert sum(t.text_offset == 4 for t in done.logprobs) >= 4 or len(done.logprobs[1].token_bytes) > 1


def test_pieces_carry_the_probabilities_of_their_tokens(folder):
    llm = open_llm(folder, fake_backend())
    chunks = list(llm.generate("abc", max_new_tokens=9, ignore_eos=True, logprobs=1, stream=True))
    assert tuple(t for c in chunks for t in c.logprobs) == chunks[-1].completion.logprobs
    for chunk in chunks:
        assert [t.token_id for t in chunk.logprobs] == list(chunk.token_ids)


@pytest.mark.parametrize("context", [None, "the other"])
def test_a_score_is_the_sum_of_log_probabilities(folder, tokenizer, context):
    backend = fake_backend()
    text = "".join(random.Random(3).choice("abc the😀") for _ in range(40))
    score = open_llm(folder, backend).score(text, context=context)
    before = tokenizer.encode(context) if context else []
    ids = [*before, *tokenizer.encode(text)]
    first = max(len(before), 1)
    expected = [log_softmax(backend.logits_after(ids[:i]))[ids[i]] for i in range(first, len(ids))]
    assert [t.token_id for t in score.tokens] == ids[first:]
    assert score.logprob == pytest.approx(sum(expected), abs=1e-3)
    assert score.perplexity == pytest.approx(math.exp(-sum(expected) / len(expected)), rel=1e-4)


def test_what_greedy_decoding_would_say_is_greedy(folder, tokenizer):
    llm = open_llm(folder, scripted(tokenizer, {"x": "the other"}))
    judged = llm.score(["the other", "the one"], context="x")
    assert [s.is_greedy for s in judged] == [True, False]
    assert judged[0].logprob > judged[1].logprob


def test_scores_of_several_texts_are_those_of_each_alone(folder):
    llm = open_llm(folder, fake_backend())
    texts = ["abc", "the other thing", "x" * 50]
    assert llm.score(texts) == [llm.score(text) for text in texts]
    assert llm.score([]) == []
    with pytest.raises(OptionError, match="2 contexts were given for 3 texts"):
        llm.score(texts, context=["a", "b"])
    with pytest.raises(OptionError, match="no token that could be judged"):
        llm.score("a")
    with pytest.raises(ContextLengthError):
        llm.score("x" * (CONTEXT + 1))


def test_a_text_as_long_as_the_context_can_be_scored(folder):
    llm = open_llm(folder, fake_backend())
    assert len(llm.score("x" * CONTEXT).tokens) == CONTEXT - 1


@pytest.mark.parametrize(("window", "stride"), [(2, 1), (7, 3), (128, 64), (None, None)])
@pytest.mark.parametrize("length", [2, 3, 7, 8, 100, 300])
def test_perplexity_judges_each_token_once_with_what_fits_before_it(
    folder, tokenizer, window, stride, length
):
    backend = fake_backend()
    text = "".join(random.Random(length).choice("abcxyz") for _ in range(length))
    ids = tokenizer.encode(text)
    width, step = window or CONTEXT, stride or CONTEXT // 2
    total, judged = 0.0, 1
    while judged < len(ids):
        end = min(len(ids), width if judged == 1 else judged + step)
        begin = max(0, end - width)
        total += sum(log_softmax(backend.logits_after(ids[begin:i]))[ids[i]] for i in range(judged, end))
        judged = end
    found = open_llm(folder, backend).perplexity(text, window=window, stride=stride)
    assert found == pytest.approx(math.exp(-total / (len(ids) - 1)), rel=1e-4)


def test_windows_cover_a_text_once():
    rng = random.Random(11)
    for _ in range(300):
        length, window = rng.randint(2, 60), rng.randint(2, 20)
        stride = rng.randint(1, window - 1)
        parts = list(windows(length, window=window, stride=stride))
        assert [i for p in parts for i in range(p.judged, p.end)] == list(range(1, length))
        assert all(p.begin < p.judged and p.end - p.begin <= window for p in parts)


@pytest.mark.parametrize(("window", "stride"), [(1, 1), (CONTEXT + 1, 1), (10, 10), (10, 0)])
def test_windows_out_of_range_are_refused(folder, window, stride):
    with pytest.raises(OptionError, match=r"(window|stride) must be"):
        open_llm(folder, fake_backend()).perplexity("some text", window=window, stride=stride)


def test_a_deadline_ends_an_answer_with_what_it_has(folder):
    done = open_llm(folder, fake_backend()).generate("x", deadline_s=0, ignore_eos=True)
    assert done.finish_reason == "deadline"


def test_bias_bans_and_forced_tokens_reach_the_sampler(folder, tokenizer):
    llm = open_llm(folder, scripted(tokenizer, {"x": "the other thing"}))
    the = tokenizer.encode("the")[0]
    assert llm.generate("x", logit_bias={the: -100}, max_new_tokens=1).token_ids != (the,)
    assert llm.generate("x", bad_words=[[the]], max_new_tokens=1).token_ids != (the,)
    assert llm.generate("x", forced_tokens="abc", max_new_tokens=5).text.startswith("abc")
    with pytest.raises(TokenIdError, match="logit_bias"):
        llm.generate("x", logit_bias={VOCAB_SIZE: 1})


def test_own_processors_and_samplers_choose_and_their_errors_are_theirs(folder):
    class Last:
        def choose_rows(self, logits, rows):
            return [logits.shape[1] - 1 - row.num_new_tokens for row in rows]

    def broken(history, row):
        raise RuntimeError("mine")

    llm = open_llm(folder, fake_backend())
    assert llm.generate("x", sampler=Last(), max_new_tokens=2, ignore_eos=True).token_ids == (
        VOCAB_SIZE - 1,
        VOCAB_SIZE - 2,
    )
    with pytest.raises(LogitsProcessorError, match="mine"):
        llm.generate("x", logits_processors=[broken])
    assert llm.generate("x", max_new_tokens=1).token_ids


def test_beams_give_the_best_answers_first(folder, tokenizer):
    backend = fake_backend()
    llm = open_llm(folder, backend)
    answers = llm.generate("abc", num_beams=4, n=3, max_new_tokens=5, length_penalty=0.0)
    assert [a.score for a in answers] == sorted((a.score for a in answers), reverse=True)
    for answer in answers:
        ids = [*tokenizer.encode("abc"), *answer.token_ids, *([EOS] if answer.finish_reason == "eos" else [])]
        expected = [log_softmax(backend.logits_after(ids[:i]))[ids[i]] for i in range(3, len(ids))]
        assert answer.score == pytest.approx(sum(expected), abs=1e-3)
        assert answer.text == tokenizer.decode(answer.token_ids)
    greedy = llm.generate("abc", max_new_tokens=5)
    assert (
        answers[0].score
        >= llm.generate("abc", num_beams=2, max_new_tokens=5, length_penalty=0.0).score - 1e-6
    )
    assert greedy.score is None


def test_beams_come_at_once_and_have_no_speed_of_single_tokens(folder):
    timings = open_llm(folder, fake_backend()).generate("abc", num_beams=2, max_new_tokens=4).timings
    assert timings.load_s is not None
    assert (timings.ttft_s, timings.prefill_tok_s, timings.decode_tok_s) == (None, None, None)


def test_beams_of_several_prompts_are_those_of_each_alone(folder):
    llm = open_llm(folder, fake_backend())
    options = {"num_beams": 3, "n": 2, "max_new_tokens": 4, "min_new_tokens": 2}
    together = llm.generate(["abc", "the other", "x"], **options)
    alone = [a for text in ("abc", "the other", "x") for a in llm.generate(text, **options)]
    assert [a.token_ids for a in together] == [a.token_ids for a in alone]
    streamed = list(llm.generate(["abc", "the other", "x"], stream=True, **options))
    assert [(c.index, c.token_ids) for c in streamed] == list(enumerate(a.token_ids for a in together))
    assert llm.chat([{"role": "user", "content": "x"}], num_beams=2, max_new_tokens=2).score is not None


@pytest.mark.parametrize(
    ("name", "value"),
    [("stop", "x"), ("logprobs", 1), ("prompt_logprobs", 0), ("ignore_eos", True)],
)
def test_what_beams_cannot_do_is_refused(folder, name, value):
    llm = open_llm(folder, fake_backend())
    with pytest.raises(OptionError, match=f"{name}=.* does not go together with beams"):
        llm.generate("x", num_beams=2, **{name: value})


def test_a_folder_with_beams_searches_unless_something_is_drawn(tmp_path):
    folder = write_model_folder(tmp_path / "m", num_beams=3)
    llm = open_llm(folder, fake_backend())
    assert llm.generate("x", max_new_tokens=3).score is not None
    assert llm.generate("x", max_new_tokens=3, temperature=1.0, seed=1).score is None
    assert llm.generate("x", max_new_tokens=3, num_beams=1).score is None


def test_a_deadline_ends_beams_with_the_best_so_far(folder):
    done = open_llm(folder, fake_backend()).generate("x", num_beams=2, deadline_s=0, max_new_tokens=50)
    assert done.finish_reason == "deadline"


def test_a_deadline_of_beams_counts_from_the_call_also_where_prompts_are_searched_one_after_the_other(folder):
    times = itertools.count()
    llm = open_llm(folder, fake_backend(), clock=lambda: next(times))
    options = {"num_beams": 2, "max_new_tokens": 50, "min_new_tokens": 40, "bad_words": [[EOS]]}
    before = next(times)
    assert [a.finish_reason for a in llm.generate(["x", "xyz"], **options)] == ["length", "length"]
    enough_for_one = (next(times) - before) * 0.75
    first, second = llm.generate(["x", "xyz"], **options, deadline_s=enough_for_one)
    assert (first.finish_reason, second.finish_reason) == ("length", "deadline")


def test_a_score_is_the_same_where_the_folder_searches_with_beams(folder, tmp_path):
    plain = open_llm(folder, fake_backend())
    llm = open_llm(write_model_folder(tmp_path / "beams", num_beams=3), fake_backend())
    assert llm.score("some text") == plain.score("some text")
    assert llm.perplexity("some text", window=5) == plain.perplexity("some text", window=5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window": "5"}, "window must be an integer between 2 and 128, got '5'"),
        ({"window": 1}, "window must be between 2 and 128, got 1"),
        ({"window": 129}, "window must be between 2 and 128, got 129"),
        ({"window": 1.5}, "window must be an integer"),
        ({"stride": True}, "stride must be an integer between 1 and 127, got True"),
        ({"window": 8, "stride": 8}, "stride must be between 1 and 7, got 8"),
    ],
)
def test_windows_out_of_range_are_refused_by_name(folder, options, message):
    with pytest.raises(OptionError, match=f"^{message}"):
        open_llm(folder, fake_backend()).perplexity("some text", **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"context": 5}, "context must be a text, token ids, or a list of either, got 5"),
        ({"context": [5, "a"]}, "context must hold token ids, which are integers, got 'a' at 1"),
        ({"top_logprobs": "5"}, "top_logprobs must be an integer between 0 and 100, got '5'"),
        ({"top_logprobs": 101}, "top_logprobs must be between 0 and 100, got 101"),
    ],
)
def test_what_is_wrong_with_a_score_is_named_as_it_was_given(folder, options, message):
    with pytest.raises(OptionError, match=f"^{message}"):
        open_llm(folder, fake_backend()).score("text", **options)


@pytest.mark.parametrize("temperature", [0, 1.0])
def test_a_bias_that_forbids_every_token_is_told(folder, temperature):
    llm = open_llm(folder, fake_backend())
    nothing = dict.fromkeys(range(VOCAB_SIZE), -math.inf)
    with pytest.raises(
        OptionError, match=r"^no token can be chosen after 3 tokens.*logit_bias forbids every"
    ):
        llm.generate("abc", logit_bias=nothing, temperature=temperature, max_new_tokens=2)
    assert len(llm.generate("abc", temperature=temperature, max_new_tokens=2, ignore_eos=True).token_ids) == 2
