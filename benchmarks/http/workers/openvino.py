"""A minimal HTTP server over OpenVINO GenAI's continuous batching, for a comparison only; runs in its environment.

    python -m benchmarks.http.workers.openvino FOLDER CHECKPOINT --port 8000 --threads 2 --max-seqs 16

OpenVINO Model Server is not published as a Python package or in Debian; this takes its place and does much less: ``/health``,
``/v1/chat/completions`` and ``/v1/completions``, greedy, streaming. One thread steps the pipeline and serves sockets in between,
so that what a step gave is sent before the next one begins: a step holds Python's lock. Text is made by the tokenizers
package, faster here than the pipeline's own.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import openvino
import openvino_genai
from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

_CACHE_GB = 2
_STEP_TOKENS = 512
_TURNS = 4  # of the event loop between steps: a connection is accepted, read and answered within them
_WARM_TOKENS = 600  # a whole step and a part of one: a new pipeline's first steps take twice as long


@dataclass
class _Answer:
    """An answer under way; its events go to ``connection`` while that is open."""

    connection: _Connection
    number: int
    is_chat: bool
    prompt_tokens: int
    new_tokens: int
    handle: Any
    decoder: DecodeStream
    sent: int = 0

    def events(self, tokenizer: Tokenizer, ids: list[int]) -> bytes:
        pieces: list[bytes] = []
        if not self.sent and self.is_chat:
            pieces.append(self._data({"choices": [{"index": 0, "delta": {"role": "assistant"}}]}))
        for token in ids:
            self.sent += 1
            text = self.decoder.step(tokenizer, token)
            if text:
                pieces.append(self._event(text, None))
        if self.sent >= self.new_tokens:
            usage = {"prompt_tokens": self.prompt_tokens, "completion_tokens": self.sent}
            usage["total_tokens"] = self.prompt_tokens + self.sent
            pieces += [self._event("", "length"), self._data({"choices": [], "usage": usage})]
            pieces += [b"data: [DONE]\n\n"]
        return b"".join(pieces)

    def _event(self, text: str, finish: str | None) -> bytes:
        said = {"delta": {"content": text} if text else {}} if self.is_chat else {"text": text}
        return self._data({"choices": [{"index": 0, **said, "finish_reason": finish}]})

    def _data(self, values: dict[str, Any]) -> bytes:
        return b"data: " + json.dumps({"id": f"answer-{self.number}", **values}).encode() + b"\n\n"


class _Batching:
    """The pipeline, stepped while there is work."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.tokenizer = Tokenizer.from_file(str(args.text / "tokenizer.json"))
        scheduling = openvino_genai.SchedulerConfig()
        scheduling.cache_size = _CACHE_GB
        scheduling.dynamic_split_fuse = scheduling.enable_prefix_caching = True
        scheduling.max_num_seqs, scheduling.max_num_batched_tokens = args.max_seqs, _STEP_TOKENS
        self._pipeline = openvino_genai.ContinuousBatchingPipeline(
            str(args.model), scheduling, "CPU", {"INFERENCE_NUM_THREADS": args.threads}
        )
        self._new: deque[tuple[_Connection, bool, list[int], int]] = deque()
        self._wake = asyncio.Event()
        self._numbers = itertools.count()
        self._answers: list[_Answer] = []
        held = self._handle([1] * _WARM_TOKENS, 4)  # without its handle a request ends
        while self._pipeline.has_non_finished_requests():
            self._pipeline.step()
        del held

    def ask(self, connection: _Connection, is_chat: bool, ids: list[int], new_tokens: int) -> None:
        self._new.append((connection, is_chat, ids, new_tokens))
        self._wake.set()

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._new or self._answers:
                self._admit()
                self._pipeline.step()
                self._hand_out()
                for _ in range(_TURNS):
                    await asyncio.sleep(0)

    def _admit(self) -> None:
        while self._new:
            connection, is_chat, ids, new_tokens = self._new.popleft()
            number, handle = self._handle(ids, new_tokens)
            decoder = DecodeStream(skip_special_tokens=True)
            self._answers.append(_Answer(connection, number, is_chat, len(ids), new_tokens, handle, decoder))

    def _handle(self, ids: list[int], new_tokens: int) -> tuple[int, Any]:
        config = openvino_genai.GenerationConfig()
        config.max_new_tokens = config.min_new_tokens = new_tokens
        config.ignore_eos, config.do_sample, config.apply_chat_template = True, False, False
        number = next(self._numbers)
        return number, self._pipeline.add_request(number, openvino.Tensor(np.array([ids], np.int64)), config)

    def _hand_out(self) -> None:
        for answer in self._answers:
            ids: list[int] = []
            while answer.handle.can_read():
                (output,) = answer.handle.read().values()
                ids += output.generated_ids
            if ids:
                events = answer.events(self.tokenizer, ids)
                answer.connection.write_events(events, is_last=answer.sent >= answer.new_tokens)
            if answer.connection.is_lost:
                answer.handle.stop()
                answer.new_tokens = 0
        self._answers = [answer for answer in self._answers if answer.sent < answer.new_tokens]


class _Connection(asyncio.Protocol):
    def __init__(self, batching: _Batching, template: jinja2.Template) -> None:
        self._batching, self._template = batching, template
        self._buffer = b""
        self.is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        self.is_lost = True

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, blank, rest = self._buffer.partition(b"\r\n\r\n")
        if not blank:
            return
        lines = head.decode("latin-1").lower().split("\r\n")
        size = next((int(line.split(":")[1]) for line in lines if line.startswith("content-length:")), 0)
        if len(rest) >= size:
            self._buffer = rest[size:]
            self._answer(lines[0].split()[1], rest[:size])

    def _answer(self, path: str, body: bytes) -> None:
        if path == "/health":
            self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
            return
        asked = json.loads(body)
        is_chat = path.endswith("/chat/completions")
        text = (
            asked["prompt"]
            if not is_chat
            else self._template.render(
                messages=asked["messages"], add_generation_prompt=True, bos_token="", eos_token=""
            )
        )
        ids = self._batching.tokenizer.encode(text, add_special_tokens=not is_chat).ids
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        self._transport.write(head)
        self._batching.ask(self, is_chat, ids, asked["max_tokens"])

    def write_events(self, events: bytes, *, is_last: bool) -> None:
        if not self.is_lost:
            end = b"0\r\n\r\n" if is_last else b""
            self._transport.write(b"%x\r\n" % len(events) + events + b"\r\n" + end)


async def _serve(args: argparse.Namespace) -> None:
    loop = asyncio.get_running_loop()
    batching = _Batching(args)
    stepping = asyncio.create_task(batching.run())
    source = (args.text / "chat_template.jinja").read_text(encoding="utf-8")
    template = jinja2.Environment(trim_blocks=True, lstrip_blocks=True).from_string(source)
    server = await loop.create_server(lambda: _Connection(batching, template), "127.0.0.1", args.port)
    async with server:
        await stepping


def main() -> None:
    """Serve until a signal ends the process."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("text", type=Path, help="folder of tokenizer.json and chat_template.jinja")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--max-seqs", type=int, required=True)
    asyncio.run(_serve(parser.parse_args()))


if __name__ == "__main__":
    main()
