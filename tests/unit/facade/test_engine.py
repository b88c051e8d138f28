"""`Engine` by onnxruntime-genai's names, on the scripted backend."""

import threading

import numpy as np
import pytest

import onnxgen as og
from onnxgen.errors import (
    BackendError,
    CapabilityError,
    ContextLengthError,
    GrammarError,
    OptionError,
    StateError,
    TokenIdError,
)
from onnxgen.facade.search.round_counts import RoundCounts
from onnxgen.preprocess.tokenizer import Tokenizer
from tiny_model_folder import CONTEXT, fake_backend, write_model_folder
from tiny_tokenizer import EOS

TOKEN, FINISHED, FAILED = (
    og.EngineEventFlags.TOKEN,
    og.EngineEventFlags.TURN_FINISHED,
    og.EngineEventFlags.FAILED,
)


@pytest.fixture
def folder(tmp_path):
    return write_model_folder(tmp_path / "model")


def encode(folder, text):
    return Tokenizer.from_folder(folder).encode(text)


def open_engine(folder, answers=None, **options):
    script = {tuple(encode(folder, q)): encode(folder, a) for q, a in (answers or {}).items()}
    backend = fake_backend(continuations=script, **{"eos_token_id": EOS, **options})
    return og.Engine(og.Model(folder, backend=backend)), backend


def drive(engine, *, capacity=3):
    buffer, events = engine.create_event_buffer(capacity), []
    while engine.has_pending_requests():
        assert engine.run(buffer) is buffer
        assert len(buffer) <= capacity
        events += list(buffer)
    return events


def tokens(events, request):
    return [e.token for e in events if e.request is request and e.token is not None]


def test_turns_of_several_requests_are_answered_together(folder):
    engine, _ = open_engine(folder, {"the": " thing", "a": " b c", "x": ""})
    requests = {text: engine.create_request() for text in ("the", "a", "x")}
    for text, request in requests.items():
        assert request.begin_turn(np.array(encode(folder, text), np.int32)) == 1
    events = drive(engine)
    for text, answer in (("the", " thing"), ("a", " b c"), ("x", "")):
        assert tokens(events, requests[text]) == encode(folder, answer)
        last = [e for e in events if e.request is requests[text]][-1]
        assert (last.flags, last.finish_reason, last.token) == (FINISHED, og.FinishReason.EOS, None)
        assert (last.usage.prompt_tokens, last.usage.generated_tokens) == (
            len(encode(folder, text)),
            len(encode(folder, answer)),
        )


def test_a_second_turn_computes_its_new_tokens_only(folder):
    engine, backend = open_engine(folder, {"the": " thing", "the thing a": " b"})
    request = engine.create_request()
    request.begin_turn(encode(folder, "the"))
    drive(engine)
    before = backend.num_tokens
    new = encode(folder, " a")
    assert request.begin_turn(new) == 2
    events = drive(engine)
    assert tokens(events, request) == encode(folder, " b")
    assert backend.num_tokens - before == len(new) + len(encode(folder, " b"))
    assert events[-1].usage.cached_prompt_tokens == 0


def test_what_others_have_computed_of_a_prompt_is_counted(folder):
    engine, _ = open_engine(folder)
    options = None
    cached = []
    for _ in range(2):
        request = engine.create_request()
        options = og.TurnOptions(request)
        options.set_max_generated_tokens(1)
        request.begin_turn([3] * 20, options)
        cached.append(drive(engine)[-1].usage.cached_prompt_tokens)
    assert cached == [0, 19]


def test_the_last_token_and_the_end_share_an_event(folder):
    engine, _ = open_engine(folder)
    request = engine.create_request()
    options = og.TurnOptions(request)
    options.set_max_generated_tokens(2)
    request.begin_turn([3, 4], options)
    first, last = drive(engine)
    assert (first.flags, first.finish_reason) == (TOKEN, og.FinishReason.NONE)
    assert (last.flags, last.finish_reason) == (TOKEN | FINISHED, og.FinishReason.MAX_GENERATED_TOKENS)


def test_a_session_has_a_limit_of_its_own(folder):
    engine, _ = open_engine(folder, eos_token_id=None)
    limits = og.RequestOptions()
    limits.set_max_session_tokens(10)
    request = engine.create_request(options=limits)
    request.begin_turn([3, 4, 5])
    events = drive(engine)
    assert len(tokens(events, request)) == 7
    assert events[-1].finish_reason == og.FinishReason.MAX_SESSION_TOKENS
    with pytest.raises(ContextLengthError, match=r"1 tokens after the 10 .* 10"):
        request.begin_turn([3])


