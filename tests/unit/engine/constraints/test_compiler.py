import gc
import subprocess
import sys
import threading
import time
import weakref

import pytest

from grammar_vocabularies import accepts, allowed, byte_level, bytes_of, compiler_for
from onnxgen.engine.constraints import compiler as compiling
from onnxgen.engine.constraints.grammar import Grammar
from onnxgen.engine.constraints.limits import GrammarLimits
from onnxgen.errors import GrammarError, StateError


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return byte_level(tmp_path_factory.mktemp("vocabulary"))


class Translations:
    """Counts what is compiled, and holds it back until it is let go."""

    def __init__(self, monkeypatch):
        self.seen = []
        self.go = threading.Event()
        self.go.set()
        self._translate = compiling.translate
        monkeypatch.setattr(compiling, "translate", self)

    def __call__(self, grammar):
        self.seen.append(grammar)
        assert self.go.wait(30)
        return self._translate(grammar)


@pytest.fixture
def translations(monkeypatch):
    return Translations(monkeypatch)


def in_threads(count, work):
    found = [None] * count
    start = threading.Barrier(count)

    def run(place):
        start.wait()
        try:
            found[place] = work()
        except GrammarError as error:
            found[place] = error

    threads = [threading.Thread(target=run, args=(place,)) for place in range(count)]
    for thread in threads:
        thread.start()
    return threads, found


def test_eight_callers_of_one_grammar_wait_for_the_same_work(tokenizer, translations):
    compiler = compiler_for(tokenizer)
    translations.go.clear()
    threads, found = in_threads(8, lambda: compiler.compile(Grammar.regex("a+")))
    time.sleep(0.05)
    translations.go.set()
    for thread in threads:
        thread.join()
    assert len({id(compiled) for compiled in found}) == 1 and found[0] is not None
    assert len(translations.seen) == 1


def test_a_refusal_is_remembered_and_each_caller_has_its_own_error(tokenizer, translations):
    compiler = compiler_for(tokenizer)
    errors = []
    for _ in range(3):
        with pytest.raises(GrammarError, match="unclosed group") as caught:
            compiler.compile(Grammar.regex("a("))
        errors.append(caught.value)
    assert len(translations.seen) == 1
    assert len(set(map(id, errors))) == 3


def test_the_last_used_grammars_are_kept(tokenizer, translations):
    compiler = compiler_for(tokenizer, limits=GrammarLimits(cached_grammars=2))
    for pattern in "ababcab":
        compiler.compile(Grammar.regex(pattern))
    assert [grammar.source for grammar in translations.seen] == ["a", "b", "c", "a", "b"]


def test_what_is_kept_is_bounded_in_bytes(tokenizer, translations):
    compiler = compiler_for(tokenizer, limits=GrammarLimits(cached_bytes=100))
    for pattern in ("a" * 40, "b" * 40, "a" * 40, "c" * 60, "b" * 40, "d" * 200, "d" * 200):
        compiler.compile(Grammar.regex(pattern))
    assert [grammar.source[0] for grammar in translations.seen] == ["a", "b", "c", "b", "d"]


@pytest.mark.parametrize(
    "grammar",
    [
        Grammar.regex("[a"),
        Grammar.json_schema({"type": "string", "pattern": "[a"}),
        Grammar.lark("start: /[a/"),
        Grammar.lark("start: x"),
    ],
    ids=lambda grammar: grammar.source,
)
def test_a_refusal_is_one_line(tokenizer, grammar):
    with pytest.raises(GrammarError, match=r"unclosed character class|unknown name") as caught:
        compiler_for(tokenizer).compile(grammar)
    assert "\n" not in str(caught.value)


def test_what_a_vocabulary_takes_is_not_counted_as_a_grammars(tokenizer, monkeypatch):
    compiler = compiler_for(tokenizer, limits=GrammarLimits(compile_timeout_s=5))
    ready, begun = compiler._ready_vocabulary, []
    monkeypatch.setattr(compiler, "_ready_vocabulary", lambda: begun.append(len(compiler._known)) or ready())
    compiler.compile(Grammar.regex("a"))
    assert begun[0] == 0  # before the grammar was handed over, from when on time counts


