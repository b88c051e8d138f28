"""`/v1/embeddings`: texts and token ids to vectors, in both encodings, with turns and limits."""

import asyncio
import base64
import contextlib
import json
import socket
import threading
import types

import httpx
import numpy as np
import openai
import pytest
from fastapi import FastAPI
from fastapi.responses import JSONResponse

import server_doubles
from onnxgen.errors import OnnxgenError
from onnxgen.facade.embedder import Embedder
from onnxgen.server.errors import ApiError, as_api_error
from onnxgen.server.routes import embeddings
from onnxgen.server.settings import ServerSettings
from onnxgen.server.vector_work import VectorWork
from tiny_model_folder import CONTEXT, fake_backend, write_model_folder
from tiny_tokenizer import VOCAB_SIZE

TEXTS = ["hello there", "x", "some longer text than the others"]
WAIT_S = 30


class Observed:
    def __init__(self):
        self.usages, self.ends = [], []

    def usage(self, **told):
        self.usages.append(told)

    def end(self, outcome, *, status, error=None):
        self.ends.append((outcome, status))


class World:
    """The routes alone, with one model that gives vectors."""

    def __init__(self, embedder, **settings):
        self.embedder, self.observed = embedder, []
        self.in_use = 0
        self.app = FastAPI()
        self.app.include_router(embeddings.router)
        self.services = self.app.state.services = types.SimpleNamespace(
            settings=ServerSettings(**settings),
            models=self,
            observer=self,
            vectors=VectorWork(),
            unknown_fields=set(),
            draining=False,
        )

        @self.app.exception_handler(ApiError)
        @self.app.exception_handler(OnnxgenError)
        async def say(_, error):
            error = as_api_error(error)
            return JSONResponse(error.body, error.status, headers=dict(error.headers))

    def begin(self, **_):
        self.observed.append(Observed())
        return self.observed[-1]

    @contextlib.asynccontextmanager
    async def use(self, name):
        self.in_use += 1
        try:
            yield types.SimpleNamespace(id=name or "tiny", vectors=self.embedder)
        finally:
            self.in_use -= 1

    def ask(self, **body):
        async def go():
            async with server_doubles.client(self.app) as client:
                return await client.post("/v1/embeddings", json=body)

        return asyncio.run(go())


@pytest.fixture(scope="module")
def embedder(tmp_path_factory):
    folder = write_model_folder(tmp_path_factory.mktemp("vectors") / "model")
    with Embedder(folder, backend=fake_backend(hidden_size=5, block_size=16), batch_tokens=8) as embedder:
        yield embedder


@pytest.fixture
def world(embedder):
    world = World(embedder)
    yield world
    world.services.vectors.close()


def vectors_of(answer):
    assert answer.status_code == 200, answer.text
    return [each["embedding"] for each in answer.json()["data"]]


def test_each_text_has_its_vector_in_order(world, embedder):
    answer = world.ask(input=TEXTS, model="some/model")
    found = answer.json()
    assert (found["object"], found["model"]) == ("list", "some/model")
    assert [(each["object"], each["index"]) for each in found["data"]] == [("embedding", i) for i in range(3)]
    expected = embedder.embed_counted(TEXTS)
    assert np.array_equal(np.array(vectors_of(answer), np.float32), expected.vectors)
    assert found["usage"] == {"prompt_tokens": expected.total_tokens, "total_tokens": expected.total_tokens}
    [observed] = world.observed
    assert observed.usages == [{"prompt_tokens": expected.total_tokens}]
    assert observed.ends == [("ok", 200)]
    assert world.in_use == 0


def test_both_encodings_are_the_same_numbers(world):
    plain, coded = (
        world.ask(input=TEXTS, encoding_format="float"),
        world.ask(input=TEXTS, encoding_format="base64"),
    )
    for numbers, text in zip(vectors_of(plain), vectors_of(coded), strict=True):
        assert np.array_equal(
            np.frombuffer(base64.b64decode(text, validate=True), "<f4"), np.float32(numbers)
        )


def test_token_ids_are_the_text_that_they_are(world, embedder):
    ids = [embedder.tokenizer.encode(text, add_special_tokens=True) for text in TEXTS]
    assert vectors_of(world.ask(input=ids)) == vectors_of(world.ask(input=TEXTS))
    assert vectors_of(world.ask(input=ids[0])) == vectors_of(world.ask(input=TEXTS[0]))
    refused = world.ask(input=[1, VOCAB_SIZE])
    assert refused.status_code == 400
    assert f"token id {VOCAB_SIZE}" in refused.json()["error"]["message"]


def test_dimensions_are_applied(world, embedder):
    [found] = vectors_of(world.ask(input="abc", dimensions=3))
    assert len(found) == 3
    assert np.linalg.norm(found) == pytest.approx(1, abs=1e-6)
    assert np.allclose(found, embedder.embed("abc", dimensions=3)[0])
    width = embedder.embed("abc").shape[1]
    refused = world.ask(input="abc", dimensions=width + 1)
    assert refused.status_code == 400
    assert f"this model's vectors have {width}" in refused.json()["error"]["message"]
    assert world.observed[-1].ends == [("rejected", 400)]