def test_stop_strings_end_a_turn_and_say_which(folder):
    engine, _ = open_engine(folder, {"the": " thing the other thing"})
    request = engine.create_request()
    options = og.TurnOptions(request)
    options.set_stop_strings(["never", "other"])
    request.begin_turn(encode(folder, "the"), options)
    events = drive(engine)
    last = events[-1]
    assert (last.finish_reason, last.matched_stop_string_index) == (og.FinishReason.STOP_STRING, 1)
    text = Tokenizer.from_folder(folder).decode(tokens(events, request))
    assert "other" in text
    assert not text.endswith("thing")


@pytest.mark.parametrize("runs", [0, 1, 3])
def test_a_turn_can_be_cancelled_at_any_time(folder, runs):
    engine, _ = open_engine(folder, eos_token_id=None)
    request = engine.create_request()
    turn = request.begin_turn([3, 4])
    buffer = engine.create_event_buffer(8)
    for _ in range(runs):
        engine.run(buffer)
    assert request.cancel_turn(turn)
    last = drive(engine)[-1]
    assert (last.flags, last.finish_reason) == (FINISHED, og.FinishReason.CANCELLED)
    assert last.usage.generated_tokens == runs
    assert not request.cancel_turn(turn)
    assert not request.cancel_turn(99)


def test_a_session_can_go_back(folder):
    engine, _ = open_engine(folder, {"the": " thing", "the thing a": " b", "the x": " y"})
    request = engine.create_request()
    request.begin_turn(encode(folder, "the"))
    drive(engine)
    second = request.begin_turn(encode(folder, " a"))
    with pytest.raises(StateError, match="turn 2 is not finished"):
        request.rewind_to_start_of_turn(second)
    drive(engine)
    request.rewind_to_start_of_turn(1)
    with pytest.raises(StateError, match="no turn 2"):
        request.rewind_to_start_of_turn(second)
    assert request.begin_turn(encode(folder, "the x")) == 3
    assert tokens(drive(engine), request) == encode(folder, " y")


def test_a_fork_goes_its_own_way_and_computes_what_is_new(folder):
    engine, backend = open_engine(folder, {"the": " thing", "the thing a": " b", "the thing x": " y"})
    request = engine.create_request()
    turn = request.begin_turn(encode(folder, "the"))
    with pytest.raises(StateError, match="turn 1 is not finished"):
        request.fork()
    drive(engine)
    other = request.fork()
    before = backend.num_tokens
    request.begin_turn(encode(folder, " a"))
    assert other.begin_turn(encode(folder, " x")) == 2
    events = drive(engine)
    assert tokens(events, request) == encode(folder, " b")
    assert tokens(events, other) == encode(folder, " y")
    new = sum(len(encode(folder, text)) for text in (" a", " b", " x", " y"))
    assert backend.num_tokens - before == new
    other.rewind_to_start_of_turn(turn)
    other.begin_turn(encode(folder, "the"))
    assert tokens(drive(engine), other) == encode(folder, " thing")


def test_options_that_contradict_each_other_are_refused(folder):
    engine, _ = open_engine(folder)
    request = engine.create_request()
    options = og.TurnOptions(request)
    options.set_min_generated_tokens(0)
    options.set_top_k(5)  # the folder takes the best token
    options.set_temperature(0.5)
    with pytest.raises(OptionError, match=r"temperature=0\.5 and top_k=5 would change nothing"):
        request.begin_turn([3], options)
    options.set_do_sample(True)
    options.set_top_k(1)
    with pytest.raises(OptionError, match=r"temperature=0\.5 would change nothing"):
        request.begin_turn([3], options)
    options.reset()
    options.set_max_generated_tokens(2)
    options.set_min_generated_tokens(3)
    with pytest.raises(OptionError, match="min_generated_tokens is 3"):
        request.begin_turn([3], options)


