"""The same two tasks, a prompt and an answer, through each way to run a model folder.

Each contestant has ``prefill(ids)``, tokens per second from a prompt to its first token, and
``decode(ids, new_tokens)``, tokens per second after it. Caches are made outside of the measured time.
Contestants live in processes of their own, so that no one's threads and memory get in another's way.
"""

from __future__ import annotations

import json
import multiprocessing
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from onnxgen.backends import load_backend
from onnxgen.backends.base import SequenceInput, pack_step
from onnxgen.foundations.runtime_config import RuntimeConfig
from onnxgen.metadata import load_model_spec


class Contestant(Protocol):
    """One way to run a folder."""

    def prefill(self, ids: Sequence[int]) -> float:
        """Prompt tokens per second."""
        ...

    def decode(self, ids: Sequence[int], new_tokens: int) -> float:
        """New tokens per second after the first."""
        ...


class BareBackend:
    """Steps of our ONNX Runtime backend, one for the whole prompt, with the greedy choice in numpy."""

    def __init__(self, folder: Path, threads: int) -> None:
        self._backend = load_backend(load_model_spec(folder).decoder, RuntimeConfig(threads=threads))

    def prefill(self, ids: Sequence[int]) -> float:
        cache = self._backend.create_cache(num_seqs=1, num_tokens=len(ids) + 1)
        started = time.perf_counter()
        self._next(ids, 0, cache)
        seconds = time.perf_counter() - started
        cache.close()
        return len(ids) / seconds

    def decode(self, ids: Sequence[int], new_tokens: int) -> float:
        cache = self._backend.create_cache(num_seqs=1, num_tokens=len(ids) + new_tokens)
        token = self._next(ids, 0, cache)
        started = time.perf_counter()
        for position in range(len(ids), len(ids) + new_tokens - 1):
            token = self._next([token], position, cache)
        seconds = time.perf_counter() - started
        cache.close()
        return (new_tokens - 1) / seconds

    def _next(self, ids: Sequence[int], start: int, cache: Any) -> int:
        step = pack_step([SequenceInput(ids, context_len=start, blocks=[0])])
        return int(self._backend.execute(step, cache).logits[0].argmax())


class GeneratorLoop:
    """The loop that applications embed, over onnxgen or onnxruntime-genai, whichever module is given."""

    def __init__(self, api: Any, folder: Path, threads: int) -> None:
        config = api.Config(str(folder))
        options = {"intra_op_num_threads": threads}
        config.overlay(json.dumps({"model": {"decoder": {"session_options": options}}}))
        self._api = api
        self._model = api.Model(config)

    def prefill(self, ids: Sequence[int]) -> float:
        generator = self._generator(len(ids) + 1)
        started = time.perf_counter()
        generator.append_tokens(np.array(ids, np.int32))
        generator.generate_next_token()
        return len(ids) / (time.perf_counter() - started)

    def decode(self, ids: Sequence[int], new_tokens: int) -> float:
        generator = self._generator(len(ids) + new_tokens)
        generator.append_tokens(np.array(ids, np.int32))
        generator.generate_next_token()
        started = time.perf_counter()
        for _ in range(new_tokens - 1):
            generator.generate_next_token()
        return (new_tokens - 1) / (time.perf_counter() - started)

    def _generator(self, total: int) -> Any:
        params = self._api.GeneratorParams(self._model)
        params.set_search_options(do_sample=False, max_length=total, min_length=total)
        return self._api.Generator(self._model, params)


class HighLevel:
    """`LLM.generate` from text to text: its own timings, of prompts of about the same length."""

    def __init__(self, folder: Path, threads: int) -> None:
        from onnxgen import LLM

        self._llm = LLM(folder, config=RuntimeConfig(threads=threads))

    def prefill(self, ids: Sequence[int]) -> float:
        return self._timings(ids, 1).prefill_tok_s

    def decode(self, ids: Sequence[int], new_tokens: int) -> float:
        return self._timings(ids, new_tokens).decode_tok_s

    def _timings(self, ids: Sequence[int], new_tokens: int) -> Any:
        tokenizer = self._llm.tokenizer
        text = tokenizer.decode(list(ids))
        text = tokenizer.decode(tokenizer.encode(text)[: len(ids)])
        answer = self._llm.generate(text, temperature=0, max_new_tokens=new_tokens, ignore_eos=True)
        return answer.timings


def open_contestant(name: str, folder: Path, threads: int) -> Contestant:
    """Load the folder into the contestant of that name; see `NAMES`."""
    if name == "backend":
        return BareBackend(folder, threads)
    if name == "llm":
        return HighLevel(folder, threads)
    if name == "generator":
        import onnxgen

        return GeneratorLoop(onnxgen, folder, threads)
    import onnxruntime_genai

    return GeneratorLoop(onnxruntime_genai, folder, threads)


class InOwnProcess:
    """A contestant in a child process; calls are passed on to it.

    Attributes:
        pid: The child's process id.
    """

    def __init__(self, name: str, folder: Path, threads: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, name, folder, threads), daemon=True)
        self._process.start()
        theirs.close()
        self._pipe.recv()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def prefill(self, ids: Sequence[int]) -> float:
        return self._call("prefill", ids)

    def decode(self, ids: Sequence[int], new_tokens: int) -> float:
        return self._call("decode", ids, new_tokens)

    def close(self) -> None:
        """End the child process."""
        self._pipe.close()
        self._process.join()

    def _call(self, task: str, *arguments: Any) -> float:
        self._pipe.send((task, arguments))
        return self._pipe.recv()


def _serve(pipe: Connection, name: str, folder: Path, threads: int) -> None:
    contestant = open_contestant(name, folder, threads)
    pipe.send("ready")
    while True:
        try:
            task, arguments = pipe.recv()
        except EOFError:
            return
        pipe.send(getattr(contestant, task)(*arguments))


PEER = "genai"
NAMES = ("backend", "generator", "llm", PEER)
