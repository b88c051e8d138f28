from types import SimpleNamespace

import numpy as np
import pytest

from onnxgen.errors import FeedError
from onnxgen.graph.session.random_feeds import complete_sizes, open_dims, random_feeds, shapes


def port(name, kind, *shape):
    return SimpleNamespace(name=name, type=kind, shape=list(shape))


AUDIO = [port("waves", "tensor(float)", "batch", None), port("waves_lens", "tensor(int64)", "batch")]


def test_dimensions_without_a_name_are_called_after_their_input():
    assert open_dims(AUDIO) == ("batch", "waves.1")


def test_lengths_fit_the_longest_axis():
    sizes = {"batch": 50, "waves.1": 3}
    lengths = random_feeds(AUDIO, sizes, seed=2, below=8)["waves_lens"]
    assert set(lengths.tolist()) == {1, 2, 3}
    assert shapes(AUDIO, sizes) == {"waves": (50, 3), "waves_lens": (50,)}


def test_every_type_of_tensor_has_values():
    ports = [port(kind, f"tensor({kind})", 40) for kind in ("float16", "int8", "bool", "string", "uint64")]
    feeds = random_feeds(ports, {}, seed=3, below=4)
    assert feeds["float16"].dtype == np.float16 and feeds["bool"].dtype == np.bool_
    assert set(feeds["int8"].tolist()) == {0, 1, 2, 3}
    assert len(set(feeds["string"].tolist())) > 5


def test_an_input_filled_with_a_number():
    feeds = random_feeds([port("sr", "tensor(int64)")], {}, seed=4, values={"sr": 16000})
    assert feeds["sr"].dtype == np.int64 and feeds["sr"].tolist() == 16000


def test_an_input_that_is_no_tensor_is_named():
    with pytest.raises(FeedError, match="'items' is a seq"):
        random_feeds([port("items", "seq(tensor(float))")], {}, seed=5)


def test_integers_are_valid_indices_and_masks_hide_nothing_where_nobody_says_otherwise():
    ports = [
        port("ids", "tensor(int64)", 9),
        port("mask", "tensor(bool)", 9),
        port("wide", "tensor(bfloat16)", 2),
    ]
    feeds = random_feeds(ports, {}, seed=6)
    assert (feeds["ids"] == 1).all() and feeds["mask"].all()
    assert feeds["wide"].dtype.name == "bfloat16"


CACHED = [
    port("ids", "tensor(int64)", "batch", "seq"),
    port("mask", "tensor(int64)", "batch", "past + seq"),
    port("past", "tensor(float)", "past", 2),
]


def test_dimensions_follow_from_others_by_their_names():
    assert open_dims(CACHED) == ("batch", "seq", "past")
    assert complete_sizes(CACHED, {"past": 5, "seq": 2}) == {"batch": 1, "seq": 2, "past": 5, "past + seq": 7}
    assert complete_sizes(CACHED, {"past + seq": 9}, default=3)["past + seq"] == 9


@pytest.mark.parametrize("name", ["?", "batch size", "unknown + seq", "-1"])
def test_names_that_are_no_expressions_of_others_are_open(name):
    ports = [port("x", "tensor(float)", "seq", name)]
    assert open_dims(ports) == ("seq", name)
    assert random_feeds(ports, complete_sizes(ports, {"seq": 2}), seed=7)["x"].shape == (2, 1)
