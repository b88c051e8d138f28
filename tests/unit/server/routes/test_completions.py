"""`/v1/completions`: prompts as texts and token ids, echo with log probabilities, best_of, gaps, streams."""

import asyncio
import contextlib
import json
import math

import httpx
import openai
import pytest

import server_doubles
from kernel_runs import fresh_rng
from onnxgen.facade.async_llm import AsyncLLM
from onnxgen.facade.llm import LLM
from onnxgen.preprocess.tokenizer import Tokenizer
from onnxgen.server.app import create_app
from onnxgen.server.generation import completion_events, respond
from onnxgen.server.generation.completion_logprobs import Echo
from tiny_model_folder import (
    GAP_TOKENS,
    fake_backend,
    with_added_bos,
    with_gap_tokens,
    write_model_folder,
)
from tiny_tokenizer import EOS, VOCAB_SIZE

ANSWERS = {"the other": " thing 😀", "a": "1 😀 the thing", "b": "안녕", "empty": ""}
CONTEXT = 1024


def scripted(folder):
    """A backend that answers texts with texts and then ends the sequence; other prompts by a hash of them."""
    encode = Tokenizer.from_folder(write_model_folder(folder, context=CONTEXT)).encode
    script = {tuple(encode(question)): encode(answer) for question, answer in ANSWERS.items()}
    return fake_backend(continuations=script, eos_token_id=EOS, block_size=16, max_context=CONTEXT)


class Server:
    """A server of one scripted model, running all the time; requests with settings of their own have their own one."""

    def __init__(self, folder, client):
        self.folder, self.client = folder, client
        self.tokenizer = Tokenizer.from_folder(folder / "model")
        self.encode = self.tokenizer.encode

    def ask(self, *bodies, **options):
        """The answers to some requests, one after the other."""
        if not options:
            return [self.client.post("/v1/completions", json=body) for body in bodies]

        async def go():
            services = services_in(self.folder, **options)
            async with server_doubles.client(create_app(services)) as client:
                try:
                    return [await client.post("/v1/completions", json=body) for body in bodies]
                finally:
                    await services.models.aclose()

        return asyncio.run(asyncio.wait_for(go(), 60))

    def judged(self, text, *, top):
        """What is said of a text without a server."""
        with LLM(self.folder / "model", backend=scripted(self.folder / "model")) as llm:
            return llm.score(text, top_logprobs=top)

    def answer(self, *, settings=None, **body):
        (response,) = self.ask(body, **({} if settings is None else {"settings": settings}))
        assert response.status_code == 200, response.text
        return response.json()

    def choices(self, **body):
        return self.answer(**body)["choices"]

    def refusal(self, *, settings=None, **body):
        (response,) = self.ask(body, **({} if settings is None else {"settings": settings}))
        assert response.status_code == 400, response.text
        return response.json()["error"]

    def events(self, **body):
        """What a stream says: its chunks, the last line apart."""
        (response,) = self.ask({**body, "stream": True})
        assert response.status_code == 200, response.text
        assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
        *lines, last, empty = response.text.split("\n\n")
        assert (last, empty) == ("data: [DONE]", "")
        return [json.loads(line.removeprefix("data: ")) for line in lines]


def services_in(folder, **options):
    options = {"backend": scripted(folder / "model"), "context": CONTEXT, **options}
    return server_doubles.fake_services(folder, **options)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("completions")
    with (
        server_doubles.running(create_app(services_in(folder))) as url,
        httpx.Client(base_url=url, timeout=60) as client,
    ):
        yield Server(folder, client)


def test_a_text_is_gone_on_with(server):
    body = server.answer(prompt="the other", max_tokens=30)
    assert body["object"] == "text_completion"
    assert body["id"].startswith("cmpl-")
    assert body["model"] == "tiny"
    assert body["choices"] == [
        {"index": 0, "text": " thing 😀", "logprobs": None, "finish_reason": "stop", "stop_reason": None}
    ]
    prompt, answer = len(server.encode("the other")), len(server.encode(" thing 😀"))
    assert body["usage"]["prompt_tokens"] == prompt
    assert body["usage"]["completion_tokens"] == answer
    assert body["usage"]["total_tokens"] == prompt + answer
    assert body["timings"]["predicted_n"] == answer


def test_token_ids_are_the_text_that_they_are(server):
    ids = server.encode("the other")
    by_ids, by_text = (
        server.choices(prompt=ids, max_tokens=9),
        server.choices(prompt="the other", max_tokens=9),
    )
    assert by_ids == by_text
    assert server.choices(prompt=[ids], max_tokens=9) == by_text


