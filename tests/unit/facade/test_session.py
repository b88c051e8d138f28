import threading

import pytest

from onnxgen.errors import BackendError, ContextLengthError, OptionError, StateError
from onnxgen.facade.generation_options import GenerationOptions
from onnxgen.preprocess.tokenizer import Tokenizer
from tiny_model_folder import CONTEXT, fake_backend, open_llm, write_model_folder
from tiny_tokenizer import EOS


@pytest.fixture
def folder(tmp_path):
    return write_model_folder(tmp_path / "model")


def open_session(folder, answers, *, system=None, **options):
    text = Tokenizer.from_folder(folder)
    script = {tuple(text.encode(question)): text.encode(answer) for question, answer in answers.items()}
    backend = fake_backend(continuations=script, eos_token_id=EOS, **options)
    return open_llm(folder, backend).session(system=system), backend


def said(chunks):
    chunks = list(chunks)
    assert chunks[-1].completion is not None
    return "".join(chunk.text for chunk in chunks)


TURN = "<|bos|>[user]hi<|eos|>[assistant]"
SECOND = TURN + "hello<|eos|>[user]more<|eos|>[assistant]"


def test_turns_see_the_turns_before_them_and_compute_only_what_is_new(folder):
    session, backend = open_session(folder, {TURN: "hello", SECOND: "yes"})
    assert said(session.send("hi")) == "hello"
    before = backend.num_tokens
    last = list(session.send("more"))[-1].completion
    assert last.text == "yes"
    tokens = Tokenizer.from_folder(folder).encode(SECOND)
    assert last.usage.prompt_tokens == len(tokens)
    # the answer's last token was never run, because nothing asked for what follows it
    assert last.usage.cached_tokens == len(Tokenizer.from_folder(folder).encode(TURN + "hello"))
    assert backend.num_tokens - before < len(tokens)
    assert session.messages == [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "hello"},
        {"role": "user", "content": "more"},
        {"role": "assistant", "content": "yes"},
    ]


def test_instructions_come_first_and_can_be_changed(folder):
    session, _ = open_session(folder, {}, system="be kind")
    assert session.messages == [{"role": "system", "content": "be kind"}]
    session.set_system("be quick")
    assert session.system == "be quick"
    said(session.send("hi", options=GenerationOptions(max_new_tokens=1)))
    assert session.messages[0]["content"] == "be quick"
    session.reset()
    assert session.messages == [{"role": "system", "content": "be quick"}]
    session.set_system(None)
    assert session.messages == []


def test_an_answer_that_is_stopped_stays_as_far_as_it_came(folder):
    session, _ = open_session(
        folder,
        {TURN: "hello there", "<|bos|>[user]hi<|eos|>[assistant]h<|eos|>[user]x<|eos|>[assistant]": "ok"},
    )
    stream = session.send("hi")
    first = next(stream).text
    stream.close()
    assert first == "h"
    assert session.messages[-1] == {"role": "assistant", "content": "h"}
    assert said(session.send("x")) == "ok"


def test_an_answer_that_never_began_leaves_no_trace(folder):
    session, _ = open_session(folder, {TURN: "hello"})
    session.send("hi")
    session.send("hi").close()
    assert session.messages == []
    assert said(session.send("hi")) == "hello"


def test_a_new_question_ends_the_answer_under_way(folder):
    session, _ = open_session(folder, {TURN: "hello"})
    stream = session.send("hi")
    next(stream)
    session.reset()
    assert session.messages == []
    assert list(stream) == []
    assert said(session.send("hi")) == "hello"


def test_closing_after_the_last_piece_remembers_once(folder):
    session, _ = open_session(folder, {TURN: "hello"})
    stream = session.send("hi")
    for chunk in stream:
        if chunk.finish_reason:
            break
    stream.close()
    assert len(session.messages) == 2


def test_a_failing_step_leaves_the_conversation_as_it_was(folder):
    session, _ = open_session(folder, {TURN: "hello"}, fail_steps={2, 3})
    with pytest.raises(BackendError):
        list(session.send("hi"))
    assert session.messages == []
    assert said(session.send("hi")) == "hello"


def test_a_conversation_that_outgrows_the_context_is_refused(folder):
    session, _ = open_session(folder, {TURN: "hello"})
    said(session.send("hi"))
    with pytest.raises(ContextLengthError, match=rf"prompt tokens do not fit.*{CONTEXT}"):
        session.send("x" * CONTEXT)
    assert len(session.messages) == 2
    session.reset()
    assert said(session.send("hi")) == "hello"


def test_models_that_cannot_rewind_are_computed_again(folder):
    session, _ = open_session(folder, {TURN: "hello", SECOND: "yes"}, rewind=False)
    assert said(session.send("hi")) == "hello"
    assert said(session.send("more")) == "yes"


def test_another_thread_is_refused(folder):
    session, backend = open_session(folder, {TURN: "hello"})
    entered, leave = threading.Event(), threading.Event()
    execute = backend.execute

    def slow(step, cache):
        entered.set()
        assert leave.wait(10)
        return execute(step, cache)

    backend.execute = slow
    worker = threading.Thread(target=lambda: list(session.send("hi")))
    worker.start()
    assert entered.wait(10)
    try:
        with pytest.raises(StateError, match="another thread"):
            session.send("hi")
    finally:
        leave.set()
        worker.join()
    assert len(session.messages) == 2


def test_closing_is_idempotent_and_final(folder):
    session, _ = open_session(folder, {TURN: "hello"})
    with session:
        said(session.send("hi"))
    session.close()
    with pytest.raises(StateError, match="closed"):
        session.send("hi")


def test_messages_and_instructions_are_texts(folder):
    session, _ = open_session(folder, {TURN: "hello"})
    with pytest.raises(OptionError, match="a message must be a text, got None"):
        session.send(None)
    with pytest.raises(OptionError, match="system must be a text or None, got 5"):
        session.set_system(5)
    assert said(session.send("hi")) == "hello"


def test_turns_can_be_taken_back(folder):
    session, backend = open_session(folder, {TURN: "hello", SECOND: "yes"})
    said(session.send("hi"))
    said(session.send("more"))
    session.rewind()
    assert [m["content"] for m in session.messages] == ["hi", "hello"]
    before = backend.num_tokens
    assert said(session.send("more")) == "yes"
    assert backend.num_tokens - before < len(Tokenizer.from_folder(folder).encode(SECOND)) // 2
    session.rewind(2)
    assert session.messages == []
    with pytest.raises(OptionError, match="num_turns"):
        session.rewind()


def test_a_fork_is_a_conversation_of_its_own(folder):
    session, backend = open_session(folder, {TURN: "hello", SECOND: "yes"}, system=None)
    said(session.send("hi"))
    other = session.fork()
    before = backend.num_tokens
    assert said(other.send("more")) == "yes"
    assert backend.num_tokens - before < len(Tokenizer.from_folder(folder).encode(SECOND))
    assert len(session.messages) == 2
    assert len(other.messages) == 4
    other.messages.clear()
    session.rewind()
    assert len(other.messages) == 4


def test_beams_search_for_an_answer_to_a_message_too(folder):
    session, _ = open_session(folder, {})
    options = GenerationOptions(num_beams=3, max_new_tokens=5, bad_words=[[EOS]])
    last = list(session.send("hi", options=options))[-1].completion
    [best] = open_llm(folder, fake_backend()).generate([TURN], options=options)
    assert last.score is not None
    assert session.messages[-1]["content"] == last.text
    assert last.score == best.score
    with pytest.raises(OptionError, match="stop="):
        session.send("hi", options=GenerationOptions(num_beams=3, stop="x"))
