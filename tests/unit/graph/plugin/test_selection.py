import pytest

from mirror import MirrorProvider
from onnxgen.errors import ConfigError
from onnxgen.graph.plugin import load_provider, select_providers


def names(*args):
    return [provider.name for provider in select_providers(*args)]


@pytest.mark.parametrize(
    "asked", [None, [], ["CPUExecutionProvider"], ["cpu", "reference"], ("CPUExecutionProvider", "cpu")]
)
def test_the_usual_providers(asked):
    assert names(asked) == ["cpu", "reference"]


def test_the_order_is_kept():
    assert names(["reference", "cpu"]) == ["reference", "cpu"]
    assert names(["reference", "CPUExecutionProvider"]) == ["reference", "cpu"]
    assert names(["cpu", ("cpu", {})]) == ["cpu"]


def test_objects_are_taken_as_they_are():
    mirror = MirrorProvider()
    chosen = select_providers([mirror, "cpu"])
    assert chosen[0] is mirror
    assert chosen[1] is load_provider("cpu")


@pytest.mark.parametrize(
    ("providers", "options", "message"),
    [
        ("cpu", None, "a list of names, found 'cpu'"),
        ([3], None, "int lacks name"),
        ([("cpu",)], None, "pair of name and options"),
        ([("cpu", ["a"])], None, "pair of name and options"),
        (["CUDAExecutionProvider"], None, "installed are .*cpu"),
        (["cpu"], [{}, {}], "found 2 for 1 providers"),
        (None, [{}], "one entry for each provider"),
        ([("cpu", {})], [{}], "for providers given by name"),
        (["cpu"], [{"threads": 1}], "it takes no options"),
        ([("CPUExecutionProvider", {"a": 1})], None, "has no options here"),
        ([MirrorProvider(), MirrorProvider()], None, "two providers are called 'mirror'"),
    ],
    ids=range(11),
)
def test_wrong_choices_say_what_is_wrong(providers, options, message):
    with pytest.raises(ConfigError, match=message):
        select_providers(providers, options)
