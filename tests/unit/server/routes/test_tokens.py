"""`/tokenize`, `/detokenize`, `/apply-template`, `/tokenizer_info`, in the forms of llama.cpp's server and of vLLM's."""

import asyncio
import types

import httpx
import pytest
from fastapi import FastAPI
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import server_doubles
from onnxgen.engine.config import EngineConfig
from onnxgen.facade.embedder import Embedder
from onnxgen.preprocess.tokenizer import Tokenizer
from onnxgen.server.app import create_app
from onnxgen.server.models import LoadedModel, ModelEntry
from onnxgen.server.routes import tokens
from onnxgen.server.settings import ServerSettings
from tiny_model_folder import CONTEXT, fake_backend, with_added_bos, write_model_folder
from tiny_tokenizer import BOS, EOS, VOCAB_SIZE
from tool_models import TOOLS

TALK = [{"role": "user", "content": "the é 😀"}, {"role": "assistant", "content": "<|eos|>"}]
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{{ eos_token }}{% endfor %}"
    "{% if tools %}({{ tools | map(attribute='function') | map(attribute='name') | join }}){% endif %}{% if mood is defined %}{{ mood }}{% endif %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokens")
    app = create_app(server_doubles.fake_services(folder, template=TEMPLATE))
    with server_doubles.running(app) as url, httpx.Client(base_url=url, timeout=60) as client:
        yield types.SimpleNamespace(client=client, tokenizer=Tokenizer.from_folder(folder / "model"))


def answer(served, path, **body):
    response = served.client.post(path, json=body)
    assert response.status_code == 200, response.text
    return response.json()


def refusal(served, path, **body):
    response = served.client.post(path, json=body)
    assert response.status_code == 400, response.text
    return response.json()["error"]


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(text=st.text())
def test_any_text_comes_back(served, text):
    ids = answer(served, "/tokenize", prompt=text)["tokens"]
    assert ids == served.tokenizer.encode(text, add_special_tokens=True)
    assert answer(served, "/detokenize", tokens=ids) == {"content": text, "prompt": text}


def test_llama_cpps_form_has_the_tokens_alone(served):
    ids = served.tokenizer.encode("the é")
    assert answer(served, "/tokenize", content="the é") == {"tokens": ids}
    pieces = answer(served, "/tokenize", content="the é", with_pieces=True)["tokens"]
    assert [piece["id"] for piece in pieces] == ids
    assert pieces[0] == {"id": ids[0], "piece": "the"}
    assert [piece["piece"] for piece in pieces[2:]] == [[0xC3], [0xA9]]


def test_vllms_form_counts(served):
    ids = served.tokenizer.encode("the other")
    expected = {"count": len(ids), "max_model_len": 1024, "tokens": ids, "token_strs": None}
    assert answer(served, "/tokenize", prompt="the other") == expected
    names = answer(served, "/tokenize", prompt="the other", return_token_strs=True)["token_strs"]
    assert names == ["the", "Ġ", "o", "the", "r"]


def test_special_tokens_in_texts_are_tokens_unless_asked_otherwise(served):
    assert answer(served, "/tokenize", content="<|eos|>")["tokens"] == [EOS]
    plain = answer(served, "/tokenize", content="<|eos|>", parse_special=False)["tokens"]
    assert plain == served.tokenizer.encode("<|eos|>", parse_special=False)
    assert EOS not in plain
    assert answer(served, "/detokenize", tokens=[BOS, *plain])["content"] == "<|bos|><|eos|>"
    assert (
        answer(served, "/detokenize", tokens=[BOS, *plain], skip_special_tokens=True)["content"] == "<|eos|>"
    )


