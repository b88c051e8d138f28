"""llama.cpp through llama-cpp-python's bindings, step by step.

Its grammar looks at the best token alone, and at all tokens only where that one may not follow, as llama.cpp's own programs do.
Guesses are those of `LlamaPromptLookupDecoding`; they are verified in one step, and what was wrong leaves the cache.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.agents.workers.asking import Answered, Wish, serve_wishes
from benchmarks.peers.workers.llamacpp import LlamaContext

_CANDIDATE = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])


class LlamaCpp(LlamaContext):
    """Answers wishes."""

    def __init__(self, file: Path, threads: int) -> None:
        super().__init__(file, threads)
        self._candidates = np.zeros(self._vocab_size, _CANDIDATE)

    def answer(self, wish: Wish) -> Answered:
        if wish.written:
            raise NotImplementedError("tokens that must follow are asked of the model")
        self._make_room(len(wish.prompts), len(wish.prompts[0]) + wish.new_tokens + wish.drafts)
        self._c.llama_memory_clear(self._c.llama_get_memory(self._context), True)
        started = time.perf_counter()
        rules = [self._grammar(wish.schema) for _ in wish.prompts]
        try:
            return self._guessed(wish, started) if wish.drafts else self._plain(wish, rules, started)
        finally:
            for rule in rules:
                if rule is not None:
                    self._c.llama_sampler_free(rule)

    def _plain(self, wish: Wish, rules: Sequence[Any], started: float) -> Answered:
        rows = [
            (token, position, sequence, position == len(prompt) - 1)
            for sequence, prompt in enumerate(wish.prompts)
            for position, token in enumerate(prompt)
        ]
        last = np.cumsum([len(prompt) for prompt in wish.prompts]) - 1
        self._step(rows)
        answers = [[self._choose(int(row), rule)] for row, rule in zip(last, rules, strict=True)]
        first = time.perf_counter()
        writing = self._unfinished(answers, range(len(answers)), wish)
        while writing:
            self._step(
                [(answers[i][-1], len(wish.prompts[i]) + len(answers[i]) - 1, i, True) for i in writing]
            )
            for row, i in enumerate(writing):
                answers[i].append(self._choose(row, rules[i]))
            writing = self._unfinished(answers, writing, wish)
        ended = time.perf_counter()
        return Answered(first - started, ended - started, answers)

    def _guessed(self, wish: Wish, started: float) -> Answered:
        from llama_cpp.llama_speculative import LlamaPromptLookupDecoding

        if len(wish.prompts) > 1 or wish.schema is not None:
            raise NotImplementedError("prompt lookup is for one free answer")
        lookup = LlamaPromptLookupDecoding(max_ngram_size=wish.match, num_pred_tokens=wish.drafts)
        (prompt,) = wish.prompts
        memory = self._c.llama_get_memory(self._context)
        history = np.empty(len(prompt) + wish.new_tokens + wish.drafts + 1, np.int32)
        history[: len(prompt)] = prompt
        self._step([(token, at, 0, at == len(prompt) - 1) for at, token in enumerate(prompt)])
        history[len(prompt)] = self._best(len(prompt) - 1)
        known, end = len(prompt) + 1, len(prompt) + wish.new_tokens
        first = time.perf_counter()
        while known < end:
            draft = [int(token) for token in lookup(history[:known])[: end - known - 1]]
            tokens = [int(history[known - 1]), *draft]
            self._step([(token, known - 1 + row, 0, True) for row, token in enumerate(tokens)])
            for row, guess in enumerate([*draft, None]):
                history[known] = best = self._best(row)
                known += 1
                if best != guess:
                    break
            self._c.llama_memory_seq_rm(memory, 0, known - 1, -1)
        ended = time.perf_counter()
        return Answered(first - started, ended - started, [history[len(prompt) : end].tolist()])

    def _grammar(self, schema: str | None) -> Any:
        if schema is None:
            return None
        from llama_cpp.llama_grammar import json_schema_to_gbnf

        return self._c.llama_sampler_init_grammar(self._vocab, json_schema_to_gbnf(schema).encode(), b"root")

    def _choose(self, row: int, rule: Any) -> int:
        best = self._best(row)
        if rule is None:
            return best
        alone = np.zeros(1, _CANDIDATE)
        alone["id"] = best
        self._apply(rule, alone)
        if np.isneginf(alone["logit"][0]):
            self._candidates["id"] = np.arange(self._vocab_size)
            self._candidates["logit"] = self._logits(row)
            self._apply(rule, self._candidates)
            best = int(self._candidates["logit"].argmax())
        self._c.llama_sampler_accept(rule, best)
        return best

    def _apply(self, rule: Any, candidates: np.ndarray) -> None:
        pointer = candidates.ctypes.data_as(ctypes.POINTER(self._c.llama_token_data))
        array = self._c.llama_token_data_array(data=pointer, size=len(candidates), selected=-1, sorted=False)
        self._c.llama_sampler_apply(rule, ctypes.byref(array))

    def _unfinished(self, answers: list[list[int]], writing: Sequence[int], wish: Wish) -> list[int]:
        kept = []
        for i in writing:
            if wish.to_end and self._c.llama_vocab_is_eog(self._vocab, answers[i][-1]):
                answers[i].pop()
            elif len(answers[i]) < wish.new_tokens:
                kept.append(i)
        return kept


if __name__ == "__main__":
    serve_wishes(LlamaCpp, ["llama-cpp-python"])
