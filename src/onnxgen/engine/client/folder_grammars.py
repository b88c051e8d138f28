"""`FolderGrammars`: the grammars of a model folder, whose tokenizer is read when the first one comes."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

from onnxgen.engine.constraints.compiler import CompiledGrammar, GrammarCompiler
from onnxgen.engine.constraints.grammar import Grammar
from onnxgen.errors import StateError


class FolderGrammars:
    """A `GrammarSource` that costs nothing before it is asked. May be used from several threads.

    Args:
        folder: The model folder.
        vocab_size: Width of the logits.
        eos_ids: Tokens that end an answer.
    """

    def __init__(self, folder: Path, *, vocab_size: int, eos_ids: Sequence[int]) -> None:
        self.vocab_size, self.eos_ids = vocab_size, tuple(eos_ids)
        self._folder = folder
        self._lock = threading.Lock()
        self._compiler: GrammarCompiler | None = None
        self._closed = False

    def compile(self, grammar: Grammar, /) -> CompiledGrammar:
        """Make a grammar ready, or find that it is; waits until then.

        Raises:
            GrammarError: The grammar is wrong, impossible, not supported or too costly.
            TokenizerError: The folder has no tokenizer, or a broken one.
            StateError: This was closed.
        """
        return self._made().compile(grammar)

    def close(self) -> None:
        """Take no more grammars. Calling it twice is harmless."""
        with self._lock:
            self._closed = True
            compiler, self._compiler = self._compiler, None
        if compiler is not None:
            compiler.close()

    def _made(self) -> GrammarCompiler:
        from onnxgen.preprocess.tokenizer import Tokenizer

        with self._lock:
            if self._closed:
                raise StateError("the engine is closed, and compiles no more grammars")
            if self._compiler is None:
                tokenizer = Tokenizer.from_folder(self._folder, model_vocab_size=self.vocab_size)
                self._compiler = GrammarCompiler(tokenizer, vocab_size=self.vocab_size, eos_ids=self.eos_ids)
            return self._compiler
