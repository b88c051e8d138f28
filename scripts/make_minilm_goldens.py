"""Write tests/fixtures/minilm/sentences.npz: vectors of texts by all-MiniLM-L6-v2, as its model card computes them.

Needs PyTorch and transformers, which nothing else in the project does:

    python scripts/make_minilm_goldens.py FOLDER_OF_THE_CHECKPOINT

The file holds ``texts``, their ``vectors`` (float32 ``[texts, 384]``: the mean of the tokens' states, of length 1) and
``lengths`` in tokens, and ``long`` with ``long_vector``: a text that is cut. Each text was encoded alone, so that no padding
took part.
"""

import sys
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModel, AutoTokenizer

OUTPUT = Path(__file__).parents[1] / "tests" / "fixtures" / "minilm" / "sentences.npz"
TEXTS = (
    "Hello world",
    "A cat sat on the mat.",
    "The kitten is lying on a rug!",
    "Stock markets fell sharply on Monday, led by banks.",
    "",
    "x",
    "Grüße aus München: naïve café, 東京 and 🙂.",
    "  spaces   and\ttabs\nand lines  ",
    "def f(x):\n    return x ** 2  # squares",
    "The quick brown fox jumps over the lazy dog. " * 24,
)
LONG = "word " * 400
MAX_LENGTH = 256


def main():
    checkpoint = Path(sys.argv[1])
    model = AutoModel.from_pretrained(checkpoint, attn_implementation="eager").eval()
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    golden = {"texts": np.array(TEXTS), "long": np.array([LONG])}

    def vector(text):
        encoded = tokenizer(text, return_tensors="pt", padding=False, truncation=True, max_length=MAX_LENGTH)
        with torch.no_grad():
            states = model(**encoded).last_hidden_state[0]
        return torch.nn.functional.normalize(states.mean(dim=0), dim=0).numpy(), states.shape[0]

    vectors, lengths = zip(*(vector(text) for text in TEXTS), strict=True)
    golden |= {"vectors": np.stack(vectors), "lengths": np.array(lengths)}
    golden["long_vector"], _ = vector(LONG)
    np.savez_compressed(OUTPUT, **golden)


if __name__ == "__main__":
    main()
