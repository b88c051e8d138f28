import threading
from dataclasses import replace

import numpy as np
import pytest

from hash_backend import HashBackend
from onnxgen.errors import (
    BackendError,
    ChatTemplateError,
    ContextLengthError,
    MetadataError,
    OptionError,
    TokenizerError,
)
from onnxgen.facade.generation_options import GenerationOptions
from onnxgen.preprocess.tokenizer import Tokenizer
from tiny_model_folder import CONTEXT, fake_backend, open_llm, write_model_folder
from tiny_tokenizer import BOS, EOS, VOCAB_SIZE


@pytest.fixture
def folder(tmp_path):
    return write_model_folder(tmp_path / "model")


def encode(folder, text):
    return Tokenizer.from_folder(folder).encode(text)


def scripted(folder, answers, **options):
    """A backend that answers texts with texts and then ends the sequence."""
    script = {tuple(encode(folder, question)): encode(folder, answer) for question, answer in answers.items()}
    return fake_backend(continuations=script, **{"eos_token_id": EOS, **options})


def chat(text):
    return f"<|bos|>[user]{text}<|eos|>[assistant]"


def test_text_is_continued_until_eos(folder):
    llm = open_llm(folder, scripted(folder, {"the other": " thing 😀"}))
    done = llm.generate("the other")
    assert (done.text, done.finish_reason) == (" thing 😀", "eos")
    assert list(done.token_ids) == encode(folder, " thing 😀")
    assert done.usage.prompt_tokens == len(encode(folder, "the other"))
    assert done.usage.completion_tokens == len(done.token_ids)
    assert done.usage.cached_tokens == 0


def test_several_prompts_are_answered_in_order(folder):
    questions = [f"question {i}" for i in range(19)]
    backend = scripted(folder, {q: f" answer {i}" * (1 + i % 3) for i, q in enumerate(questions)})
    llm = open_llm(folder, backend)
    answers = llm.generate(questions)
    assert [a.text for a in answers] == [f" answer {i}" * (1 + i % 3) for i in range(19)]
    assert max(step.num_seqs for step in backend.steps) == 19
    assert llm.generate([]) == []


def test_streams_add_up_to_completions(folder):
    questions = {"a": "1 😀 the thing", "b": "안녕", "c": ""}
    llm = open_llm(folder, scripted(folder, questions))
    chunks = list(llm.generate(list(questions), stream=True))
    for index, answer in enumerate(questions.values()):
        mine = [chunk for chunk in chunks if chunk.index == index]
        assert "".join(chunk.text for chunk in mine) == answer
        assert [chunk.finish_reason for chunk in mine if chunk.finish_reason] == ["eos"]
        assert mine[-1].finish_reason == "eos"
        assert mine[-1].completion.text == answer
        assert tuple(t for chunk in mine for t in chunk.token_ids) == mine[-1].completion.token_ids
        assert not any("�" in chunk.text for chunk in mine)


def test_chat_goes_through_the_template(folder):
    llm = open_llm(folder, scripted(folder, {chat("hi"): "hello"}))
    assert llm.has_chat_template
    messages = [{"role": "user", "content": "hi"}]
    assert llm.chat(messages).text == "hello"
    assert "".join(chunk.text for chunk in llm.chat(messages, stream=True)) == "hello"


def test_a_model_without_a_template_says_so(folder):
    settings = folder / "tokenizer_config.json"
    settings.write_text(settings.read_text().replace("chat_template", "no_chat_template"))
    llm = open_llm(folder, fake_backend())
    assert not llm.has_chat_template
    with pytest.raises(ChatTemplateError, match="has no chat template"):
        llm.chat([{"role": "user", "content": "x"}])


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_an_answer_is_cut_at_its_limit(folder, limit):
    llm = open_llm(folder, scripted(folder, {"x": "the other thing"}))
    done = llm.generate("x", max_new_tokens=limit)
    assert done.finish_reason == "length"
    assert list(done.token_ids) == encode(folder, "the other thing")[:limit]


def test_eos_at_once_is_an_empty_answer(folder):
    done = open_llm(folder, scripted(folder, {"x": ""})).generate("x")
    assert (done.text, done.token_ids, done.finish_reason) == ("", (), "eos")


def test_eos_right_after_the_limit_is_not_seen(folder):
    llm = open_llm(folder, scripted(folder, {"x": "a"}))
    assert llm.generate("x", max_new_tokens=1).finish_reason == "length"
    assert llm.generate("x", max_new_tokens=2).finish_reason == "eos"


def test_without_a_limit_the_context_is_filled(folder):
    llm = open_llm(folder, scripted(folder, {"x": "a" * 500}))
    done = llm.generate("x")
    assert done.finish_reason == "length"
    assert done.usage.prompt_tokens + done.usage.completion_tokens == CONTEXT


