"""A scripted model behind the commands, and a way to call them as a user does."""

import itertools
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from onnxgen.cli import loading
from onnxgen.cli.app import app
from onnxgen.facade.results import Chunk, Completion, Timings, Usage


class ScriptedLLM:
    """Answers in words: what it was asked in capitals. Counts what it was asked for."""

    def __init__(self, folder):
        self.has_chat_template = True
        self.spec = SimpleNamespace(folder=folder, context_length=64)
        self.load_s = 0.25
        self.sessions = []
        self.raw_prompts = []
        self.options = []
        self.adapters = {}
        self.calls = ()
        self.closed = False
        self.fail_with = None
        self.on_word = lambda word: None

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.closed = True

    def load_adapter(self, path, name):
        self.adapters[name] = path

    def session(self, *, system=None, tools=None, prompt_options=None):
        self.tools = tools
        self.prompt_options = prompt_options
        session = ScriptedSession(self, system)
        self.sessions.append(session)
        return session

    def generate(self, text, *, options, stream):
        assert stream
        self.raw_prompts.append(text)
        return self.answer(text, options)

    def answer(self, text, options):
        self.options.append(options)
        if self.fail_with:
            raise self.fail_with
        words = text.upper().split(" ")[: options.max_new_tokens]
        pieces = [word if i == 0 else f" {word}" for i, word in enumerate(words)]
        ids = itertools.count(100)
        for piece in pieces[:-1]:
            self.on_word(piece)
            yield Chunk(piece, (next(ids),))
        completion = Completion(
            "".join(pieces),
            tuple(range(100, 100 + len(pieces))),
            "stop",
            Usage(len(text), len(pieces), 2),
            Timings(self.load_s, 0.5, 42.0, None),
            tool_calls=self.calls,
        )
        yield Chunk(
            pieces[-1], (next(ids),), finish_reason="stop", completion=completion, tool_calls=self.calls
        )


class ScriptedSession:
    def __init__(self, llm, system):
        self.llm, self.system, self.said, self.resets = llm, system, [], 0

    def send(self, text, *, options=None):
        self.said.append(text)
        return self.llm.answer(text, options)

    def send_results(self, results, *, options=None):
        self.results = results
        return self.llm.answer(" ".join(results), options)

    def reset(self):
        self.resets += 1

    def set_system(self, text):
        self.system = text


@pytest.fixture
def llm(tmp_path, monkeypatch):
    """The model that the commands load, with what they asked for in ``opened``."""
    scripted = ScriptedLLM(tmp_path / "model")

    def open_llm(model, *, config, precision, draft_model):
        scripted.opened = SimpleNamespace(
            model=model, config=config, precision=precision, draft_model=draft_model
        )
        return scripted

    monkeypatch.setattr(loading, "open_llm", open_llm)
    return scripted


@pytest.fixture
def onnxgen(tmp_path, monkeypatch):
    """Call the command line; configuration and cache are the test's own."""
    monkeypatch.setenv("ONNXGEN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)

    def call(*arguments, input=None):
        return CliRunner().invoke(app, [str(argument) for argument in arguments], input=input)

    return call
