"""`IncrementalDetokenizer`: ids to text while they are being generated."""

from __future__ import annotations

from onnxgen.errors import StateError
from onnxgen.preprocess.stream_decoder import stream_decoder
from onnxgen.preprocess.tokenizer import Tokenizer


class IncrementalDetokenizer:
    """Turns the ids of one sequence into text as they come.

    All that `push` has returned, plus what `flush` returns, is ``tokenizer.decode(ids)`` of all ids, for
    any ids and wherever they stop. Text that a later id could change is held back, so U+FFFD appears only
    if it is in the final text. The cost of an id does not depend on how many came before it.

    Args:
        tokenizer: The tokenizer.
        skip_special_tokens: Leave special tokens out.
        shown_ids: Special tokens to keep all the same; that text is then the one of all ids but the others.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        skip_special_tokens: bool = True,
        shown_ids: frozenset[int] = frozenset(),
    ) -> None:
        self._tokenizer = tokenizer
        self._skipped = tokenizer.special_ids - shown_ids if skip_special_tokens else frozenset[int]()
        self._given = 0
        self._decoder = stream_decoder(tokenizer.decoder_spec_without(self._skipped))
        self._held_ids: list[int] = []
        self._finished = False

    def push(self, token_id: int) -> str:
        """Take the next id and give the text that is now certain, often one word, sometimes nothing.

        Raises:
            TokenIdError: The id is outside the vocabulary; the state is as before.
            StateError: The sequence was flushed already.
        """
        if self._finished:
            raise StateError("push after flush: this detokenizer has given all its text; make a new one")
        token_id = self._tokenizer.check_id(token_id)
        if token_id in self._skipped:
            return ""
        if self._decoder is None:
            self._held_ids.append(token_id)
            self._given += len(self._tokenizer.token_text(token_id))
            return ""
        token = self._tokenizer.id_to_token(token_id)
        text = "" if token is None else self._decoder.push(token)
        self._given += len(text)
        return text

    @property
    def offset(self) -> int:
        """Where in the whole text, in characters, that of the next token begins.

        A token that goes on with a character begins where that character does. A text that only a decoder
        of whole texts can give (`push` gives nothing then) is measured token by token.
        """
        return self._given + (0 if self._decoder is None else self._decoder.held)

    def flush(self) -> str:
        """End the sequence and give the text that was held back. A second call gives nothing."""
        if self._finished:
            return ""
        self._finished = True
        if self._decoder is None:
            return self._tokenizer.decode(self._held_ids, skip_special_tokens=False)
        return self._decoder.close()