def test_several_prompts_have_their_answers_in_order(server):
    prompts = ["a", server.encode("b"), "the other", "empty"]
    choices = server.choices(prompt=prompts, max_tokens=30)
    assert [(c["index"], c["text"]) for c in choices] == [
        (0, "1 😀 the thing"),
        (1, "안녕"),
        (2, " thing 😀"),
        (3, ""),
    ]
    twice = server.choices(prompt=prompts, max_tokens=30, n=2)
    assert [c["text"] for c in twice] == [c["text"] for c in choices for _ in range(2)]
    assert [c["index"] for c in twice] == list(range(8))


def test_answers_have_16_tokens_where_nobody_says(server):
    asked = {"prompt": "something else", "ignore_eos": True}
    assert server.answer(**asked)["usage"]["completion_tokens"] == 16
    assert server.answer(**asked, settings={"max_output_tokens": 5})["usage"]["completion_tokens"] == 5
    assert server.answer(**asked, min_tokens=20)["usage"]["completion_tokens"] == 20
    # what nobody asked for is cut to what the context leaves
    ids = server.encode("x") * (CONTEXT - 3)
    assert server.answer(prompt=ids, ignore_eos=True)["usage"]["completion_tokens"] == 3
    assert server.refusal(prompt=ids, max_tokens=4)["code"] == "context_length_exceeded"


def random_text(length=40):
    rng = fresh_rng()
    return "".join(rng.choice(list("abc the😀é"), size=length))


@pytest.mark.parametrize("top", [0, 1, 5])
@pytest.mark.parametrize("as_ids", [False, True])
def test_a_prompt_is_judged_token_by_token(server, as_ids, top):
    text = random_text()
    ids = server.encode(text)
    prompt = ids if as_ids else text
    [choice] = server.choices(prompt=prompt, echo=True, logprobs=top, max_tokens=0)
    assert (choice["text"], choice["finish_reason"]) == (text, "length")
    found = choice["logprobs"]
    expected = server.judged(text, top=top).tokens
    assert {len(each) for each in found.values()} == {len(ids)}
    assert found["token_logprobs"] == [None, *(token.logprob for token in expected)]
    assert found["top_logprobs"][0] is None
    for token, likeliest in zip(expected, found["top_logprobs"][1:], strict=True):
        assert top <= len(likeliest) <= top + 1
        assert token.logprob in likeliest.values()
        # programs find out by this comparison whether greedy decoding would have chosen it
        assert (token.logprob == max(likeliest.values())) == (token.rank == 1 or top == 0)
    for token, name, at in zip(ids[1:], found["tokens"][1:], found["text_offset"][1:], strict=True):
        content = server.tokenizer.token_bytes(token)
        if not name.startswith("bytes:"):
            assert text[at : at + len(name)] == name
            assert name.encode() == content
        else:
            assert bytes.fromhex(name.removeprefix("bytes:").replace("\\x", "")) == content
            assert content in text[at].encode()


def test_an_answer_comes_after_the_prompt_that_it_follows(server):
    [choice] = server.choices(prompt="the other", echo=True, logprobs=1, max_tokens=30)
    assert choice["text"] == "the other thing 😀"
    found, ids = choice["logprobs"], [*server.encode("the other"), *server.encode(" thing 😀"), EOS]
    assert len(found["tokens"]) == len(ids)
    assert found["tokens"][-1] == "<|eos|>"
    assert found["text_offset"][-1] == len(choice["text"])
    assert all(b >= a for a, b in zip(found["text_offset"], found["text_offset"][1:], strict=False))
    first = len(server.encode("the other"))
    assert found["text_offset"][first] == len("the other")
    # the answer's own log probabilities are those that it has without the prompt before it
    [alone] = server.choices(prompt="the other", logprobs=1, max_tokens=30)
    assert alone["logprobs"]["token_logprobs"] == found["token_logprobs"][first:]
    assert alone["logprobs"]["text_offset"] == [at - len("the other") for at in found["text_offset"][first:]]


def test_one_token_after_an_echoed_prompt_is_one_entry_also_where_it_is_the_end(server):
    # evaluation harnesses take the entries from the end of the context to the last but one
    for prompt in ("empty", "the other"):
        [choice] = server.choices(prompt=prompt, echo=True, logprobs=1, max_tokens=1)
        assert len(choice["logprobs"]["token_logprobs"]) == len(server.encode(prompt)) + 1


