"""The same questions without a server: `AsyncLLM` in one event loop, its engine in this process or in one of its own.

    python -m benchmarks.http.workers.facade thread
    python -m benchmarks.http.workers.facade process

Speaks as `benchmarks.peers.workers.serving` says, with one more request::

    {"do": "ask", "conversations": [[{"role": ..}], ..], "new_tokens": [64, ..]}
        -> {"answers": [{"sent_s": 0.0, "ended_s": 1.5, "piece_s": [0.1, ..], "new_tokens": 64, "text": "..."}, ..]}
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers.workers.serving import serve

from onnxgen import AsyncLLM
from onnxgen.foundations.runtime_config import RuntimeConfig


class Facade:
    """A model folder of onnxgen, and the event loop that it is asked in."""

    def __init__(self, folder: Path, threads: int, *, in_process: bool) -> None:
        self._loop = asyncio.new_event_loop()
        self._llm = AsyncLLM(folder, config=RuntimeConfig(threads=threads), in_process=in_process)

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        wanted = zip(request["conversations"], request["new_tokens"], strict=True)

        async def ask_all() -> list[dict[str, Any]]:
            return await asyncio.gather(*(self._answer(messages, count) for messages, count in wanted))

        return {"answers": self._loop.run_until_complete(ask_all())}

    async def _answer(self, messages: Sequence[dict[str, str]], new_tokens: int) -> dict[str, Any]:
        sent, piece_s, text, count = time.perf_counter(), [], "", 0
        asked = {"max_new_tokens": new_tokens, "temperature": 0.0, "ignore_eos": True}
        async for chunk in self._llm.chat(messages, **asked):
            if chunk.text:
                piece_s.append(time.perf_counter())
                text += chunk.text
            count += len(chunk.token_ids)
        ended = time.perf_counter()
        return {"sent_s": sent, "ended_s": ended, "piece_s": piece_s, "new_tokens": count, "text": text}


if __name__ == "__main__":
    is_thread = {"thread": True, "process": False}[sys.argv[1]]
    serve(
        lambda folder, threads: Facade(folder, threads, in_process=is_thread), ["onnxgen"], answer=Facade.ask
    )