def test_long_texts_are_refused_or_cut_when_asked(world):
    refused = world.ask(input=["a", "x" * (CONTEXT + 1)])
    assert refused.status_code == 400
    assert refused.json()["error"]["code"] == "context_length_exceeded"
    assert "text 1" in refused.json()["error"]["message"]
    cut = world.ask(input="x" * (CONTEXT + 1), truncate=True)
    assert cut.json()["usage"]["prompt_tokens"] == CONTEXT


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"input": []}, "input is empty"),
        ({"input": ["a", ""]}, "text 1 has no tokens"),
        ({"input": [[]]}, "no tokens"),
        ({"input": ["a"] * 4}, "at most 3"),
    ],
)
def test_what_has_no_vector_is_refused(embedder, body, says):
    answer = World(embedder, max_prompts=3).ask(**body)
    assert answer.status_code == 400
    assert says in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"input": None},
        {"input": [True]},
        {"input": "a", "dimensions": 0},
        {"input": "a", "dimensions": "3"},
        {"input": "a", "truncate": "yes"},
        {"input": "a", "encoding_format": "int8"},
    ],
)
def test_what_is_no_request_is_refused(world, body):
    assert world.ask(**body).status_code in (400, 422)
    assert world.observed == []


def test_fields_that_mean_nothing_are_named_once(world, caplog):
    for _ in range(2):
        assert world.ask(input="a", pooling="max").status_code == 200
    assert [r.getMessage() for r in caplog.records if "pooling" in r.getMessage()] == [
        "requests have the field 'pooling', which means nothing here and is ignored"
    ]


def test_a_server_that_ends_takes_nothing_new(world):
    world.services.draining = True
    answer = world.ask(input="a")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")


class SlowEmbedder:
    """Works in steps, each of which waits for the test."""

    def __init__(self):
        self.steps, self.go, self.began = [], threading.Semaphore(0), threading.Event()

    def embed_counted(self, texts, *, turn, **_):
        for text in texts:
            with turn():
                self.began.set()
                assert self.go.acquire(timeout=WAIT_S)
                self.steps.append(text)
        return types.SimpleNamespace(vectors=np.zeros((len(texts), 2), np.float32), total_tokens=len(texts))


def asking(url, body):
    """A connection on which vectors were asked for; who closes it leaves."""
    address, content = httpx.URL(url), json.dumps(body).encode()
    head = f"POST /v1/embeddings HTTP/1.1\r\nHost: {address.host}\r\nContent-Type: application/json\r\n"
    client = socket.create_connection((address.host, address.port), timeout=WAIT_S)
    client.sendall(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
    return client


def test_requests_take_turns():
    slow = SlowEmbedder()
    world = World(slow)

    async def go():
        async with server_doubles.client(world.app) as client:
            first = asyncio.ensure_future(client.post("/v1/embeddings", json={"input": ["a1", "a2", "a3"]}))
            assert await asyncio.to_thread(slow.began.wait, WAIT_S)
            second = asyncio.ensure_future(client.post("/v1/embeddings", json={"input": "b"}))
            while len(world.services.vectors._turns._queue) < 2:
                await asyncio.sleep(0.001)
            slow.go.release(4)
            return await asyncio.gather(first, second)

    assert [answer.status_code for answer in asyncio.run(asyncio.wait_for(go(), WAIT_S))] == [200, 200]
    assert slow.steps.index("b") == 1


def test_work_ends_when_its_client_leaves():
    slow = SlowEmbedder()
    world = World(slow)
    with server_doubles.running(world.app) as url:
        with asking(url, {"input": ["a"] * 1000}):
            assert slow.began.wait(WAIT_S)
        wait = threading.Event()
        for _ in range(WAIT_S * 100):
            if world.in_use == 0:
                break
            slow.go.release()
            wait.wait(0.01)
    assert world.in_use == 0
    assert len(slow.steps) < 1000
    assert world.observed[0].ends == [("cancelled", 499)]


def test_a_model_is_in_use_as_long_as_its_work_goes_on():
    slow = SlowEmbedder()
    world = World(slow)
    with server_doubles.running(world.app) as url:
        with asking(url, {"input": "a"}):
            assert slow.began.wait(WAIT_S)
        wait = threading.Event()
        while not world.observed[0].ends:
            wait.wait(0.01)
        wait.wait(0.2)
        assert world.in_use == 1  # its client has left, and its one step has not ended
        slow.go.release()
        for _ in range(WAIT_S * 100):
            if world.in_use == 0:
                break
            wait.wait(0.01)
    assert world.in_use == 0


def test_openais_client_reads_the_vectors(world, embedder):
    with (
        server_doubles.running(world.app) as url,
        openai.OpenAI(base_url=f"{url}/v1", api_key="none") as client,
    ):
        by_default = client.embeddings.create(model="tiny", input=TEXTS)
        as_numbers = client.embeddings.create(
            model="tiny", input=TEXTS, encoding_format="float", dimensions=2
        )
    expected = embedder.embed_counted(TEXTS)
    assert np.allclose([each.embedding for each in by_default.data], expected.vectors, atol=1e-7)
    assert [len(each.embedding) for each in as_numbers.data] == [2, 2, 2]
    assert by_default.usage.total_tokens == expected.total_tokens
