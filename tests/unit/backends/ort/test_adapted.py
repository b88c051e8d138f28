"""Sessions for adapters, without ONNX Runtime: who shares one, and when it goes."""

from types import SimpleNamespace

import numpy as np
import pytest

from onnxgen.backends.adapters import Adapter
from onnxgen.backends.ort.adapted import AdapterSessions
from onnxgen.backends.ort.ports import AdapterPort
from onnxgen.errors import ModelFileError

PORTS = tuple(AdapterPort(name, "float32", 1, (2, None)) for name in ("one", "two"))


class Loaded:
    """A session that is open to some inputs."""

    def __init__(self, names=()):
        ports = SimpleNamespace(adapter=tuple(p for p in PORTS if p.name in names), required=())
        self.prepared = SimpleNamespace(ports=ports, settled=tuple(p.name for p in PORTS))

    def with_inputs(self, given):
        return given


@pytest.fixture
def opened():
    return []


@pytest.fixture
def sessions(opened):
    def load(open_to):
        opened.append(open_to.inputs)
        return Loaded(open_to.inputs)

    return AdapterSessions(None, plain=Loaded(), load=load, make_plan=lambda given: given)


def adapter(**inputs):
    values = {name: np.ones(shape, np.float32) for name, shape in inputs.items()}
    return Adapter("it", source="nowhere", digest="", inputs=values)


def test_adapters_of_the_same_inputs_share_a_session_until_the_last_goes(sessions, opened):
    first, second = sessions.bind(adapter(one=(2, 3))), sessions.bind(adapter(one=(2, 5)))
    assert [plan.plan["one"][0].shape for plan in (first, second)] == [(2, 3), (2, 5)]
    assert opened == [("one",)]
    sessions.unbind(first)
    third = sessions.bind(adapter(one=(2, 1)))
    assert opened == [("one",)]
    sessions.unbind(second)
    sessions.unbind(third)
    sessions.bind(adapter(one=(2, 1)))
    assert opened == [("one",)] * 2


def test_a_session_that_was_made_for_a_refused_adapter_goes_with_it(sessions, opened):
    for _ in range(2):
        with pytest.raises(ModelFileError, match=r"two is \[3, 1\], expected \[2, 'any'\]"):
            sessions.bind(adapter(one=(2, 1), two=(3, 1)))
    assert opened == [("one", "two")] * 2  # the first one was not kept


def test_an_adapter_that_is_refused_leaves_others_their_session(sessions, opened):
    kept = sessions.bind(adapter(one=(2, 1)))
    with pytest.raises(ModelFileError):
        sessions.bind(adapter(one=(7,)))
    assert opened == [("one",)]
    sessions.unbind(kept)
