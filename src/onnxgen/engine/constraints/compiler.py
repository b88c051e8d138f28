"""`GrammarCompiler`: grammars made ready once, in threads of its own, for any number of requests."""

from __future__ import annotations

import json
import logging
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

from onnxgen.engine.constraints.blame import find_refused
from onnxgen.engine.constraints.grammar import Grammar
from onnxgen.engine.constraints.limits import GrammarLimits
from onnxgen.engine.constraints.state import GrammarState
from onnxgen.engine.constraints.translation import Translated, translate
from onnxgen.engine.constraints.vocabulary import Vocabulary
from onnxgen.errors import GrammarError, StateError
from onnxgen.preprocess.tokenizer import Tokenizer

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLParserLimits


_log = logging.getLogger(__name__)

_PICTURE = re.compile(r"regex parse error:\n(?:.*\n)*?error: |\n +\d+ \|(?:.|\n)*")
"""Lines in which llguidance draws where a fault is, beside saying so: messages are one line."""

_BLAME_S = 1.0
"""So long the part at fault is looked for, when a grammar was refused."""


_STACK_BYTES = 128 << 20


class CompiledGrammar:
    """A grammar ready to be followed, by any number of requests at the same time.

    Attributes:
        grammar: What was compiled.
        warnings: Where the grammar is followed less strictly, or more so, than it says, and how.
    """

    def __init__(
        self, grammar: Grammar, matcher: LLMatcher, vocabulary: Vocabulary, warnings: Sequence[str] = ()
    ) -> None:
        self.grammar = grammar
        self.warnings = tuple(warnings)
        self._matcher = matcher
        self._vocabulary = vocabulary

    def new_state(self) -> GrammarState:
        """A state that has followed nothing yet."""
        return GrammarState(self._matcher, self._vocabulary, fast_forward=self.grammar.fast_forward)


