"""Runs grammars over the public JSON-Schema-Test-Suite and says how they did.

    python scripts/check_json_schema_suite.py PATH

PATH is the suite, or a folder that holds it as ``json/`` (the source package of ``jsonschema`` does). For every
group of tests of draft 2020-12 and draft 7 the schema is compiled; every instance is written out and followed.

Counted are: refused (the schema is refused, with the part named), right (accepted and valid, or rejected and
invalid), warned (not so, and a warning of the compiled grammar says it), narrower (valid, but only accepted when written differently: keys in the order of the schema, a number
without exponent or point, ...) and wrong (all else). The exit code is 1 if there is anything wrong.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as Backend

from onnxgen.engine.constraints.compiler import CompiledGrammar, GrammarCompiler
from onnxgen.engine.constraints.grammar import Grammar
from onnxgen.errors import GrammarError
from onnxgen.preprocess.byte_alphabet import CHARACTER_OF_BYTE
from onnxgen.preprocess.tokenizer import Tokenizer

DRAFTS = {
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
    "draft7": "http://json-schema.org/draft-07/schema#",
}


def byte_compiler() -> GrammarCompiler:
    """A compiler for a vocabulary of the 256 bytes and an end token."""
    backend = Backend(models.BPE({character: byte for byte, character in CHARACTER_OF_BYTE.items()}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken("<|end|>", normalized=False)])
    with tempfile.TemporaryDirectory() as folder:
        backend.save(str(Path(folder) / "tokenizer.json"))
        tokenizer = Tokenizer.from_folder(folder)
    return GrammarCompiler(tokenizer, vocab_size=257, eos_ids=[256])


def accepts(grammar: CompiledGrammar, text: str) -> bool:
    state = grammar.new_state()
    try:
        state.follow(list(text.encode()))
    except GrammarError:
        return False
    return state.accepts_end


def spellings(value: Any) -> Iterator[tuple[str, str]]:
    """Texts of an instance, with what is special about each."""
    compact = {"ensure_ascii": False, "separators": (",", ":")}
    yield "", json.dumps(value, **compact)
    plain = plain_numbers(value)
    yield "number written without point or exponent", json.dumps(plain, **compact)
    yield "number written with a point", json.dumps(pointed_numbers(value), **compact)
    for order in itertools.islice(orders(plain), 200):
        yield "keys in the order of the schema", json.dumps(order, **compact)


def plain_numbers(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return mapped(plain_numbers, value)


def pointed_numbers(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return mapped(pointed_numbers, value)


def mapped(change: Any, value: Any) -> Any:
    if isinstance(value, dict):
        return {key: change(part) for key, part in value.items()}
    return [change(part) for part in value] if isinstance(value, list) else value


def orders(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for items in itertools.permutations(value.items()):
            for parts in itertools.product(*(list(itertools.islice(orders(part), 6)) for _, part in items)):
                yield dict(zip((key for key, _ in items), parts, strict=True))
    elif isinstance(value, list):
        yield from map(list, itertools.product(*(list(itertools.islice(orders(p), 6)) for p in value)))
    else:
        yield value


def with_dialect(schema: Any, dialect: str) -> Any:
    return {"$schema": dialect, **schema} if isinstance(schema, dict) else schema


def without_formats(compiler: GrammarCompiler, schema: Any, dialect: str) -> CompiledGrammar:
    def stripped(value: Any) -> Any:
        if isinstance(value, dict):
            value = {key: part for key, part in value.items() if key != "format"}
        return mapped(stripped, value)

    return compiler.compile(Grammar.json_schema(with_dialect(stripped(schema), dialect)))


def dumped(test: dict[str, Any]) -> str:
    return json.dumps(test["data"], ensure_ascii=False, separators=(",", ":"))


def check_group(
    compiler: GrammarCompiler, group: dict[str, Any], dialect: str
) -> Iterator[tuple[str, str, str]]:
    """Give kind, reason and name of each test."""
    try:
        grammar = compiler.compile(Grammar.json_schema(with_dialect(group["schema"], dialect)))
    except GrammarError as error:
        for test in group["tests"]:
            yield "refused", str(error).split("\n")[0], test["description"]
        return
    for test in group["tests"]:
        name = test["description"]
        found = next((how for how, text in spellings(test["data"]) if accepts(grammar, text)), None)
        if test["valid"]:
            if found is None and accepts(without_formats(compiler, group["schema"], dialect), dumped(test)):
                yield "narrower", "formats are enforced", name
            elif found is None:
                noted = " (a warning says so)" if grammar.warnings else ""
                yield "warned" if noted else "wrong", "valid, but rejected" + noted, name
            else:
                yield ("narrower" if found else "right"), found, name
        elif found is None:
            yield "right", "", name
        else:
            noted = " (a warning says so)" if grammar.warnings else ""
            yield "warned" if noted else "wrong", "invalid, but accepted" + noted, name


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("path", type=Path)
    parser.add_argument("--optional", action="store_true", help="the optional tests too, formats among them")
    parser.add_argument("--verbose", action="store_true", help="also name what is refused or narrower")
    options = parser.parse_args()
    root = options.path / "json" if (options.path / "json").is_dir() else options.path
    compiler = byte_compiler()
    wrong = 0
    for draft, dialect in DRAFTS.items():
        counts: Counter[str] = Counter()
        reasons: Counter[str] = Counter()
        folder = root / "tests" / draft
        for file in sorted(folder.rglob("*.json") if options.optional else folder.glob("*.json")):
            if file.name == "content.json":
                continue  # what a text holds is an annotation
            for group in json.loads(file.read_text(encoding="utf-8")):
                for kind, reason, name in check_group(compiler, group, dialect):
                    counts[kind] += 1
                    if kind == "narrower":
                        reasons[reason] += 1
                    if kind in ("wrong", "warned") or (options.verbose and kind != "right"):
                        where = f"{file.relative_to(folder)}: {group['description']}: {name}"
                        print(f"{draft} {kind}: {where}: {reason}")
        wrong += counts["wrong"]
        print(
            f"{draft}: {counts.total()} tests: "
            + ", ".join(f"{n} {kind}" for kind, n in counts.most_common())
        )
        for reason, number in reasons.most_common():
            print(f"  narrower: {number} {reason}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
