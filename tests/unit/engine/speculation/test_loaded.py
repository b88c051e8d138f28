"""`LoadedProposers`: models are loaded once, each engine gets proposers of its own, and all of it is closed once."""

import contextlib
from pathlib import Path
from types import SimpleNamespace

import pytest

from onnxgen.engine.speculation.loaded import LoadedProposers, checked_decoder, proposer_recipes, uses_head
from onnxgen.engine.speculation.of_heads import HeadRecipe
from onnxgen.engine.speculation.of_models import DraftModelRecipe
from onnxgen.engine.speculation.options import Speculation
from onnxgen.errors import BackendError
from onnxgen.foundations.runtime_config import RuntimeConfig

METHODS = ("off", "auto", "prompt_lookup", "draft_model", "heads")
FOLDER = Path("smaller")


class Recipe:
    """Writes down what is done with it."""

    def __init__(self, name, told, *, fails=()):
        self.name, self.told, self.fails = name, told, fails

    @contextlib.contextmanager
    def load(self, target, *, unused=None):
        self._do("load")
        try:
            yield self._make
        finally:
            self._do("release")

    def _make(self):
        self._do("make")
        return SimpleNamespace(name=self.name, close=lambda: self._do("close"))

    def _do(self, what):
        if what in self.fails:
            raise BackendError(f"{self.name}: no {what}")
        self.told.append(f"{what} {self.name}")


def loaded(told, *, fails=()):
    recipes = [Recipe("draft_model", told), Recipe("heads", told, fails=fails)]
    return LoadedProposers(recipes, SimpleNamespace())


def test_models_are_loaded_once_and_released_once():
    told = []
    models = loaded(told)
    assert told == ["load draft_model", "load heads"]
    models.close()
    models.close()
    assert told[2:] == ["release heads", "release draft_model"]


def test_every_engine_has_proposers_of_its_own():
    told = []
    models = loaded(told)
    with models.open() as first:
        with models.open() as second:
            assert set(first) == set(second) == {"draft_model", "heads"}
            assert all(first[name] is not second[name] for name in first)
        assert told[-2:] == ["close heads", "close draft_model"]
        assert told.count("close heads") == 1
    assert told.count("close heads") == told.count("close draft_model") == 2
    models.close()
    assert told.count("load heads") == told.count("release heads") == 1


def test_what_was_loaded_is_released_where_the_next_cannot_be():
    told = []
    with pytest.raises(BackendError, match="heads: no load"):
        loaded(told, fails=["load"])
    assert told == ["load draft_model", "release draft_model"]


def test_what_was_made_is_closed_where_the_next_cannot_be():
    told = []
    models = loaded(told, fails=["make"])
    for _ in range(2):
        with pytest.raises(BackendError, match="heads: no make"), models.open():
            pass
        assert told[-2:] == ["make draft_model", "close draft_model"]
    models.close()
    assert told[-2:] == ["release heads", "release draft_model"]


def test_proposers_are_closed_when_the_block_fails():
    told = []
    models = loaded(told)
    with pytest.raises(ValueError, match="of the block"), models.open():
        raise ValueError("of the block")
    assert told[-2:] == ["close heads", "close draft_model"]


def test_nothing_is_there_where_nothing_guesses():
    models = LoadedProposers((), SimpleNamespace())
    with models.open() as proposers:
        assert proposers == {}
    models.close()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("head", [False, True])
@pytest.mark.parametrize("draft", [False, True])
@pytest.mark.parametrize("folder", [None, FOLDER])
def test_what_is_loaded_is_what_was_named_and_what_may_be_used(method, head, draft, folder):
    own = SimpleNamespace(target=lambda decoder: f"{decoder} with states")
    spec = SimpleNamespace(
        head=own if head else None, draft="own" if draft else None, decoder="target", folder=Path("model")
    )
    speculation = Speculation(method)
    recipes = proposer_recipes(spec, RuntimeConfig(), speculation, draft=folder)
    drafts = [recipe.folder for recipe in recipes if isinstance(recipe, DraftModelRecipe)]
    assert drafts == [folder] * (
        folder is not None or method == "draft_model" or (draft and method == "auto")
    )
    # a method that is asked for by name is loaded, too, where there is nothing: its recipe says so
    asks = method == "heads" or (head and method == "auto")
    assert [type(recipe) for recipe in recipes[len(drafts) :]] == [HeadRecipe] * asks
    used = head and method in ("auto", "heads")
    assert uses_head(spec, speculation) == used
    assert checked_decoder(spec, speculation) == ("target with states" if used else "target")