def test_options_that_fit_to_the_best_token_are_taken(folder):
    engine, _ = open_engine(folder, {"the": " thing"})
    for do_sample, top_k, temperature in ((False, 0, 1.0), (False, 1, 0.0), (True, 1, 1.0), (True, 5, 0.0)):
        request = engine.create_request()
        options = og.TurnOptions(request)
        options.set_do_sample(do_sample)
        options.set_temperature(temperature)
        if temperature or top_k < 2:
            options.set_top_k(top_k)
        request.begin_turn(encode(folder, "the"), options)
        assert tokens(drive(engine), request) == encode(folder, " thing")


@pytest.mark.parametrize("tokens", [[[1, 2], [3, 4]], 5, [[7]]])
def test_a_turn_takes_one_list_of_tokens(folder, tokens):
    engine, _ = open_engine(folder)
    with pytest.raises(OptionError, match="one list of token ids"):
        engine.create_request().begin_turn(tokens)


def test_a_turn_is_finished_when_its_last_event_was_given_out(folder):
    engine, _ = open_engine(folder)
    requests = [engine.create_request() for _ in range(2)]
    options = og.TurnOptions(requests[0])
    options.set_max_generated_tokens(1)
    for request in requests:
        request.begin_turn(encode(folder, "the"), options)
    first, second = requests
    one = engine.create_event_buffer(1)
    assert [e.request for e in engine.run(one)] == [first]
    for act in (lambda: second.begin_turn([3]), lambda: second.rewind_to_start_of_turn(1), second.fork):
        with pytest.raises(StateError, match="turn 1 is not finished"):
            act()
    assert not second.cancel_turn(1)
    first.begin_turn([3], options)
    assert [e.request for e in engine.run(one)] == [second]
    second.begin_turn([3], options)
    second.close()
    assert [e.request for e in drive(engine)] == [first]


def test_after_the_engine_requests_can_be_closed_and_nothing_else(folder):
    engine, _ = open_engine(folder)
    running, idle = engine.create_request(), engine.create_request()
    running.begin_turn(encode(folder, "the"))
    engine.close()
    for request in (running, idle):
        with pytest.raises(StateError, match="was closed"):
            request.begin_turn([3])
        request.close()
    with pytest.raises(StateError, match="was closed"):
        engine.create_request()


def test_codes_print_their_names():
    assert str(og.FinishReason.EOS) == "FinishReason.EOS"
    assert str(og.EngineErrorCode.NONE) == "EngineErrorCode.NONE"
    assert str(TOKEN | FINISHED) == "EngineEventFlags.TOKEN|TURN_FINISHED"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("set_max_generated_tokens", 0),
        ("set_min_generated_tokens", -1),
        ("set_do_sample", 1),
        ("set_temperature", float("nan")),
        ("set_top_k", -1),
        ("set_top_p", 2.0),
        ("set_repetition_penalty", 0),
        ("set_no_repeat_ngram_size", 1.5),
        ("set_seed", -1),
        ("set_seed", 2**64),
        ("set_stop_strings", [""]),
        ("set_stop_strings", ["a"] * 17),
        ("set_stop_strings", ["a" * 16385]),
        ("set_stop_strings", "text"),
    ],
)
def test_option_values_out_of_range_are_refused(folder, name, value):
    engine, _ = open_engine(folder)
    with pytest.raises(OptionError):
        getattr(og.TurnOptions(engine.create_request()), name)(value)


def test_a_seed_makes_a_turn_repeatable(folder):
    engine, _ = open_engine(folder, eos_token_id=None)
    found = []
    for seed in (5, 5, 6):
        request = engine.create_request()
        options = og.TurnOptions(request)
        options.set_do_sample(True)
        options.set_temperature(1.0)
        options.set_seed(seed)
        options.set_max_generated_tokens(12)
        request.begin_turn([3, 4], options)
        found.append(tokens(drive(engine), request))
    assert found[0] == found[1] != found[2]


def test_min_generated_tokens_holds_the_end_back(folder):
    engine, _ = open_engine(folder, {"the": ""})
    request = engine.create_request()
    options = og.TurnOptions(request)
    options.set_min_generated_tokens(3)
    options.set_max_generated_tokens(5)
    request.begin_turn(encode(folder, "the"), options)
    assert len(tokens(drive(engine), request)) >= 3