def test_what_is_known_of_a_prompt_does_not_keep_it_from_being_judged(server):
    text = random_text(100)
    asked = {"prompt": text, "max_tokens": 2, "ignore_eos": True}
    first, cached, again = (
        response.json() for response in server.ask(asked, asked, {**asked, "echo": True, "logprobs": 2})
    )
    assert cached["usage"]["prompt_tokens_details"]["cached_tokens"] > 0
    assert first["choices"][0]["text"] == cached["choices"][0]["text"]
    found = again["choices"][0]["logprobs"]
    assert found["token_logprobs"][1 : len(server.encode(text))] == [
        token.logprob for token in server.judged(text, top=2).tokens
    ]


def test_several_answers_to_a_prompt_all_have_its_log_probabilities(server):
    asked = {"prompt": ["abc", "the one"], "n": 3, "echo": True, "logprobs": 1, "temperature": 2.0, "seed": 1}
    choices = server.choices(**asked, max_tokens=4)
    for index, choice in enumerate(choices):
        text = asked["prompt"][index // 3]
        count = len(server.encode(text))
        assert choice["text"].startswith(text)
        assert choice["logprobs"]["token_logprobs"][1:count] == [
            token.logprob for token in server.judged(text, top=1).tokens
        ]


def ask_model(folder, backend, *bodies):
    """The answers of a server of another model folder."""

    async def go():
        llm = AsyncLLM(folder, backend=backend)
        services = server_doubles.fake_services(folder.parent / "unused")
        await services.models.aclose()
        entry = server_doubles.ModelEntry("other", str(folder), warm_up=False)
        services.models = server_doubles.table_of(llm, entry)
        async with server_doubles.client(create_app(services)) as client, contextlib.aclosing(llm):
            responses = [await client.post("/v1/completions", json=body) for body in bodies]
        assert [response.status_code for response in responses] == [200] * len(bodies)
        return [response.json() for response in responses]

    return asyncio.run(asyncio.wait_for(go(), 60))


def test_special_tokens_that_a_tokenizer_adds_are_judged_and_take_no_room(tmp_path):
    folder = with_added_bos(write_model_folder(tmp_path / "model", context=CONTEXT))
    asked = {"prompt": "the thing", "echo": True, "logprobs": 0, "max_tokens": 0}
    answers = ask_model(folder, fake_backend(), asked, {**asked, "add_special_tokens": False})
    with_it, without = (answer["choices"][0] for answer in answers)
    assert with_it["text"] == without["text"] == "the thing"
    assert with_it["logprobs"]["tokens"] == ["<|bos|>", *without["logprobs"]["tokens"]]
    assert with_it["logprobs"]["text_offset"] == [0, *without["logprobs"]["text_offset"]]
    assert without["logprobs"]["token_logprobs"][0] is None
    assert with_it["logprobs"]["token_logprobs"][1] is not None


def joined(events, index):
    """A choice as the chunks of a stream add up to it."""
    mine = [choice for event in events for choice in event["choices"] if choice["index"] == index]
    whole = {"index": index, "text": "".join(choice["text"] for choice in mine), "logprobs": None}
    told = [choice["logprobs"] for choice in mine if choice["logprobs"] is not None]
    if told:
        whole["logprobs"] = {key: [x for each in told for x in each[key]] for key in told[0]}
    assert [c["finish_reason"] for c in mine[:-1]] == [None] * (len(mine) - 1)
    whole |= {"finish_reason": mine[-1]["finish_reason"], "stop_reason": mine[-1]["stop_reason"]}
    if "token_ids" in mine[-1]:
        whole["token_ids"] = [token for choice in mine for token in choice.get("token_ids", ())]
        whole["prompt_token_ids"] = mine[0]["prompt_token_ids"]
    return whole


@pytest.mark.parametrize(
    "asked",
    [
        {"prompt": "the other"},
        {"prompt": ["a", "b", "empty"], "n": 2},
        {"prompt": ["a", "something else"], "echo": True},
        {"prompt": ["a", "empty"], "echo": True, "logprobs": 2, "n": 2, "return_token_ids": True},
        {"prompt": "abc", "echo": True, "logprobs": 0, "max_tokens": 0},
        {"prompt": "a", "stop": ["e thin"], "logprobs": 1},
        {"prompt": "b", "logprobs": 1, "stop_token_ids": [EOS]},
    ],
)
def test_a_stream_adds_up_to_the_answer_that_is_not_streamed(server, asked):
    asked = {"max_tokens": 20, "seed": 7, **asked}
    whole, events = server.answer(**asked), server.events(**asked, stream_options={"include_usage": True})
    for index, choice in enumerate(whole["choices"]):
        assert joined(events, index) == choice
    assert all(event["usage"] is None for event in events[:-1])
    assert events[-1]["choices"] == []
    counted = ("prompt_tokens", "completion_tokens", "total_tokens")
    assert [events[-1]["usage"][key] for key in counted] == [whole["usage"][key] for key in counted]
    assert len({event["id"] for event in events}) == 1
    assert {event["object"] for event in events} == {"text_completion"}


def test_streams_say_nothing_of_usage_where_nobody_asks(server):
    assert all("usage" not in event for event in server.events(prompt="a"))


def test_the_most_probable_answers_are_chosen(server):
    asked = {"prompt": "abc", "temperature": 2.0, "seed": 5, "max_tokens": 6, "ignore_eos": True}
    every = server.answer(**asked, n=6, logprobs=0)
    best = server.answer(**asked, n=2, best_of=6, logprobs=0)
    shown = server.answer(**asked, n=2, best_of=6)

    def mean(choice):
        return math.fsum(choice["logprobs"]["token_logprobs"]) / 6

    expected = sorted(every["choices"], key=mean, reverse=True)[:2]
    assert [choice["text"] for choice in best["choices"]] == [choice["text"] for choice in expected]
    assert [choice["index"] for choice in best["choices"]] == [0, 1]
    assert [choice["text"] for choice in shown["choices"]] == [choice["text"] for choice in expected]
    assert [choice["logprobs"] for choice in shown["choices"]] == [None, None]
    assert best["usage"]["completion_tokens"] == 36
    assert best["usage"]["prompt_tokens"] == len(server.encode("abc"))
    [one] = server.choices(prompt="a", best_of=1, max_tokens=20)
    assert one["text"] == ANSWERS["a"]


def test_prompts_are_cut_when_asked(server):
    kept = server.encode("the other")
    prompt = [*server.encode("something"), *kept]
    [choice] = server.choices(prompt=prompt, truncate_prompt_tokens=len(kept), max_tokens=20)
    assert choice["text"] == ANSWERS["the other"]
    ids = server.encode("x") * (CONTEXT * 2)
    body = server.answer(prompt=ids, truncate_prompt_tokens=-1, max_tokens=3, ignore_eos=True)
    assert body["usage"]["prompt_tokens"] == CONTEXT - 3
    [echoed] = server.choices(prompt="abc the end", truncate_prompt_tokens=2, echo=True, max_tokens=0)
    assert "abc the end".endswith(echoed["text"]) and echoed["text"] != "abc the end"


def test_log_probabilities_of_prompts_also_come_in_vllms_form(server):
    [choice] = server.choices(prompt="the thing", prompt_logprobs=2, max_tokens=1)
    ids = server.encode("the thing")
    first, *others = choice["prompt_logprobs"]
    assert first is None
    expected = server.judged("the thing", top=2).tokens
    for token, found, judgement in zip(ids[1:], others, expected, strict=True):
        assert found[str(token)]["logprob"] == judgement.logprob
        assert found[str(token)]["rank"] == judgement.rank
        assert {each["rank"] for each in found.values()} >= {1, 2}
    assert choice["logprobs"] is None


def test_a_stop_text_is_named(server):
    [choice] = server.choices(prompt="a", stop=["nothing", " the"], max_tokens=20)
    assert (choice["text"], choice["finish_reason"], choice["stop_reason"]) == ("1 😀", "stop", " the")


def test_gaps_are_filled_by_models_that_were_trained_for_it(server, tmp_path):
    assert server.refusal(prompt="def f():", suffix="return 1")["param"] == "suffix"
    folder = write_model_folder(tmp_path / "model")
    first = with_gap_tokens(folder)
    encode = Tokenizer.from_folder(folder).encode
    gap = encode("{}def f():{}return x{}".format(*GAP_TOKENS))
    answer = [*encode(" x = 1 "), first]  # goes on with the prefix of another gap
    backend = fake_backend(vocab_size=first + 3, continuations={tuple(gap): answer}, eos_token_id=EOS)
    asked = {"prompt": "def f():", "suffix": "return x", "logprobs": 0, "max_tokens": 20}
    whole, two = ask_model(folder, backend, asked, {**asked, "prompt": ["def f():"], "n": 2})
    [choice] = whole["choices"]
    assert (choice["text"], choice["finish_reason"]) == (" x = 1 ", "stop")
    assert choice["logprobs"]["tokens"][-1] == GAP_TOKENS[0]
    assert whole["usage"]["prompt_tokens"] == len(gap)
    assert [each["text"] for each in two["choices"]] == [choice["text"]] * 2


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "prompt"),
        ({"prompt": []}, "prompt"),
        ({"prompt": [[]]}, None),
        ({"prompt": [1, VOCAB_SIZE]}, None),
        ({"prompt": ["a"] * 4}, "prompt"),
        ({"prompt": ["a", "b"], "n": 4}, "prompt"),
        ({"prompt": "a", "n": 7}, "n"),
        ({"prompt": "a", "best_of": 7}, "best_of"),
        ({"prompt": "a", "n": 3, "best_of": 2}, "best_of"),
        ({"prompt": "a", "best_of": 2, "stream": True}, "best_of"),
        ({"prompt": "a", "logprobs": 6}, "logprobs"),
        ({"prompt": "a", "logprobs": -1}, "logprobs"),
        ({"prompt": "a", "logprobs": True}, "logprobs"),
        ({"prompt": "a", "prompt_logprobs": 6}, "prompt_logprobs"),
        ({"prompt": "a", "prompt_logprobs": 1, "stream": True}, "prompt_logprobs"),
        ({"prompt": "a", "truncate_prompt_tokens": 0}, "truncate_prompt_tokens"),
        ({"prompt": "a", "max_tokens": -1}, "max_tokens"),
        ({"prompt": "abcdefghijklm"}, None),
        ({"prompt": ["a", "b"], "suffix": "c"}, "suffix"),
        ({"prompt": [1], "suffix": "c"}, "suffix"),
        ({"prompt": "a", "suffix": "c", "max_tokens": 0}, "suffix"),
        ({"prompt": "a", "suffix": "c", "echo": True}, "echo"),
        ({"prompt": "a", "suffix": "c", "return_token_ids": True}, "return_token_ids"),
        ({"prompt": ["a", "abcdefghijklm"]}, None),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(server, body, param):
    settings = {"max_prompts": 3, "max_answers": 6, "max_logprobs": 5, "max_prompt_tokens": 12}
    refusal = server.refusal(**body, settings=settings)
    assert (refusal["type"], refusal["param"]) == ("invalid_request_error", param)


