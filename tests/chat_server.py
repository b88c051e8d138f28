"""A server of one scripted model that offers tools and marks reasoning, and what its streams come to."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from onnxgen.backends.fake import FakeBackend
from onnxgen.engine.config import EngineConfig
from onnxgen.facade.async_llm import AsyncLLM
from onnxgen.foundations.runtime_config import RuntimeConfig
from onnxgen.server.app import create_app
from onnxgen.server.models import ModelEntry
from onnxgen.server.observe.observer import Observer
from onnxgen.server.protection import protect
from onnxgen.server.services import Services
from onnxgen.server.sessions.store import SessionStore
from onnxgen.server.settings import ServerSettings
from server_doubles import table_of
from tiny_tokenizer import EOS, VOCAB_SIZE
from tool_models import CONTEXT, prompt_text, write_tool_folder

WAIT_S = 60


class HeardObserver(Observer):
    """Remembers how requests ended."""

    def __init__(self) -> None:
        super().__init__(statistics_s=0)
        self.begun: list[dict[str, Any]] = []
        self.ends: list[tuple[str, int]] = []
        self.pieces: list[Any] = []

    def begin(self, **told: Any) -> Any:
        """A request begins."""
        self.begun.append(told)
        return self

    def piece(self, chunk: Any) -> None:
        """A piece came."""
        self.pieces.append(chunk)

    def end(self, outcome: str, *, status: int, error: BaseException | None = None) -> None:
        """A request ended."""
        self.ends.append((outcome, status))


class GatedBackend(FakeBackend):
    """Takes no step before the gate is open, and at least ``pace_s`` for each."""

    def __init__(self, *args: Any, pace_s: float = 0.0, **options: Any) -> None:
        super().__init__(*args, **options)
        self.gate, self.asked = threading.Event(), threading.Event()
        self.gate.set()
        self.pace_s = pace_s

    def execute(self, step: Any, cache: Any) -> Any:
        """See `FakeBackend`."""
        self.asked.set()
        if not self.gate.wait(WAIT_S):
            raise AssertionError("the gate stayed closed")
        time.sleep(self.pace_s)
        return super().execute(step, cache)


class ChatServer:
    """A server of one model that answers conversations with texts.

    Args:
        folder: Where the model folder is written.
        answers: Conversations and what follows them.
        tools: What these conversations offer.
        engine: How the engine is configured.
        pace_s: How long a step takes at least.
        entry: Further fields of the model's entry.
        settings: Fields of `ServerSettings`.
    """

    def __init__(
        self,
        folder: Path,
        answers: Sequence[tuple[Sequence[dict[str, Any]], str]] = (),
        *,
        tools: Any = None,
        engine: EngineConfig | None = None,
        pace_s: float = 0.0,
        entry: dict[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        self.folder = write_tool_folder(folder / "model")
        self.backend = self._backend(answers, tools, pace_s)
        self.llm = AsyncLLM(
            self.folder,
            config=RuntimeConfig(cache_dir=folder / "cache"),
            backend=self.backend,
            engine=engine or EngineConfig(cache_tokens=4 * CONTEXT),
        )
        self.observer = HeardObserver()
        self.services = Services(
            settings=ServerSettings(**settings),
            models=table_of(self.llm, ModelEntry("tiny", "tiny", warm_up=False, **(entry or {}))),
            observer=self.observer,
            sessions=SessionStore(),
        )
        self.app = protect(create_app(self.services), self.services)

    def _backend(self, answers: Any, tools: Any, pace_s: float) -> GatedBackend:
        from onnxgen.preprocess.tokenizer import Tokenizer

        tokenizer = Tokenizer.from_folder(self.folder)
        script = {
            tuple(tokenizer.encode(prompt_text(self.folder, messages, tools=tools))): tokenizer.encode(text)
            for messages, text in answers
        }
        return GatedBackend(
            VOCAB_SIZE,
            continuations=script,
            eos_token_id=EOS,
            max_context=CONTEXT,
            block_size=16,
            pace_s=pace_s,
        )

    async def until_idle(self) -> None:
        """Wait until the engine has nothing to do, not for ever."""
        async with asyncio.timeout(WAIT_S):
            while self.llm.num_pending:
                await asyncio.sleep(0.01)

    def wait_until_idle(self) -> None:
        """Likewise, without a loop."""
        end = time.monotonic() + WAIT_S
        while self.llm.num_pending:
            assert time.monotonic() < end, f"{self.llm.num_pending} requests are still pending"
            time.sleep(0.01)


def events_of(text: str) -> list[dict[str, Any]]:
    """The chunks of a stream, which must have ended as streams do."""
    events = [line for line in text.split("\n\n") if line and not line.startswith(":")]
    assert all(event.startswith("data: ") for event in events)
    assert events[-1] == "data: [DONE]"
    return [json.loads(event.removeprefix("data: ")) for event in events[:-1]]


def accumulated(chunks: Iterable[dict[str, Any]], *, n: int = 1) -> list[dict[str, Any]]:
    """The choices that the chunks of a stream come to, after a look at whether they came as they should."""
    choices: list[dict[str, Any]] = [{"index": i, "message": {}, "logprobs": None} for i in range(n)]
    for chunk in chunks:
        for part in chunk["choices"]:
            choice, delta = choices[part["index"]], part["delta"]
            assert "finish_reason" not in choice, "something came after the end"
            message = choice["message"]
            if not message:
                assert delta == {"role": "assistant", "content": None}
            else:
                assert delta or part["finish_reason"] or part["logprobs"], "an empty chunk"
                assert "role" not in delta
            _grow(message, delta)
            if part["logprobs"]:
                known = choice["logprobs"] or {"content": [], "refusal": None}
                choice["logprobs"] = {
                    **known,
                    "content": known["content"] + part["logprobs"]["content"],
                }
            if part["finish_reason"] is not None:
                choice |= {name: part[name] for name in ("finish_reason", "stop_reason")}
    return choices


def _grow(message: dict[str, Any], delta: dict[str, Any]) -> None:
    message.setdefault("refusal", None)
    for name, value in delta.items():
        if name == "tool_calls":
            assert value, "an empty list of calls"
            calls = message.setdefault(name, [])
            for call in value:
                assert call["index"] == len(calls)
                calls.append({key: call[key] for key in call if key != "index"})
        elif name == "role" or message.get(name) is None:
            message[name] = value
        else:
            assert value, "an empty delta"
            message[name] += value