def test_characters_cut_in_half_are_flushed(folder):
    llm = open_llm(folder, scripted(folder, {"x": "a😀"}))
    done = llm.generate("x", max_new_tokens=3)
    assert done.text == Tokenizer.from_folder(folder).decode(done.token_ids)
    assert done.text.startswith("a")
    assert len(done.text) > 1


@pytest.mark.parametrize(
    ("stop", "text", "reason"),
    [
        (["thing"], "the other ", "stop"),
        (["r t"], "the othe", "stop"),
        (["zzz"], "the other thing", "eos"),
        (["thing!"], "the other thing", "eos"),
        ("the", "", "stop"),
    ],
)
def test_stop_texts_end_the_answer(folder, stop, text, reason):
    llm = open_llm(folder, scripted(folder, {"x": "the other thing"}))
    done = llm.generate("x", stop=stop)
    assert (done.text, done.finish_reason) == (text, reason)
    streamed = "".join(chunk.text for chunk in llm.generate("x", stop=stop, stream=True))
    assert streamed == text


def test_a_stop_text_ends_the_work_too(folder):
    backend = scripted(folder, {"x": "abcdefgh"})
    open_llm(folder, backend).generate("x", stop="c")
    assert backend.num_steps == 3


def test_a_seed_gives_the_same_answer_alone_and_among_others(folder):
    llm = open_llm(folder, fake_backend())
    options = GenerationOptions(temperature=3.0, seed=7, max_new_tokens=8)
    alone = llm.generate("abc", options=options).token_ids
    others = llm.generate(["x", "abc", "the other"], options=options)
    assert others[1].token_ids == alone
    assert llm.generate("abc", options=replace(options, seed=8)).token_ids != alone
    fresh = replace(options, seed=None)
    assert len({llm.generate("abc", options=fresh).token_ids for _ in range(5)}) > 1


def test_the_minimum_and_ignoring_eos(folder):
    llm = open_llm(folder, scripted(folder, {"x": ""}))
    assert llm.generate("x", min_new_tokens=3, max_new_tokens=5).usage.completion_tokens >= 3
    assert llm.generate("x", ignore_eos=True, max_new_tokens=2).token_ids[0] == EOS


def test_prompts_that_do_not_fit_are_refused_at_once_with_the_numbers(folder):
    llm = open_llm(folder, fake_backend())
    with pytest.raises(
        ContextLengthError, match=rf"{CONTEXT} prompt tokens do not fit.*{CONTEXT} tokens.*shorten"
    ):
        llm.generate("x" * CONTEXT, stream=True)
    with pytest.raises(
        ContextLengthError, match=r"10 prompt tokens and max_new_tokens=119.*lower max_new_tokens"
    ):
        llm.generate("x" * 10, max_new_tokens=119)
    assert llm.generate("x" * 10, max_new_tokens=118, ignore_eos=True).usage.completion_tokens == 118


def test_an_empty_prompt_begins_with_bos(folder):
    backend = fake_backend(continuations={(BOS,): encode(folder, "a")}, eos_token_id=EOS)
    assert open_llm(folder, backend).generate("").text == "a"


def test_unknown_options_are_refused_at_once(folder):
    llm = open_llm(folder, fake_backend())
    with pytest.raises(OptionError, match="did you mean 'temperature'"):
        llm.generate("x", stream=True, temprature=1.0)


def test_the_folders_search_defaults_apply(tmp_path):
    folder = write_model_folder(tmp_path / "m", do_sample=True, temperature=4.0, top_k=0, top_p=1.0)
    llm = open_llm(folder, fake_backend())
    assert len({llm.generate("x", max_new_tokens=5).token_ids for _ in range(5)}) > 1
    assert len({llm.generate("x", max_new_tokens=5, temperature=0).token_ids for _ in range(3)}) == 1


def test_durations_come_from_the_clock(folder):
    class Clock:
        now = 0.0

        def __call__(self):
            return self.now

    clock = Clock()
    backend = scripted(folder, {"x" * 10: "abcde"})
    execute = backend.execute

    def slow(step, cache):
        clock.now += 2.0 if step.num_tokens > 1 else 0.5
        return execute(step, cache)

    backend.execute = slow
    llm = open_llm(folder, backend, clock=clock)
    timings = llm.generate("x" * 10).timings
    assert timings.load_s == 0.0
    assert timings.ttft_s == 2.0
    assert timings.prefill_tok_s == 5.0
    assert timings.decode_tok_s == 2.0
    short = llm.generate("x" * 10, max_new_tokens=1).timings
    assert short.decode_tok_s is None


