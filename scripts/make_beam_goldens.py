"""Write tests/goldens/beams/NAME.json: what transformers' beam search finds for tiny checkpoints of tests/checkpoints.py.

Needs PyTorch. Beams are searched by transformers 5 and later, groups of beams by transformers 4, which was the last to
have them; each version writes the file of its kind and leaves the other alone:

    python scripts/make_beam_goldens.py       # with transformers 5: NAME.json, with transformers 4: NAME-groups.json

A file holds the prompts, and for each search its options, the tokens that end a sequence, and for each prompt the
answers, best first: token ids without what ended them, that token or null, and the score. Prompts are searched for
together, padded on the left.

A search whose answers differ between float32 and float64, where each prompt is alone, hangs on rounding and is left out. That options matter is
checked: modes of early stopping and length penalties must not all give the same answers.
"""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import transformers

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from checkpoints import CHECKPOINTS, TinyCheckpoint, digest, prompt_ids, write_checkpoint

NAMES = ("llama", "qwen3", "mistral", "phi3", "gemma3")
LENGTHS = (9, 4, 14)
NEW_TOKENS = 10
PADS = (250, 17, 111, 52, 199, 77)
HAS_GROUPS = int(transformers.__version__.split(".")[0]) < 5
LEAST_KEPT = 0.7


def searches() -> list[dict[str, Any]]:
    """Options of all searches of one checkpoint."""
    if HAS_GROUPS:
        groups = [(4, 2, 0.7), (6, 3, 2.5), (3, 3, 1.0)]
        return [
            {
                "num_beams": beams,
                "num_return_sequences": beams,
                "num_beam_groups": count,
                "diversity_penalty": penalty,
                "length_penalty": length_penalty,
                "early_stopping": early,
            }
            for beams, count, penalty in groups
            for length_penalty in (1.0, 0.0, 2.0)
            for early in (True, False, "never")
        ]
    found: list[dict[str, Any]] = []
    for length_penalty in (0.0, 1.0, 2.0, -1.0, 3.0):
        for early in (True, False, "never"):
            beams = 2 + len(found) % 4
            found.append(
                {
                    "num_beams": beams,
                    "num_return_sequences": beams - len(found) % 2,
                    "length_penalty": length_penalty,
                    "early_stopping": early,
                }
            )
    base = {"num_beams": 4, "num_return_sequences": 4, "length_penalty": 1.0, "early_stopping": False}
    found += [
        {**base, "repetition_penalty": 1.3},
        {**base, "no_repeat_ngram_size": 2},
        {**base, "min_new_tokens": 6},
        {**base, "repetition_penalty": 0.8, "no_repeat_ngram_size": 3, "min_new_tokens": 4},
    ]
    return found


def load(folder: Path, dtype: torch.dtype) -> Any:
    """The checkpoint as a transformers model."""
    return transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=dtype, attn_implementation="eager"
    ).eval()


class PaddingChosenError(Exception):
    """An answer has the padding token in it, which groups that are finished keep others from."""


