import gc
import secrets

import numpy as np
import pytest

from checkpoints import CHECKPOINTS
from onnxgen.errors import CheckpointError, ModelNotFoundError, OptionError, StateError
from onnxgen.facade.adapters import Adapters
from onnxgen.facade.generator import Generator
from onnxgen.facade.params import GeneratorParams
from peft_by_hand import random_pairs, write_peft
from tiny_model_folder import fake_backend, open_model, write_model_folder

SEED = secrets.randbits(32)
PROMPT = [5, 9, 11]


@pytest.fixture
def model(tmp_path):
    return open_model(write_model_folder(tmp_path / "model"), fake_backend())


@pytest.fixture
def adapters(model, tmp_path):
    made = Adapters(model)
    for number, name in enumerate(("a", "b")):
        pairs = random_pairs(CHECKPOINTS["llama"], seed=SEED + number, rank=2)
        made.load(write_peft(tmp_path / name, pairs), name)
    return made


def generator(model, **options):
    params = GeneratorParams(model)
    params.set_search_options(**{"max_length": 20, **options})
    return Generator(model, params)


def logits(g, prompt=PROMPT):
    g.append_tokens(prompt)
    return g.get_logits()[0, 0]


def test_a_generator_runs_under_its_adapter(model, adapters):
    plain, under_a = (generator(model, min_length=20) for _ in range(2))
    under_a.set_active_adapter(adapters, "a")
    np.testing.assert_array_equal(logits(plain), model.backend.logits_after(PROMPT))
    np.testing.assert_array_equal(logits(under_a), model.backend.logits_after(PROMPT, adapter="a"))
    # decode steps, too
    for g, name in ((plain, None), (under_a, "a")):
        for _ in range(2):
            g.generate_next_token()
        tokens = g.get_sequence(0)
        np.testing.assert_array_equal(g.get_logits()[0, 0], model.backend.logits_after(tokens, adapter=name))


@pytest.mark.parametrize("options", [{"num_beams": 2}, {"batch_size": 2}])
def test_beams_and_batches_run_under_it_too(model, adapters, options):
    g = generator(model, **options)
    g.set_active_adapter(adapters, "b")
    g.append_tokens(PROMPT * options.get("batch_size", 1))
    assert {name for step in model.backend.steps for name in step.adapters} == {"b"}
    while not g.is_done():
        g.generate_next_token()
    assert all(set(step.adapters) == {"b"} for step in model.backend.steps)


def test_several_act_together(model, adapters):
    g = generator(model)
    g.set_active_adapter(adapters, "a")
    g.set_active_adapter(adapters, "b")
    together = logits(g)
    for name in (None, "a", "b"):
        assert not np.array_equal(together, model.backend.logits_after(PROMPT, adapter=name))
    with pytest.raises(OptionError, match="'a' is active already"):
        g.set_active_adapter(adapters, "a")
    g.close()
    assert model.backend.adapters.names == ("a", "b")
    adapters.unload("a")
    adapters.unload("b")


def test_what_a_generator_uses_is_not_unloaded(model, adapters):
    g = generator(model)
    g.set_active_adapter(adapters, "a")
    with pytest.raises(StateError, match="'a' is in use"):
        adapters.unload("a")
    assert "a" in adapters.names
    g.close()
    adapters.unload("a")
    assert adapters.names == ("b",)


def test_tokens_keep_the_adapter_that_they_were_computed_with(model, adapters):
    g = generator(model)
    g.append_tokens(PROMPT)
    with pytest.raises(StateError, match="after 3 tokens were processed without it"):
        g.set_active_adapter(adapters, "a")
    adapters.unload("a")  # nothing was left in use
    g.rewind_to(0)
    g.set_active_adapter(adapters, "b")
    np.testing.assert_array_equal(logits(g), model.backend.logits_after(PROMPT, adapter="b"))


def test_names_are_taken_once_and_known(model, adapters, tmp_path):
    with pytest.raises(StateError, match="'a' is loaded already"):
        adapters.load(tmp_path / "b", "a")
    with pytest.raises(StateError, match="'a' is loaded already"):
        Adapters(model).load(tmp_path / "b", "a")
    for call in (adapters.unload, lambda name: generator(model).set_active_adapter(adapters, name)):
        with pytest.raises(OptionError, match="no adapter 'c'; loaded: a, b"):
            call("c")
    for name in ("", "  ", None, 3):
        with pytest.raises(OptionError, match="needs a name"):
            adapters.load(tmp_path / "b", name)


def test_files_that_cannot_be_read_are_refused(adapters, tmp_path):
    with pytest.raises(ModelNotFoundError):
        adapters.load(tmp_path / "nothing", "c")
    (tmp_path / "empty").mkdir()
    with pytest.raises(CheckpointError, match=r"adapter_config\.json does not exist"):
        adapters.load(tmp_path / "empty", "c")
    assert adapters.names == ("a", "b")


def test_adapters_of_another_model_are_refused(model, adapters, tmp_path):
    other = open_model(write_model_folder(tmp_path / "other"), fake_backend())
    with pytest.raises(OptionError, match="of another model"):
        generator(other).set_active_adapter(adapters, "a")


@pytest.mark.parametrize("names", [("a",), ("a", "b")])
def test_a_fork_runs_under_the_adapters_and_keeps_them(model, adapters, names):
    g = generator(model)
    for name in names:
        g.set_active_adapter(adapters, name)
    g.append_tokens([5, 6, 7])
    fork = g.fork()
    for one in (g, fork):
        for _ in range(4):
            one.generate_next_token()
    assert fork.get_sequence(0).tolist() == g.get_sequence(0).tolist()
    plain = generator(model)
    plain.append_tokens(fork.get_sequence(0))
    assert not np.array_equal(plain.get_logits(), fork.get_logits())
    g.close()
    with pytest.raises(StateError, match="in use"):
        adapters.unload("a")
    fork.generate_next_token()
    fork.close()
    adapters.unload("a")


def test_what_was_loaded_goes_with_its_container_and_the_generators_that_use_it(model, adapters, tmp_path):
    more = Adapters(model)
    more.load(tmp_path / "a", "c")
    g = generator(model)
    g.set_active_adapter(more, "c")
    del more
    gc.collect()
    assert model.backend.adapters.names == ("a", "b", "c")
    g.close()
    gc.collect()
    assert model.backend.adapters.names == ("a", "b")
    with adapters:
        pass
    assert model.backend.adapters.names == ()


def test_an_adapter_is_loaded_from_a_path(tmp_path):
    model = open_model(write_model_folder(tmp_path / "m"), fake_backend())
    with pytest.raises(OptionError, match="loaded from a path, got 5"):
        Adapters(model).load(5, "z")