def test_a_caller_stops_waiting_and_the_work_is_not_lost(tokenizer, translations):
    compiler = compiler_for(tokenizer, limits=GrammarLimits(compile_timeout_s=0.05))
    compiler.compile(Grammar.regex("warm"))
    translations.go.clear()
    with pytest.raises(GrammarError, match=r"not ready after 0\.05 s"):
        compiler.compile(Grammar.regex("slow"))
    translations.go.set()
    deadline = time.monotonic() + 10
    while True:
        try:
            assert accepts(compiler.compile(Grammar.regex("slow")), tokenizer, "slow")
            break
        except GrammarError:
            assert time.monotonic() < deadline
    assert len(translations.seen) == 2


def test_an_accident_is_not_remembered(tokenizer, monkeypatch):
    compiler = compiler_for(tokenizer)

    def fail(grammar):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(compiling, "translate", fail)
        with pytest.raises(MemoryError):
            compiler.compile(Grammar.regex("a"))
    assert accepts(compiler.compile(Grammar.regex("a")), tokenizer, "a")


def test_others_run_while_a_large_grammar_is_compiled(tokenizer):
    compiler = compiler_for(tokenizer)
    compiler.compile(Grammar.regex("warm"))
    names = {f"property {n}": {"type": "string", "maxLength": n + 1} for n in range(900)}
    grammar = Grammar.json_schema({"type": "object", "properties": names, "required": list(names)})
    threads, found = in_threads(1, lambda: compiler.compile(grammar))
    ticks = 0
    while threads[0].is_alive():
        time.sleep(0.001)
        ticks += 1
    assert isinstance(found[0], compiling.CompiledGrammar)
    assert ticks >= 5


def test_a_closed_compiler_takes_no_more_and_what_it_made_still_works(tokenizer):
    compiler = compiler_for(tokenizer)
    compiled = compiler.compile(Grammar.regex("ab"))
    compiler.close()
    compiler.close()
    assert accepts(compiled, tokenizer, "ab")
    with pytest.raises(StateError, match="closed"):
        compiler.compile(Grammar.regex("ab"))


def test_states_of_one_grammar_are_used_by_many_threads_at_once(tokenizer):
    compiler = compiler_for(tokenizer)
    compiled = compiler.compile(Grammar.json_object())
    tokens = tokenizer.encode('{"name": [true, "ab", {"na": -12}]}', parse_special=False)

    def follow():
        masks = []
        for _ in range(5):
            state = compiled.new_state()
            for place in range(len(tokens) + 1):
                state.follow(tokens[:place])
                masks.append(allowed(state, compiler).tobytes())
        return masks

    threads, found = in_threads(8, follow)
    for thread in threads:
        thread.join()
    assert all(masks == found[0] for masks in found)


def test_threads_started_by_others_keep_their_stack_size(tokenizer):
    before = threading.stack_size()
    compiler_for(tokenizer).compile(Grammar.regex("a"))
    assert threading.stack_size() == before


def test_the_library_is_only_loaded_when_a_grammar_is_compiled():
    code = "import sys, onnxgen, onnxgen.engine.constraints.compiler; sys.exit('llguidance' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_vocabulary_is_let_go_with_the_last_that_follows_a_grammar(tokenizer):
    compiler = compiler_for(tokenizer)
    state = compiler.compile(Grammar.regex("hello!*")).new_state()
    vocabulary = weakref.ref(compiler._ready_vocabulary())
    compiler.close()
    del compiler
    gc.collect()
    assert bytes_of(tokenizer, state.forced()).startswith(b"he")  # text is still cut
    assert vocabulary() is not None
    del state
    gc.collect()
    assert vocabulary() is None
