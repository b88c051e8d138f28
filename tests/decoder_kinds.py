"""Small tokenizers with each decoder that ``tokenizer.json`` may have."""

from tokenizers import AddedToken, Regex, decoders, models
from tokenizers import Tokenizer as Backend

from onnxgen.preprocess.byte_alphabet import CHARACTER_OF_BYTE
from onnxgen.preprocess.tokenizer import Tokenizer

HOLES = 3  # rows of the model without a token


def make_tokenizer(tmp_path, tokens, decoder, *, added=(), special=("<|end|>", "<s>")):
    backend = Backend(models.BPE({token: i for i, token in enumerate(tokens)}, []))
    if decoder is not None:
        backend.decoder = decoder
    backend.add_special_tokens([AddedToken(t, normalized=False) for t in special])
    backend.add_tokens([AddedToken(t, normalized=False) for t in added])
    backend.save(str(tmp_path / "tokenizer.json"))
    size = backend.get_vocab_size()
    return Tokenizer.from_folder(tmp_path, model_vocab_size=size + HOLES)


BYTES = list(CHARACTER_OF_BYTE.values())
FALLBACK = [f"<0x{b:02X}>" for b in range(256)]
PIECES = [
    "▁",
    "▁▁",
    "▁the",
    "a",
    "b▁c",
    "你",
    " ",
    "  x ",
    "##ing",
    "##",
    ".",
    "▁.",
    " n't",
    "do",
    "|",
    "<pad>",
    "low</w>",
    "er</w>",
    "aaa",
    "aab",
    "<0x+5>",
    "<0xZZ>",
    "<0x4g>",
]
LLAMA = decoders.Sequence(
    [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
)
GEMMA = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])

KINDS = {
    "byte_level": ([*BYTES, "hello", "Ġworld", "ĠðŁĺ", "ĠÐ¿ÑĢ"], decoders.ByteLevel()),
    "llama": ([*FALLBACK, *PIECES], LLAMA),
    "gemma": ([*FALLBACK, *PIECES], GEMMA),
    "metaspace": (PIECES, decoders.Metaspace()),
    "metaspace_never": (PIECES, decoders.Metaspace(prepend_scheme="never")),
    "metaspace_fallback": (
        [*FALLBACK, *PIECES],
        decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()]),
    ),
    "word_piece": (PIECES, decoders.WordPiece()),
    "word_piece_plain": (PIECES, decoders.WordPiece(cleanup=False)),
    "bpe_suffix": (PIECES, decoders.BPEDecoder()),
    "ctc": (PIECES, decoders.CTC()),
    "none": (PIECES, None),
    "fuse_then_strip": (
        PIECES,
        decoders.Sequence([decoders.Fuse(), decoders.Replace("aab", "X"), decoders.Strip("a", 2, 0)]),
    ),
    "regex": (PIECES, decoders.Sequence([decoders.Replace(Regex("[a▁]+"), "_"), decoders.Fuse()])),
    "fused_metaspace": (PIECES, decoders.Sequence([decoders.Fuse(), decoders.Metaspace()])),
    "fused_regex": (PIECES, decoders.Sequence([decoders.Fuse(), decoders.Replace(Regex("a+b"), "<>")])),
    "byte_level_then_replace": (
        BYTES,
        decoders.Sequence([decoders.ByteLevel(), decoders.Replace("ab", "é")]),
    ),
}
ADDED = ("<think>", "é", "日本", " spaced ")