def search(model: Any, prompts: list[list[int]], eos: list[int], options: dict[str, Any]) -> list[Any]:
    """For each prompt its answers: token ids, what ended them, score; without scores in float64."""
    scored = model.dtype == torch.float32
    longest = max(map(len, prompts))
    pad = model.generation_config.pad_token_id
    ids = torch.tensor([[pad] * (longest - len(p)) + p for p in prompts])
    mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts])
    with torch.no_grad():
        out = model.generate(
            ids,
            attention_mask=mask,
            generation_config=transformers.GenerationConfig(
                max_new_tokens=NEW_TOKENS,
                do_sample=False,
                eos_token_id=eos,
                pad_token_id=pad,
                output_scores=scored,
                return_dict_in_generate=True,
                **options,
            ),
        )
    each = options["num_return_sequences"]
    answers: list[list[Any]] = [[] for _ in prompts]
    scores = out.sequences_scores.tolist() if scored else [0.0] * len(out.sequences)
    for i, (sequence, score) in enumerate(zip(out.sequences, scores, strict=True)):
        tokens = sequence[longest:].tolist()
        ends = [at for at, token in enumerate(tokens) if token in eos]
        ended_by = tokens[ends[0]] if ends else None
        answer = tokens[: ends[0]] if ends else tokens
        if ended_by is None and len(answer) != NEW_TOKENS:
            raise SystemExit(f"an answer neither ended nor is as long as it may be: {tokens}")
        if HAS_GROUPS and pad in answer:
            raise PaddingChosenError
        answers[i // each].append([answer, ended_by, round(score, 6)])
    return answers


def ending_tokens(model: Any, prompts: list[list[int]]) -> list[list[int]]:
    """Sets of tokens that end sequences at various lengths: some of those that beams like."""
    options = {"num_beams": 5, "num_return_sequences": 5}
    free = search(model, prompts, [-1], options)
    liked = [token for answers in free for answer, _, _ in answers for token in answer[2:7]]
    common = sorted(set(liked), key=lambda token: (-liked.count(token), token))
    return [common[:2], common[2:6], common[:12]]


def tokens_of(answers: list[Any]) -> list[Any]:
    """Answers without scores."""
    return [[answer[:2] for answer in each] for each in answers]


def make(checkpoint: TinyCheckpoint, folder: Path, pad: int) -> dict[str, Any]:
    """All of one golden file."""
    write_checkpoint(checkpoint, folder)
    single, double = (load(folder, dtype) for dtype in (torch.float32, torch.float64))
    single.generation_config.pad_token_id = double.generation_config.pad_token_id = pad
    prompts = [
        prompt_ids(checkpoint, 40)[at : at + length] for at, length in zip((0, 9, 20), LENGTHS, strict=True)
    ]
    sets = ending_tokens(single, prompts)
    cases: list[dict[str, Any]] = []
    tried = 0
    for number, options in enumerate(searches()):
        eos = sets[number % len(sets)]
        answers = search(single, prompts, eos, options)
        tried += 1
        # one by one, because eager attention of padded rows is NaN in float64
        alone = [search(double, [prompt], eos, options)[0] for prompt in prompts]
        if tokens_of(answers) != tokens_of(alone):
            continue
        cases.append({"options": options, "eos": eos, "answers": answers})
    ended = sum(answer[1] is not None for case in cases for each in case["answers"] for answer in each)
    total = sum(len(each) for case in cases for each in case["answers"])
    print(
        f"{checkpoint.name}: eos {sets}, {len(cases)} of {tried} searches kept, {ended} of {total} answers ended"
    )
    if len(cases) < LEAST_KEPT * tried or not 0.1 < ended / total < 0.9:
        raise SystemExit(
            f"{checkpoint.name}: too few searches that tell right from wrong; change the prompts"
        )
    check_that_options_matter(checkpoint.name, single, prompts, sets)
    made_by = {
        "transformers": transformers.__version__,
        "torch": torch.__version__,
        "weights": digest(checkpoint),
    }
    return {"made_by": made_by, "max_new_tokens": NEW_TOKENS, "prompts": prompts, "searches": cases}


def make_with_some_padding(checkpoint: TinyCheckpoint) -> dict[str, Any]:
    """All of one golden file, with the first padding token that no answer holds."""
    for pad in PADS:
        with tempfile.TemporaryDirectory() as folder, contextlib.suppress(PaddingChosenError):
            return make(checkpoint, Path(folder), pad)
    raise SystemExit(f"{checkpoint.name}: answers hold all padding tokens {PADS}")


def check_that_options_matter(name: str, model: Any, prompts: list[list[int]], sets: list[list[int]]) -> None:
    """Different modes of early stopping, and length penalties, give different answers somewhere."""
    base = {"num_beams": 4, "num_return_sequences": 4, "length_penalty": 1.0, "early_stopping": False}
    if HAS_GROUPS:
        base |= {"num_beam_groups": 2, "diversity_penalty": 0.7}
    for key, values in (("early_stopping", (True, False, "never")), ("length_penalty", (0.0, 1.0, 3.0))):
        seen = {
            json.dumps([tokens_of(search(model, prompts, eos, {**base, key: value})) for eos in sets])
            for value in values
        }
        print(f"    {key}: {len(seen)} different outcomes of {len(values)}")
        if len(seen) == 1:
            raise SystemExit(f"{name}: {key} changes nothing; change the prompts")


def main() -> None:
    """Make the files named on the command line, or all."""
    transformers.logging.disable_progress_bar()
    transformers.logging.set_verbosity_error()
    target = ROOT / "tests" / "goldens" / "beams"
    target.mkdir(exist_ok=True)
    for name in sys.argv[1:] or NAMES:
        data = make_with_some_padding(CHECKPOINTS[name])
        path = target / f"{name}{'-groups' if HAS_GROUPS else ''}.json"
        lines = ",\n".join(json.dumps(case) for case in data.pop("searches"))
        head = json.dumps(data)[:-1]
        path.write_text(f'{head}, "searches": [\n{lines}\n]}}\n', encoding="utf-8")
    total = sum(path.stat().st_size for path in target.glob("*.json"))
    print(f"{total / 1e3:.0f} kB in {target}")


if __name__ == "__main__":
    main()
