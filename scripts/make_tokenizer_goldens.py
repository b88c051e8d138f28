"""Makes tests/goldens/tokenizers/*.json: ids of the probe texts by the models' original tokenizers.

Beside the ids, a file holds the part of the GGUF metadata that these texts can reach: tokens that occur
in one of them, and merges that make such tokens. Merging looks at nothing else, so the conversion can
be tested without the model.

Needs transformers and PyTorch, which the project itself does not use. Run it with the folder that holds
the two GGUF files; the tokenizer of a GGUF file is taken through transformers, corrected where its
conversion is known to differ from the model's published tokenizer.json:

* SmolLM2's pre-tokenizer splits digits one by one (``Digits``) before ``ByteLevel``.

    python scripts/make_tokenizer_goldens.py FOLDER_WITH_GGUF_FILES
"""

import json
import sys
from pathlib import Path

import gguf
import tokenizers
import transformers
from tokenizers import normalizers, pre_tokenizers

ROOT = Path(__file__).resolve().parent.parent
GOLDENS = ROOT / "tests" / "goldens" / "tokenizers"
MODELS = {
    "smollm2": "SmolLM2-135M-Instruct.Q4_1.gguf",
    "gemma3-270m": "gemma-3-270m-q4_k_m.gguf",
}


def probes():
    """Texts that tell tokenizers apart."""
    numbers = [str(10**n) for n in range(7)] + [
        "1 22 333 4444 55555",
        "3.14159e-10",
        "①②½ ²³ Ⅷ ٣٤٥ १२३",
        "0x7F_FF",
    ]
    spaces = ["", " ", "  ", "   ", " " * 5, " " * 16, " " * 33, " a", "  a", "a ", "a  ", " a  b   c    d "]
    breaks = [
        "\n",
        "\n\n",
        "\n\n\n",
        "\r\n",
        "\t",
        "\t\t",
        "a\nb",
        "a\n\nb \n c",
        "\n \n",
        " \n",
        "a\tb\t\tc",
        "\u00a0x\u2003y\u3000z",
    ]
    words = [
        "Hello, world!",
        "The quick brown fox jumps over the lazy dog.",
        "I'm you're he's we'll they've I'd don't IT'S 'Tis rock'n'roll",
        "l\u2019été dernier, j\u2019ai mangé une crème brûlée",
        "cafe\u0301 café Å A\u030a ﬁ ﷽ Ⅷ",
        "ПРИВЕТ мир, Ελληνικά, Türkçe İıĞğ",
        "你好，世界！日本語のテキスト。한국어 문장입니다. 繁體中文",
        "مرحبا بالعالم السلام عليكم",
        "שלום עולם",
        "नमस्ते दुनिया สวัสดีชาวโลก",
        "😀 👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽 é🇫🇷",
        "z̴̡̛a̷l̸g̵o̶ \u200b\u200d\ufeff",
        "𝕳𝖊𝖑𝖑𝖔 𐍈 𓀀",
    ]
    code = [
        "def f(x: int) -> str:\n    return f'{x!r}'  # comment\n\n\nclass A:\n\tpass\n",
        '{"key": [1, 2.5, null], "nested": {"a": "b\\n"}}',
        '<html><body class="x">a &amp; b</body></html>',
        "for(int i=0;i<10;++i){std::cout<<i<<'\\n';}",
        "https://example.org/a_b?c=d&e=%20#f",
        "SELECT * FROM t WHERE a <> 'b' -- c",
        "==== ---- ____ **** //// .... !!!??? ((())) [[]] {{}}",
        "\\frac{1}{2} \\alpha_{i}^{2} $x$",
    ]
    special = [
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n",
        "<|endoftext|>a<|endoftext|>",
        "<bos><start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\n",
        "a <eos> b<pad><unk><mask> <unused7>",
        "<s>x</s> [INST] y [/INST] <|im_start <0x41> <|im_end|",
        "\u2581a\u2581\u2581b",
    ]
    odd = [
        "\x00",
        "\x01\x02\x7f",
        "\ufffd",
        "\ue000\uf8ff",
        "\U0010ffff",
        "a\x00b",
        "ÿþ",
        "Ġ Ċ ĉ",
        "x" * 300,
        "ab" * 100,
        "á" * 50,
    ]
    return [*numbers, *spaces, *breaks, *words, *code, *special, *odd]


def reduced_metadata(path, texts):
    """Metadata keys of the tokenizer, with tokens and merges that occur in the texts; ids stay."""
    reader = gguf.GGUFReader(path)
    fields = {key: field.contents() for key, field in reader.fields.items()}
    keys = {
        key: value
        for key, value in fields.items()
        if key.startswith("tokenizer.") and not isinstance(value, list)
    }
    tokens, types = fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.token_type"]
    scores = fields.get("tokenizer.ggml.scores", [0.0] * len(tokens))
    if keys["tokenizer.ggml.model"] == "gpt2":
        alphabet = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        forms = ["".join(piece for piece, _ in alphabet.pre_tokenize_str(text)) for text in texts]
    else:
        forms = [normalizers.Replace(" ", "\u2581").normalize_str(text) for text in texts]
    reach = "\n\x1e".join([*texts, *forms])
    named = {value for key, value in keys.items() if key.endswith("token_id")}
    single = set(pre_tokenizers.ByteLevel.alphabet())
    kept = {
        str(i): [token, types[i], scores[i]]
        for i, token in enumerate(tokens)
        if token in reach or i in named or types[i] == 6 or token in single
    }
    texts_kept = {token for token, _, _ in kept.values()}
    merges = [
        merge
        for merge in fields.get("tokenizer.ggml.merges", ())
        if {*merge.split(" "), merge.replace(" ", "")} <= texts_kept
    ]
    return {"keys": keys, "size": len(tokens), "tokens": kept, "merges": merges}


def main(folder):
    GOLDENS.mkdir(parents=True, exist_ok=True)
    texts = probes()
    for name, file in MODELS.items():
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, gguf_file=file)
        backend = tokenizer.backend_tokenizer
        if name == "smollm2":
            backend.pre_tokenizer = pre_tokenizers.Sequence(
                [
                    pre_tokenizers.Digits(individual_digits=True),
                    pre_tokenizers.ByteLevel(add_prefix_space=False),
                ]
            )
        golden = {
            "made_by": f"scripts/make_tokenizer_goldens.py, transformers {transformers.__version__}, tokenizers {tokenizers.__version__}",
            "file": file,
            "metadata": reduced_metadata(Path(folder) / file, texts),
            "ids": [[text, backend.encode(text, add_special_tokens=False).ids] for text in texts],
            "ids_with_special_tokens": [[text, tokenizer.encode(text)] for text in ("", "Hello", " a")],
        }
        path = GOLDENS / f"{name}.json"
        path.write_text(
            json.dumps(golden, separators=(",", ":")).replace("],[", "],\n[") + "\n", encoding="utf-8"
        )


if __name__ == "__main__":
    main(sys.argv[1])