def test_a_failing_turn_has_its_error_and_the_session_goes_on(folder):
    engine, _ = open_engine(folder, {"the": " thing"}, fail_steps={1, 2})
    request = engine.create_request()
    request.begin_turn(encode(folder, "the"))
    last = drive(engine)[-1]
    assert last.flags == FINISHED | FAILED
    assert last.error_code == og.EngineErrorCode.ENGINE_EXECUTION_FAILURE
    assert isinstance(last.error, BackendError)
    request.rewind_to_start_of_turn(1)
    request.begin_turn(encode(folder, "the"))
    assert tokens(drive(engine), request) == encode(folder, " thing")


def test_what_does_not_fit_is_refused_and_changes_nothing(folder):
    engine, _ = open_engine(folder, {"the": " thing"})
    request = engine.create_request()
    for prompt, error in (([], OptionError), ([10**6], TokenIdError), ([3] * CONTEXT, ContextLengthError)):
        with pytest.raises(error):
            request.begin_turn(prompt)
    request.begin_turn(encode(folder, "the"))
    with pytest.raises(StateError, match="turn 1 is not finished"):
        request.begin_turn([3])
    assert tokens(drive(engine), request) == encode(folder, " thing")


def test_closed_requests_and_engines_say_so(folder):
    engine, _ = open_engine(folder, eos_token_id=None)
    request = engine.create_request()
    request.begin_turn([3])
    request.close()
    request.close()
    assert drive(engine) == []
    with pytest.raises(StateError, match="closed"):
        request.begin_turn([3])
    with engine:
        pass
    with pytest.raises(StateError, match="closed"):
        engine.create_request().begin_turn([3])


def test_an_engine_belongs_to_the_thread_that_made_it(folder):
    engine, _ = open_engine(folder)
    request = engine.create_request()
    request.begin_turn([3])
    found = []

    def other():
        for call in (lambda: engine.run(engine.create_event_buffer(1)), engine.close):
            try:
                call()
            except StateError as error:
                found.append(str(error))

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert len(found) == 2
    assert all("belongs to the thread" in message for message in found)
    assert len(engine.run(engine.create_event_buffer(1))) == 1, "its turns go on"


def test_capabilities_are_numbers_and_what_is_missing_says_so(folder):
    engine, _ = open_engine(folder)
    able = engine.get_capabilities()
    assert able.max_request_length == CONTEXT
    assert able.configured_max_batch_size > 0
    assert able.max_scheduled_tokens > 0
    assert engine.max_draft_tokens_per_proposal() == 0
    request = engine.create_request()
    with pytest.raises(CapabilityError, match=r"EngineConfig\.speculation"):
        request.set_draft_tokens([1])
    with pytest.raises(OptionError, match="capacity of 0"):
        engine.create_event_buffer(0)


def test_guidance_holds_a_turn_to_a_grammar_until_it_is_cleared(folder):
    engine, _ = open_engine(folder)
    text = Tokenizer.from_folder(folder)
    request = engine.create_request()
    options = og.TurnOptions(request)
    options.set_max_generated_tokens(8)
    options.set_guidance("regex", "(ab|ba){2}")
    request.begin_turn(text.encode("x"), options)
    assert text.decode(tokens(drive(engine), request)) in ("abab", "abba", "baab", "baba")
    for kind, data in (("", ""), ("regex", ""), ("reg", "a")):
        with pytest.raises(OptionError):
            options.set_guidance(kind, data)
    options.set_guidance("regex", "(?=a)b")
    with pytest.raises(GrammarError):
        request.begin_turn(text.encode("y"), options)
    options.clear_guidance()
    request.begin_turn(text.encode("y"), options)


def test_guesses_are_counted_by_the_names_of_the_original(folder):
    backend = fake_backend(continuations={tuple(encode(folder, "a b a b")): encode(folder, " a b a b a b")})
    config = og.EngineConfig(speculation=og.Speculation("prompt_lookup", max_draft_tokens=3, adaptive=False))
    engine = og.Engine(og.Model(folder, backend=backend), config)
    assert engine.max_draft_tokens_per_proposal() == 3
    request = engine.create_request()
    options = og.TurnOptions(request)
    options.set_max_generated_tokens(6)
    request.begin_turn(encode(folder, "a b a b"), options)
    drive(engine)
    stats = engine.get_speculative_stats()
    assert 0 < stats["draft_tokens_accepted"] <= stats["draft_tokens_proposed"]
    assert stats["ngram_lookup_tokens_proposed"] == stats["draft_tokens_proposed"]
    assert 0 < stats["acceptance_rate"] <= 1
    assert set(stats) == set(RoundCounts().report())
