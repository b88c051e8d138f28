import pytest

from onnxgen.backends.fake import FakeBackend
from onnxgen.cli.bench_roof import Roof
from onnxgen.cli.bench_tasks import Task, measure, sizes_in, warm_up
from onnxgen.graph.costs.decoder_work import DecoderWork

VOCAB = 30


def _backend():
    return FakeBackend(VOCAB, max_context=400)


def test_sizes_are_read_from_a_list():
    assert sizes_in("128, 512", "--prefill") == (128, 512)
    assert sizes_in(" ", "--prefill") == ()


def test_prompts_are_the_same_every_time_and_differ_between_streams():
    task = Task("streams", 3, 8)
    first, second, third = task.prompts(VOCAB)
    assert task.prompts(VOCAB) == [first, second, third]
    assert len(first) == 128 and first != second != third
    assert all(0 <= token < VOCAB for token in first)


@pytest.mark.parametrize(
    ("task", "context"),
    [(Task("prefill", 50, 1), 51), (Task("decode", 50, 9), 59), (Task("streams", 4, 9), 137)],
)
def test_a_task_knows_its_context(task, context):
    assert task.context == context


def test_backends_take_turns():
    order, done = [], []

    class Noting(FakeBackend):
        def __init__(self, name):
            super().__init__(VOCAB, max_context=400)
            self.name = name

        def execute(self, step, cache):
            order.append(self.name)
            return super().execute(step, cache)

    tasks = [Task("prefill", 10, 1), Task("decode", 5, 2)]
    backends = {"a": Noting("a"), "b": Noting("b")}
    found = measure(tasks, backends, VOCAB, chunk_tokens=64, repeats=3, done=done.append)
    assert "".join(order) == "abbaab" + "aabbbbaaaabb"
    assert done == tasks
    assert set(found) == {"a", "b"}
    assert set(found["a"]) == {"prefill.10", "decode.5"}


def test_medians_are_kept(monkeypatch):
    rates = iter([1.0, 9.0, 2.0])
    monkeypatch.setattr("onnxgen.cli.bench_tasks.run_task", lambda *_, **__: {"prefill.4": next(rates)})
    found = measure(
        [Task("prefill", 4, 1)], {"a": _backend()}, VOCAB, chunk_tokens=64, repeats=3, done=lambda _: None
    )
    assert found == {"a": {"prefill.4": 2.0}}


def test_a_warm_up_is_short():
    backend = _backend()
    warm_up([Task("prefill", 10, 1), Task("streams", 2, 50)], backend, VOCAB, chunk_tokens=512)
    assert [step.num_tokens for step in backend.steps] == [10, 256, 2]


def test_bounds_follow_from_bytes_and_operations():
    work = DecoderWork(1000, 10, 90, is_quantized=True)
    roof = Roof(bytes_per_s=1e6, operations_per_s=1e6, work=work)
    assert roof.rate(Task("decode", 128, 8)) == pytest.approx(1000)  # memory: 1 ms
    assert roof.rate(Task("streams", 50, 8)) == pytest.approx(50 / 5e-3)  # arithmetic: 50 * 100 operations
    assert roof.rate(Task("prefill", 1000, 1)) == pytest.approx(1000 / 10.09e-3)
