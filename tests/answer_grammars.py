"""What grammars of answers take, and random answers under them, with vocabularies of bytes and markers."""

import random
import re

import numpy as np

from chat_templates import chat_tokenizer
from onnxgen.engine.constraints.compiler import GrammarCompiler
from onnxgen.engine.constraints.grammar import Grammar
from onnxgen.preprocess.detokenizer import IncrementalDetokenizer
from onnxgen.preprocess.tool_calls.parser import ToolCallParser

_MARKER = re.compile(
    r'<\|"\|>|<[|｜][^<>\s]*[|｜]>|</?[a-z_]+(?::[a-z_]+)?>|<\|[a-z_]+>|<[a-z_]+\|>|\[[A-Z_]+\]|｜DSML｜|</?TOOLCALL>'
)
END = "<|im_end|>"


def marker_texts(format):
    """Texts of a format that a vocabulary would have as tokens."""
    body = format.body
    texts = [format.opening, format.closing, *format.other_openings]
    texts += [value for name in body.__slots__ if isinstance(value := getattr(body, name), str)]
    return sorted({found for text in texts for found in _MARKER.findall(text)})


class Writer:
    """A vocabulary of bytes and markers, and what grammars let it write.

    Args:
        folder: For the tokenizer.
        special: Texts of control tokens.
        plain: Texts of added tokens that are none.
    """

    def __init__(self, folder, *, special=(), plain=()):
        folder.mkdir(parents=True, exist_ok=True)
        self.tokenizer = chat_tokenizer(folder, special=[END, *special], plain=list(plain))
        self.end = self.tokenizer.token_to_id(END)
        self.compiler = GrammarCompiler(
            self.tokenizer, vocab_size=self.tokenizer.vocab_size, eos_ids=[self.end]
        )

    def state(self, grammar):
        return self.compiler.compile(Grammar(grammar.kind, grammar.source)).new_state()

    def taken(self, grammar, text):
        """How much of a text a grammar takes, and whether the answer may end there."""
        state = self.state(grammar)
        ids = self.tokenizer.encode(text)
        count = state.valid_prefix(ids)
        state.follow(ids[:count])
        return self.tokenizer.decode(ids[:count], skip_special_tokens=False), state.accepts_end

    def takes(self, grammar, text):
        """Whether a text is a whole answer."""
        return self.taken(grammar, text) == (text, True)

    def random_answer(self, grammar, rng: random.Random, *, likely, most=600, after=()):
        """Random ids under a grammar, which end where they may and luck has it; None: they did not end.

        The first ones are given by ``after``.
        """
        state = self.state(grammar)
        mask = np.zeros((self.tokenizer.vocab_size + 31) // 32, np.uint32)
        likely_ids = set(self.tokenizer.encode(likely)) | {t.id for t in self.tokenizer.added_tokens}
        ids = list(after)
        while len(ids) < most + len(after):
            state.follow(ids)
            state.fill(mask)
            allowed = np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little")).tolist()
            assert allowed, self.tokenizer.decode(ids, skip_special_tokens=False)
            if self.end in allowed:
                if len(allowed) == 1 or rng.random() < 0.2:
                    return ids
                allowed.remove(self.end)
            favoured = [i for i in allowed if i in likely_ids] if rng.random() < 0.9 else []
            ids.append(rng.choice(favoured or allowed))
        return None

    def shortest_answer(self, grammar, *, most=400):
        """Ids that end as soon as they may: of those allowed a visible one that is needed most."""
        rng = random.Random(0)
        answers = [self.random_answer(grammar, rng, likely="", most=most) for _ in range(20)]
        return min((ids for ids in answers if ids), key=len)

    def read(self, bound, tools, ids, *, complete=True):
        """Content and calls of an answer."""
        detokenizer = IncrementalDetokenizer(self.tokenizer, shown_ids=bound.shown_ids)
        parser = ToolCallParser(bound, tools)
        parts = [parser.push(detokenizer.push(i), i) for i in ids]
        parts += [parser.push(detokenizer.flush()), parser.flush(complete=complete)]
        return "".join(p.content for p in parts), [call for p in parts for call in p.calls]
