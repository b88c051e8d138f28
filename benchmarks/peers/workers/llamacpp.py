"""llama.cpp through its C functions, as llama-cpp-python binds them."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.peers.workers.serving import StreamTimes, serve

_STEP_TOKENS = 2048
ALIGNMENT = 256  # the program rounds the size of a cache up to this


def load(file: Path) -> tuple[Any, Any, Any]:
    """The program's functions, what keeps them silent while it is held, and a model of theirs."""
    import llama_cpp

    silent = llama_cpp.llama_log_callback(lambda level, text, data: None)
    llama_cpp.llama_log_set(silent, ctypes.c_void_p(0))
    llama_cpp.llama_backend_init()
    params = llama_cpp.llama_model_default_params()
    params.n_gpu_layers = 0
    model = llama_cpp.llama_model_load_from_file(str(file).encode(), params)
    if not model:
        raise RuntimeError(f"llama.cpp cannot load {file}")
    return llama_cpp, silent, model


class LlamaContext:
    """A GGUF file, and one context that is made anew when another number or length of sequences is needed."""

    def __init__(self, file: Path, threads: int) -> None:
        self._threads = threads
        self._c, self._log, self._model = load(file)
        self._vocab = self._c.llama_model_get_vocab(self._model)
        self._vocab_size = self._c.llama_vocab_n_tokens(self._vocab)
        self._context: Any = None
        self._room = 0, 0

    def _make_room(self, sequences: int, tokens: int) -> None:
        if self._room[0] == sequences and tokens <= self._room[1]:
            return
        if self._context is not None:
            self._c.llama_free(self._context)
        tokens += -tokens % ALIGNMENT
        params = self._c.llama_context_default_params()
        params.n_ctx, params.n_seq_max = sequences * tokens, sequences
        params.n_batch, params.n_ubatch = max(_STEP_TOKENS, sequences * tokens), 512
        params.n_threads = params.n_threads_batch = self._threads
        params.kv_unified = False  # a cache for each sequence: attention looks at no others
        self._context = self._c.llama_init_from_model(self._model, params)
        if not self._context:
            raise RuntimeError(f"llama.cpp has no room for {sequences} sequences of {tokens} tokens")
        self._batch = self._c.llama_batch_init(params.n_batch, 0, 1)
        self._room = sequences, tokens

    def _step(self, rows: Sequence[tuple[int, int, int, bool]]) -> None:
        """Run rows of token, position, sequence, and whether logits are wanted."""
        batch = self._batch
        batch.n_tokens = len(rows)
        for row, (token, position, sequence, wanted) in enumerate(rows):
            batch.token[row], batch.pos[row], batch.logits[row] = token, position, wanted
            batch.n_seq_id[row], batch.seq_id[row][0] = 1, sequence
        if self._c.llama_decode(self._context, batch):
            raise RuntimeError("llama.cpp failed to run a step")

    def _best(self, row: int) -> int:
        return int(self._logits(row).argmax())

    def _logits(self, row: int) -> np.ndarray:
        logits = self._c.llama_get_logits_ith(self._context, row)
        return np.ctypeslib.as_array(logits, shape=(self._vocab_size,))


class LlamaCpp(LlamaContext):
    """Measures prompts and answers."""

    def __init__(self, file: Path, threads: int) -> None:
        super().__init__(file, threads)
        self._make_room(1, _STEP_TOKENS + ALIGNMENT)

    def prefill(self, prompt: Sequence[int]) -> float:
        return self.streams([prompt], 1).total_s

    def decode(self, prompt: Sequence[int], new_tokens: int) -> float:
        return self.streams([prompt], new_tokens).decode_s

    def streams(self, prompts: Sequence[Sequence[int]], new_tokens: int) -> StreamTimes:
        length, count = len(prompts[0]), len(prompts)
        self._make_room(count, max(length + new_tokens, _STEP_TOKENS + ALIGNMENT if count == 1 else 0))
        self._c.llama_memory_clear(self._c.llama_get_memory(self._context), True)
        rows = [
            (token, position, sequence, position == length - 1)
            for sequence, prompt in enumerate(prompts)
            for position, token in enumerate(prompt)
        ]
        started = time.perf_counter()
        self._step(rows)
        chosen = [self._best(length * (sequence + 1) - 1) for sequence in range(count)]
        first = time.perf_counter()
        for position in range(length, length + new_tokens - 1):
            self._step([(token, position, sequence, True) for sequence, token in enumerate(chosen)])
            chosen = [self._best(row) for row in range(count)]
        ended = time.perf_counter()
        return StreamTimes(ended - first, ended - started)


if __name__ == "__main__":
    serve(LlamaCpp, ["llama-cpp-python"])