def test_a_tokenizers_own_special_tokens_are_added_where_each_form_has_them(tmp_path):
    folder = with_added_bos(write_model_folder(tmp_path / "model"))
    tokenizer = Tokenizer.from_folder(folder)
    embedder = types.SimpleNamespace(tokenizer=tokenizer, max_length=7)
    model = LoadedModel(ModelEntry("m", str(folder)), embedder=embedder)
    found = {
        name: ask_alone(model, body)["tokens"][0] == BOS
        for name, body in {
            "content": {"content": "a"},
            "content with": {"content": "a", "add_special": True},
            "prompt": {"prompt": "a"},
            "prompt without": {"prompt": "a", "add_special_tokens": False},
        }.items()
    }
    assert found == {"content": False, "content with": True, "prompt": True, "prompt without": False}


def ask_alone(model, body, path="/tokenize"):
    """An answer of the routes alone, about a model of any kind."""

    class Table:
        def use(self, name):
            return self

        async def __aenter__(self):
            return model

        async def __aexit__(self, *_):
            pass

    app = FastAPI()
    app.include_router(tokens.router)
    app.state.services = types.SimpleNamespace(
        settings=ServerSettings(), models=Table(), unknown_fields=set(), draining=False
    )

    async def go():
        async with server_doubles.client(app) as client:
            response = await (client.get(path) if body is None else client.post(path, json=body))
            assert response.status_code == 200, response.text
            return response.json()

    return asyncio.run(asyncio.wait_for(go(), 60))


def test_models_that_give_vectors_have_tokens_too(tmp_path):
    with Embedder(write_model_folder(tmp_path), backend=fake_backend(hidden_size=4)) as embedder:
        model = LoadedModel(ModelEntry("vectors", str(tmp_path)), embedder=embedder)
        found = ask_alone(model, {"prompt": "the"})
        assert (found["tokens"], found["max_model_len"]) == (embedder.tokenizer.encode("the"), CONTEXT)
        assert ask_alone(model, {"tokens": found["tokens"]}, "/detokenize")["prompt"] == "the"
        info = ask_alone(model, None, "/tokenizer_info")
        assert (info["model"], info["model_max_length"], info["chat_template"]) == ("vectors", CONTEXT, None)


def test_a_conversation_is_what_chat_shows_the_model(served):
    asked = {"messages": TALK}
    text = answer(served, "/apply-template", **asked)["prompt"]
    assert text == "<|bos|>[user]the é 😀<|eos|>[assistant]<|eos|><|eos|>[assistant]"
    found = answer(served, "/tokenize", **asked)
    chat = answer(served, "/v1/chat/completions", **asked, max_tokens=1)
    assert found["count"] == len(found["tokens"]) == chat["usage"]["prompt_tokens"]
    # what a message says is no control token; what the template writes is
    assert found["tokens"].count(EOS) == 2
    assert answer(served, "/detokenize", tokens=found["tokens"])["content"] == text


def test_conversations_may_go_on_or_end_anywhere(served):
    shown = {
        name: answer(served, "/apply-template", messages=TALK[:1], **more)["prompt"].rpartition("😀")[2]
        for name, more in {
            "usual": {},
            "no answer": {"add_generation_prompt": False},
            "tools": {"tools": TOOLS[:1]},
            "variable": {"chat_template_kwargs": {"mood": "!"}, "temperature": 0, "stream": True},
        }.items()
    }
    assert shown == {
        "usual": "<|eos|>[assistant]",
        "no answer": "<|eos|>",
        "tools": "<|eos|>(weather)[assistant]",
        "variable": "<|eos|>![assistant]",
    }
    left_open = answer(
        served,
        "/apply-template",
        messages=[TALK[0], {"role": "assistant", "content": "so"}],
        continue_final_message=True,
    )
    assert left_open["prompt"].endswith("[assistant]so")


def test_long_texts_are_the_same_in_a_thread(served):
    text = "the other 😀 " * 3000
    ids = answer(served, "/tokenize", content=text)["tokens"]
    assert ids == served.tokenizer.encode(text)
    assert answer(served, "/detokenize", tokens=ids)["prompt"] == text
    assert text in answer(served, "/apply-template", messages=[{"role": "user", "content": text}])["prompt"]


