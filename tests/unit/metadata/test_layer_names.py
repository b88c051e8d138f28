"""Lists of per-layer names to patterns."""

import random

import pytest

from onnxgen.errors import MetadataError
from onnxgen.metadata.document import Place
from onnxgen.metadata.layer_names import LayerNames, layer_names

PLACE = Place("f.yaml", "model.io.kv_inputs")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("past_key_values.%d.key", "past_key_values.%d.value"),
        ("past_key_self_%d", "past_value_self_%d"),
        ("k%d", "v%d"),
        ("cache.%d.a", "cache.%d.b"),
        ("kv2.%d.key", "kv2.%d.value"),
        ("%d.past.key.v1", "%d.past.value.v1"),
    ],
)
@pytest.mark.parametrize("num_layers", [1, 2, 11])
def test_pairs_are_told_apart(key, value, num_layers):
    names = [pattern % layer for layer in range(num_layers) for pattern in (key, value)]
    assert layer_names(names, PLACE) == LayerNames(key, value, None, num_layers)


def test_values_may_stand_before_keys():
    names = [f"past.{i}.{part}" for i in range(3) for part in ("value", "key")]
    found = layer_names(names, PLACE)
    assert (found.key, found.value) == ("past.%d.key", "past.%d.value")


def test_the_order_of_layers_does_not_matter():
    names = [f"past.{i}.{part}" for i in range(12) for part in ("key", "value")]
    seed = random.SystemRandom().randrange(1 << 32)
    random.Random(seed).shuffle(names)
    found = layer_names(names, PLACE)
    assert (found.key, found.value, found.num_layers) == ("past.%d.key", "past.%d.value", 12), seed


def test_keys_and_values_in_one_tensor():
    assert layer_names([f"past_{i}" for i in range(5)], PLACE) == LayerNames(None, None, "past_%d", 5)


def test_layers_without_a_cache_may_be_missing():
    names = [f"past.{i}.{part}" for i in (1, 3) for part in ("key", "value")]
    assert layer_names(names, PLACE).num_layers == 4


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], "is empty; a decoder has a cache"),
        (["past.0.key", "past"], r"kv_inputs\[1\] is 'past', which has no number of a layer"),
        (["a.0", "b.0", "c.0"], "must follow one or two patterns, found 3"),
        (["a.0.k", "a.0.v", "a.1.k"], "names other layers"),
    ],
)
def test_other_lists_are_refused(names, message):
    with pytest.raises(MetadataError, match=message):
        layer_names(names, PLACE)
