"""Small vocabularies of every kind we load, for grammars, and what a test asks of a state."""

import numpy as np
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Backend

from onnxgen.engine.constraints.compiler import GrammarCompiler
from onnxgen.engine.constraints.limits import GrammarLimits
from onnxgen.errors import GrammarError
from onnxgen.preprocess.byte_alphabet import CHARACTER_OF_BYTE
from onnxgen.preprocess.gguf_tokenizer import write_tokenizer_files
from onnxgen.preprocess.tokenizer import Tokenizer

END, OTHER_END = "<|im_end|>", "<|end|>"
SPECIALS = (END, OTHER_END, '"a"', "<|never|>")
"""One of them has a text that JSON is made of."""
MARKERS = ("<tool_call>", "</tool_call>")
WORDS = ('{"', '":', '",', ' "', "tr", "true", "false", "null", "name", "na", "am", "me", "ab", "abc", "12", "é",
         "\n ", "  ", " a", "[]", "},", "]}", '"}', "-1", "a\"")  # fmt: skip
PAD_ROWS = 41


def byte_level(folder):
    alphabet = list(CHARACTER_OF_BYTE.values())
    words = ["".join(CHARACTER_OF_BYTE[b] for b in word.encode()) for word in WORDS]
    merges = []
    vocabulary = list(alphabet)
    for word in words:
        for size in range(2, len(word) + 1):
            merge = (word[: size - 1], word[size - 1])
            if merge not in merges:
                merges.append(merge)
            vocabulary += [word[:size]] if word[:size] not in vocabulary else []
    # Ids 100 and 101 are no token. Special ones are part of the model here, as their ids would collide else.
    vocabulary += [*SPECIALS, *MARKERS]
    backend = Backend(models.BPE({token: i + 2 * (i >= 100) for i, token in enumerate(vocabulary)}, merges))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    return _load(backend, folder)


def sentencepiece(folder):
    """Llama's way: a blank before the text, bytes as fallback."""
    pieces = [
        "<unk>",
        *(f"<0x{b:02X}>" for b in range(256)),
        "▁",
        *'abcdefghijklmnopqrstuvwxyz0123456789{}[]":,.\\-',
    ]
    pieces += [word.replace(" ", "▁") for word in WORDS if "\n" not in word]
    vocabulary = {piece: i for i, piece in enumerate(dict.fromkeys(pieces))}
    merges = [
        (piece[:cut], piece[cut:])
        for piece in vocabulary
        for cut in range(1, len(piece))
        if not piece.startswith("<") and piece[:cut] in vocabulary and piece[cut:] in vocabulary
    ]
    backend = Backend(models.BPE(vocabulary, merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    backend.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return _load(backend, folder)


def word_piece(folder):
    """BERT's way: what it reads is lowercase and loses its blanks, so no text has tokens of its own."""
    signs = '{}[]":,.\\-0123456789abcdefghijklmnopqrstuvwxyz'
    vocabulary = ["[UNK]", *signs, *(f"##{sign}" for sign in signs), "true", "false", "null", "##ame", "na"]
    backend = Backend(models.WordPiece({token: i for i, token in enumerate(vocabulary)}, unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer()
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece(cleanup=False)
    return _load(backend, folder)


def split_words(folder):
    """A pre-tokenizer as in GPT-2 and Llama 3, with digits one by one."""
    tokenizer = byte_level(folder)
    backend = tokenizer.backend
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"\p{N}| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+"), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    backend.save(str(folder / "tokenizer.json"))
    return Tokenizer.from_folder(folder)


def gguf(folder):
    """Written by us from the vocabulary of a GGUF file."""
    bytes_, plain, control = 6, 1, 3
    entries = [("<unk>", 0.0, 2), (END, 0.0, control), (OTHER_END, 0.0, control), ("<|never|>", 0.0, control)]
    entries += [(f"<0x{b:02X}>", 0.0, bytes_) for b in range(256)]
    pieces = dict.fromkeys(
        ["▁", *(word.replace(" ", "▁") for word in WORDS), *'{}[]":,abcdefgnmtrue0123456789']
    )
    entries += [(piece, -float(i), plain) for i, piece in enumerate(pieces)]
    write_tokenizer_files(
        {
            "tokenizer.ggml.model": "llama",
            "tokenizer.ggml.tokens": [piece for piece, _, _ in entries],
            "tokenizer.ggml.scores": np.asarray([score for _, score, _ in entries], np.float32),
            "tokenizer.ggml.token_type": [kind for _, _, kind in entries],
            "tokenizer.ggml.eos_token_id": 1,
        },
        folder,
    )
    return Tokenizer.from_folder(folder)


KINDS = {
    "byte_level": byte_level,
    "split_words": split_words,
    "sentencepiece": sentencepiece,
    "gguf": gguf,
    "word_piece": word_piece,
}


def compiler_for(tokenizer, *, pad_rows=PAD_ROWS, eos_ids=None, **options):
    if eos_ids is None:
        eos_ids = [tokenizer.token_to_id(END), tokenizer.token_to_id(OTHER_END)]
    # However busy the machine is, what is refused is refused for what it is.
    options.setdefault("limits", GrammarLimits(compile_timeout_s=120))
    return GrammarCompiler(tokenizer, vocab_size=tokenizer.vocab_size + pad_rows, eos_ids=eos_ids, **options)


def new_mask(compiler):
    return np.full((compiler.vocab_size + 31) // 32, 0xFFFFFFFF, np.uint32)


def bits(mask):
    return np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little"))


def allowed(state, compiler):
    mask = new_mask(compiler)
    state.fill(mask)
    return bits(mask)


def bytes_as_tokens(tokenizer, text):
    """Tokens for a text, one way or another, found without the tokenizer's own encoder."""
    table = {}
    for token, spelled in enumerate(tokenizer.token_bytes_table()):
        named = token in tokenizer.special_ids or any(token == t.id for t in tokenizer.added_tokens)
        if len(spelled) == 1 and not named:
            table.setdefault(spelled[0], token)
    return [table[byte] for byte in text.encode()]


def accepts(compiled, tokenizer, text):
    state = compiled.new_state()
    try:
        state.follow(bytes_as_tokens(tokenizer, text))
    except GrammarError:
        return False
    return state.accepts_end


def random_walk(compiled, compiler, tokenizer, rng, *, limit=300):
    """Tokens chosen at random under the mask up to the end; None where there is no end in sight."""
    state, answer = compiled.new_state(), []
    for place in range(limit):
        tokens = allowed(state, compiler)
        ends = np.intersect1d(tokens, compiler.eos_ids)
        if len(ends) and (len(ends) == len(tokens) or rng.random() < 0.3 + place / limit):
            return answer
        # Signs that close something are preferred as time goes by, so that walks end.
        closing = [t for t in tokens if tokenizer.token_bytes(int(t))[:1] in (b'"', b"}", b"]", b",")]
        pool = closing if closing and rng.random() < place / 60 else np.setdiff1d(tokens, compiler.eos_ids)
        answer.append(int(rng.choice(pool)))
        state.follow(answer)
    return None


def bytes_of(tokenizer, tokens):
    return b"".join(map(tokenizer.token_bytes, tokens))


def _load(backend, folder):
    backend.add_special_tokens([AddedToken(text, normalized=False) for text in SPECIALS])
    backend.add_tokens([AddedToken(text, normalized=False, special=False) for text in MARKERS])
    backend.save(str(folder / "tokenizer.json"))
    return Tokenizer.from_folder(folder)