def test_openais_client_reads_completions_and_their_streams(server):
    with openai.OpenAI(base_url=f"{server.client.base_url}/v1", api_key="none") as client:
        done = client.completions.create(
            model="tiny", prompt="the other", max_tokens=30, logprobs=2, echo=True
        )
        pieces = list(client.completions.create(model="tiny", prompt=["a", "b"], max_tokens=30, stream=True))
        with pytest.raises(openai.BadRequestError, match="token id 9999") as refused:
            client.completions.create(model="tiny", prompt=[9999])
    assert done.choices[0].text == "the other thing 😀"
    assert done.choices[0].logprobs.token_logprobs[0] is None
    assert done.usage.completion_tokens == len(server.encode(" thing 😀"))
    for index, answer in enumerate((ANSWERS["a"], ANSWERS["b"])):
        mine = [choice for piece in pieces for choice in piece.choices if choice.index == index]
        assert "".join(choice.text for choice in mine) == answer
        assert mine[-1].finish_reason == "stop"
    assert refused.value.type == "invalid_request_error"


def test_a_prompt_whose_time_was_over_before_it_was_judged_has_no_log_probabilities(server):
    asked = {"prompt": "the other", "echo": True, "logprobs": 1, "deadline_s": 0, "max_tokens": 4}
    [choice] = server.choices(**asked)
    assert (choice["text"], choice["finish_reason"]) == ("the other", "length")
    assert choice["logprobs"]["token_logprobs"] == [None] * len(server.encode("the other"))
    assert joined(server.events(**asked), 0) == choice


def test_long_answers_are_the_same_where_they_are_written_in_a_thread(server, monkeypatch):
    asked = {"prompt": random_text(200), "echo": True, "logprobs": 3, "max_tokens": 2}
    inline = server.choices(**asked)
    loops = []

    def noted(self, *args, **options):
        loops.append(asyncio._get_running_loop())
        return logprobs(self, *args, **options)

    logprobs = Echo.logprobs
    monkeypatch.setattr(Echo, "logprobs", noted)
    for module in (respond, completion_events):
        monkeypatch.setattr(module, "MAX_TOLD_INLINE", 0)
    assert server.choices(**asked) == inline
    assert [joined(server.events(**asked), 0)] == inline
    assert loops == [None, None]
