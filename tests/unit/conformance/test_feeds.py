from types import SimpleNamespace

import numpy as np
import pytest

from onnxgen.conformance.feeds import candidate_sizes, num_elements, open_dims, random_feeds


def port(name, kind, *shape):
    return SimpleNamespace(name=name, type=kind, shape=list(shape))


AUDIO = [port("waves", "tensor(float)", "batch", None), port("waves_lens", "tensor(int64)", "batch")]


def test_dimensions_without_a_name_are_called_after_their_input():
    assert open_dims(AUDIO) == ("batch", "waves.1")


def test_given_sizes_are_kept_in_every_candidate():
    candidates = list(candidate_sizes(("batch", "n"), {"n": 7}, seed=1))
    assert {sizes["n"] for sizes in candidates} == {7} and len({sizes["batch"] for sizes in candidates}) > 3


def test_lengths_fit_the_longest_axis():
    sizes = {"batch": 50, "waves.1": 3}
    lengths = random_feeds(AUDIO, sizes, seed=2)["waves_lens"]
    assert set(lengths.tolist()) == {1, 2, 3}
    assert num_elements(AUDIO, sizes) == 200


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
    with pytest.raises(ValueError, match="'items' is a seq"):
        random_feeds([port("items", "seq(tensor(float))")], {}, seed=5)