def test_prompts_that_do_not_fit_the_memory_together_are_answered_in_turns(folder):
    backend = HashBackend(VOCAB_SIZE, max_context=CONTEXT)
    create = backend.create_cache

    def small(*, num_seqs, **size):
        if num_seqs > 2:
            raise BackendError("no memory for that many")
        return create(num_seqs=num_seqs, **size)

    backend.create_cache = small
    llm = open_llm(folder, backend)
    answers = llm.generate(["a", "b", "c", "d", "e"], max_new_tokens=2)
    assert len(answers) == 5
    assert max(map(len, backend.steps)) == 2
    llm.close()
    assert all(cache.closed for cache in backend.caches)


def test_a_failing_step_is_told_and_the_model_stays_usable(folder):
    backend = scripted(folder, {"x": "abc"}, fail_steps={1, 2})
    llm = open_llm(folder, backend)
    with pytest.raises(BackendError, match="script says so"):
        llm.generate("x")
    assert llm.generate("x").text == "abc"


def test_a_stream_that_is_dropped_frees_its_blocks(folder):
    llm = open_llm(folder, HashBackend(VOCAB_SIZE, max_context=CONTEXT))
    stream = llm.generate("x", stream=True, ignore_eos=True)
    next(stream)
    assert llm.stats().cache.full.in_use == 1
    stream.close()
    assert llm.stats().cache.full.in_use == 0


def test_threads_may_share_a_model(folder):
    llm = open_llm(folder, scripted(folder, {f"q{i}": f"answer {i}" for i in range(8)}))
    answers = {}
    threads = [
        threading.Thread(target=lambda i=i: answers.update({i: llm.generate(f"q{i}").text})) for i in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {i: f"answer {i}" for i in range(8)}


def test_a_broken_tokenizer_is_named_before_anything_is_loaded(folder):
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(TokenizerError, match=r"tokenizer\.json"):
        open_llm(folder, None)


def test_closing_is_idempotent(folder):
    with open_llm(folder, fake_backend()) as llm:
        llm.close()
    llm.close()


def test_greedy_answers_are_those_of_the_logits(folder):
    backend = fake_backend()
    done = open_llm(folder, backend).generate("abc", max_new_tokens=6, ignore_eos=True)
    tokens = encode(folder, "abc")
    assert len(done.token_ids) == 6
    for token in done.token_ids:
        assert token == int(np.argmax(backend.logits_after(tokens)))
        tokens.append(token)


@pytest.mark.parametrize(
    ("prompts", "message"),
    [
        (5, "prompts must be a text, token ids, or a list of either, got 5"),
        (None, "prompts must be"),
        (b"x", "prompts must be"),
        (["a", 5], r"prompts\[1\] must be a text or token ids, got 5"),
        ([5, "a"], "prompts must hold token ids, which are integers, got 'a' at 1"),
        ([[1, True]], r"prompts\[0\] must hold token ids, which are integers, got True at 1"),
        (["a", []], r"prompts\[1\] has no tokens"),
    ],
)
def test_what_is_no_prompt_is_refused(folder, prompts, message):
    with pytest.raises(OptionError, match=message):
        open_llm(folder, fake_backend()).generate(prompts)


@pytest.mark.parametrize("options", [5, {"max_new_tokens": 3}])
def test_options_of_another_kind_are_refused(folder, options):
    llm = open_llm(folder, fake_backend())
    with pytest.raises(OptionError, match="options must be GenerationOptions, got"):
        llm.generate("x", options=options)
    with pytest.raises(OptionError, match="options must be GenerationOptions, got"):
        llm.chat([{"role": "user", "content": "x"}], options=options)
    with pytest.raises(OptionError, match="options must be GenerationOptions, got"):
        llm.session().send("x", options=options)


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        (5, "must be a mapping"),
        ({"messages": []}, "'messages' is not a template variable"),
        ({"tools": 1}, "'tools'"),
    ],
)
def test_template_variables_are_checked(folder, variables, message):
    with pytest.raises(OptionError, match=message):
        open_llm(folder, fake_backend()).chat(
            [{"role": "user", "content": "x"}], template_variables=variables
        )


@pytest.mark.parametrize(
    ("name", "value"), [("temperature", -1.0), ("top_p", 5.0), ("repetition_penalty", 0.0)]
)
def test_wrong_defaults_are_the_folders_fault(tmp_path, name, value):
    folder = write_model_folder(tmp_path / "model", do_sample=True, **{name: value})
    with pytest.raises(MetadataError, match=f"the model folder's defaults for search: {name} must be"):
        open_llm(folder, fake_backend()).generate("x")