class GrammarCompiler:
    """Compiles grammars for one tokenizer and keeps the results. Safe to use from several threads.

    Args:
        tokenizer: Of the model.
        vocab_size: Rows of the model's logits.
        eos_ids: Tokens that end an answer; all are allowed exactly where a grammar accepts.
        limits: What a grammar may cost.
        clock: Gives the time in seconds.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        vocab_size: int,
        eos_ids: Sequence[int],
        limits: GrammarLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.vocab_size = vocab_size
        self.eos_ids = tuple(eos_ids)
        self.limits = limits or GrammarLimits()
        self._tokenizer = tokenizer
        self._clock = clock
        self._vocabulary: Vocabulary | None = None
        self._vocabulary_lock = threading.Lock()
        self._lock = threading.Lock()
        self._known: OrderedDict[Grammar, Future[CompiledGrammar]] = OrderedDict()
        self._pool: ThreadPoolExecutor | None = None
        self._closed = False

    def compile(self, grammar: Grammar) -> CompiledGrammar:
        """Make a grammar ready, or find that it is; waits until then.

        Callers that ask for the same grammar at the same time wait for the same work. A refusal is remembered
        as a result is.

        Raises:
            GrammarError: The grammar is wrong, impossible, not supported or too costly.
            StateError: The compiler is closed.
        """
        self._ready_vocabulary()  # takes as long as the vocabulary is large, whatever the grammar
        future = self._future(grammar)
        try:
            return future.result(self.limits.compile_timeout_s)
        except TimeoutError:
            raise GrammarError(
                f"the {grammar.kind} grammar was not ready after {self.limits.compile_timeout_s:g} s: "
                "make it smaller, or ask again when the machine is less busy"
            ) from None
        except CancelledError:
            raise StateError("the compiler of grammars was closed before the grammar was ready") from None
        except GrammarError as error:
            # Each caller raises an error of its own: a remembered one would gather all their tracebacks.
            raise GrammarError(str(error)) from None
        except BaseException:
            self._forget(grammar, future)
            raise

    def close(self) -> None:
        """Take no more grammars; those compiled stay usable. May be called again."""
        with self._lock:
            self._closed = True
            self._known.clear()
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)

    def _future(self, grammar: Grammar) -> Future[CompiledGrammar]:
        with self._lock:
            if self._closed:
                raise StateError("the compiler of grammars is closed")
            future = self._known.get(grammar)
            if future is not None and not future.cancelled():
                self._known.move_to_end(grammar)
                return future
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self.limits.threads, thread_name_prefix="onnxgen-grammar")
            future = _submit(self._pool, self._compile, grammar)
            self._known[grammar] = future
            self._make_room()
            return future

    def _forget(self, grammar: Grammar, future: Future[CompiledGrammar]) -> None:
        with self._lock:
            if self._known.get(grammar) is future:
                del self._known[grammar]

    def _make_room(self) -> None:
        size = sum(len(grammar.source) for grammar in self._known)
        while len(self._known) > 1 and (
            len(self._known) > self.limits.cached_grammars or size > self.limits.cached_bytes
        ):
            oldest, _ = self._known.popitem(last=False)
            size -= len(oldest.source)

    def _compile(self, grammar: Grammar) -> CompiledGrammar:
        translated = translate(grammar)
        matcher = self._matcher(translated.text)
        reason = _reason(matcher) if matcher.is_error() else self._first_step(matcher)
        if reason is not None:
            raise self._refusal(grammar, translated, reason)
        warnings = [*translated.warnings, *matcher.get_grammar_warnings()]
        for warning in warnings:
            _log.warning("a %s grammar is not followed to the letter: %s", grammar.kind, warning)
        return CompiledGrammar(grammar, matcher, self._ready_vocabulary(), warnings)

    def _first_step(self, matcher: LLMatcher) -> str | None:
        # A grammar may be well formed and allow nothing, or break at its first token. The first mask, which all
        # requests need, is kept by the matcher.
        words = np.zeros((self.vocab_size + 31) // 32, np.uint32)
        matcher.unsafe_compute_mask_ptr(words.ctypes.data, words.nbytes)
        if matcher.is_error():
            return _reason(matcher)
        first = int(np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little"))[0])
        trial = matcher.deep_copy()
        if first not in self.eos_ids and not trial.consume_token(first):
            return _reason(trial)
        return None

    def _matcher(self, text: str) -> LLMatcher:
        from llguidance import LLMatcher

        return LLMatcher(self._ready_vocabulary().handle, text, log_level=0, limits=self._parser_limits())

    def _refusal(self, grammar: Grammar, translated: Translated, reason: str) -> GrammarError:
        def refusal(text: str) -> str | None:
            matcher = self._matcher(text)
            return _reason(matcher) if matcher.is_error() else self._first_step(matcher)

        until = self._clock() + _BLAME_S
        for path, schema in translated.schemas:
            alone = json.dumps({"grammars": [{"json_schema": schema}]})
            if len(translated.schemas) == 1 or refusal(alone) is not None:
                pointer, reason = find_refused(schema, reason, refusal, clock=self._clock, until=until)
                return GrammarError(f"JSON schema, at {path}{pointer or '/'}: {reason}")
        return GrammarError(f"the {grammar.kind} grammar is refused: {reason}")

    def _ready_vocabulary(self) -> Vocabulary:
        with self._vocabulary_lock:
            if self._vocabulary is None:
                self._vocabulary = Vocabulary(
                    self._tokenizer, vocab_size=self.vocab_size, eos_ids=self.eos_ids
                )
            return self._vocabulary

    def _parser_limits(self) -> LLParserLimits:
        from llguidance import LLParserLimits

        limits = self.limits
        return LLParserLimits(
            max_items_in_row=limits.row_items,
            initial_lexer_fuel=limits.lexer_fuel,
            step_lexer_fuel=limits.step_lexer_fuel,
            step_max_items=limits.step_items,
            max_lexer_states=limits.lexer_states,
            max_grammar_size=limits.grammar_symbols,
            verbose_errors=False,
        )


def _submit(
    pool: ThreadPoolExecutor, work: Callable[[Grammar], CompiledGrammar], grammar: Grammar
) -> Future[CompiledGrammar]:
    # Submitting may start a thread. Grammars are compiled by recursion, whose depth their writers choose: a
    # thread of usual size would overflow, and take the process with it. Only touched pages count as memory.
    usual = threading.stack_size(_STACK_BYTES)
    try:
        return pool.submit(work, grammar)
    finally:
        threading.stack_size(usual)


def _reason(matcher: LLMatcher) -> str:
    reason = _PICTURE.sub("", matcher.get_error().split("\n<", 1)[0]).strip()
    return "it allows nothing to be written" if reason in ("", "NoExtensionBias") else reason