def test_programs_learn_what_they_need_of_a_tokenizer(served):
    info = served.client.get("/tokenizer_info", params={"model": "tiny"}).json()
    assert info == {
        "model": "tiny",
        "vocab_size": VOCAB_SIZE,
        "model_max_length": 1024,
        "bos_token": "<|bos|>",
        "eos_token": "<|eos|>",
        "pad_token": "<|pad|>",
        "unk_token": None,
        "chat_template": TEMPLATE,
    }
    assert served.client.get("/tokenizer_info", params={"model": "other"}).status_code == 404


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/tokenize", {}, "prompt"),
        ("/tokenize", {"content": "a", "prompt": "a"}, "prompt"),
        ("/tokenize", {"content": "a", "messages": TALK}, "messages"),
        ("/tokenize", {"prompt": 5}, "prompt"),
        ("/tokenize", {"content": "a", "return_token_strs": True}, "return_token_strs"),
        ("/tokenize", {"content": "a", "add_special_tokens": False}, "add_special_tokens"),
        ("/tokenize", {"prompt": "a", "add_special": True}, "add_special"),
        ("/tokenize", {"prompt": "a", "with_pieces": True}, "with_pieces"),
        ("/tokenize", {"messages": TALK, "add_special_tokens": True}, "add_special_tokens"),
        ("/tokenize", {"messages": TALK, "parse_special": False}, "parse_special"),
        ("/tokenize", {"messages": []}, "messages"),
        ("/detokenize", {"tokens": ["a"]}, "tokens[0]"),
        ("/detokenize", {"tokens": [-1]}, None),
        ("/detokenize", {"tokens": [VOCAB_SIZE]}, None),
        ("/detokenize", {"tokens": [2**80]}, None),
        ("/apply-template", {}, "messages"),
        ("/apply-template", {"messages": TALK, "chat_template": "x"}, "chat_template"),
        (
            "/apply-template",
            {"messages": TALK, "continue_final_message": True, "add_generation_prompt": True},
            "add_generation_prompt",
        ),
        ("/apply-template", {"messages": [{"role": "alien", "content": "a"}]}, "messages[0].role"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(served, path, body, param):
    found = refusal(served, path, **body)
    assert (found["type"], found["param"]) == ("invalid_request_error", param)
    assert "/" not in found["message"]  # no path of this machine


def test_fields_that_mean_nothing_are_named_once(served, caplog):
    asked = {"messages": TALK, "temperature": 1, "tool_choice": "auto", "colour": "red"}
    for path in ("/apply-template", "/tokenize", "/apply-template"):
        answer(served, path, **asked)
    named = [r.getMessage() for r in caplog.records if r.name.endswith("unknown_fields")]
    assert named == ["requests have the field 'colour', which means nothing here and is ignored"]


def test_no_tokens_are_no_text(served):
    assert answer(served, "/detokenize", tokens=[]) == {"content": "", "prompt": ""}
    assert answer(served, "/tokenize", content="") == {"tokens": []}


def test_the_context_is_what_the_operator_gives(tmp_path):
    given = server_doubles.fake_services(
        tmp_path, engine=EngineConfig(max_seq_tokens=64), context=CONTEXT * 2
    )

    async def go():
        async with server_doubles.client(create_app(given)) as client:
            asked = {"prompt": "the other " * 200}
            counted = (await client.post("/tokenize", json=asked)).json()
            info = (await client.get("/tokenizer_info")).json()
            cut = {**asked, "truncate_prompt_tokens": -1, "max_tokens": 3, "ignore_eos": True}
            completion = (await client.post("/v1/completions", json=cut)).json()
            await given.models.aclose()
            return counted["max_model_len"], info["model_max_length"], completion["usage"]["prompt_tokens"]

    assert asyncio.run(asyncio.wait_for(go(), 60)) == (64, 64, 61)
