"""What backends promise of heads that draft: hidden states as an input, and those of a model by the names of its outputs."""

import dataclasses
import secrets
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper

from onnxgen.backends.base import (
    AUX_HIDDEN_STATES,
    EMBEDS_ROWS,
    HIDDEN_STATES,
    INPUTS_EMBEDS,
    Backend,
    SequenceInput,
    pack_step,
)
from onnxgen.backends.fake import FakeBackend
from onnxgen.backends.native.backend import NativeBackend
from onnxgen.backends.ort.backend import OrtBackend
from onnxgen.backends.ort.plan_kind import PlanKind
from onnxgen.errors import ModelFileError, StepError, TokenIdError
from onnxgen.foundations.runtime_config import RuntimeConfig
from tiny_decoders import FLOAT, FLOAT16, Sizes, Style, TinyDecoder, decoder_model
from tiny_heads import TinyHead, head_model

SEED = secrets.randbits(32)
VOCAB, IDS, HIDDEN, AUX = 61, 83, 32, 48
PLANS = {
    "native": (None, Style(hidden_states=True)),
    "packed": (PlanKind.PACKED, Style()),
    "batched": (PlanKind.BATCHED, Style(hidden_states=True)),
    "dense": (PlanKind.DENSE, Style("plain")),
}
CASES = ("fake", *PLANS)


@dataclasses.dataclass(frozen=True)
class Head:
    """A backend that runs a head, and what it should give for tokens and the rows beside them."""

    backend: Backend
    # logits [tokens, vocab] and hidden states [tokens, hidden]
    run: Callable[..., tuple[np.ndarray, np.ndarray]] = dataclasses.field(repr=False)
    tolerance: float
    ids: int
    aux: int


def load(kind: PlanKind | None, model: Any, folder: Any) -> Backend:
    config = RuntimeConfig(threads=2, cache_dir=folder / "cache")
    return NativeBackend(model, config) if kind is None else OrtBackend(model, config, plan=kind)


def fake_head() -> Head:
    backend = FakeBackend(VOCAB, hidden_size=HIDDEN, reads_hidden=True)

    def run(tokens, hidden=None, aux=None):
        rows = np.zeros((len(tokens), HIDDEN), np.float32) if hidden is None else hidden
        said = [
            backend.token_beside(t, row) if row.any() else t
            for t, row in zip(np.asarray(tokens).tolist(), rows, strict=True)
        ]
        ends = range(1, len(said) + 1)
        return np.stack([backend.logits_after(said[:n]) for n in ends]), np.stack(
            [backend.hidden_after(said[:n]) for n in ends]
        )

    return Head(backend, run, 0.0, VOCAB, 0)


@pytest.fixture(scope="module", params=CASES)
def head(request, tmp_path_factory):
    print(f"seed {SEED}")
    if request.param == "fake":
        yield fake_head()
        return
    folder, (kind, style) = tmp_path_factory.mktemp("head"), PLANS[request.param]
    tiny = TinyHead(Sizes(layers=1), SEED, ids=IDS, aux=AUX)
    backend = load(kind, head_model(tiny, style, folder / "head.onnx"), folder)
    yield Head(backend, tiny.run, 1e-4 if kind else 0.03, IDS, AUX)
    backend.close()


@pytest.fixture
def rng():
    return np.random.default_rng(SEED)


def rows_for(head, rng, count):
    hidden = rng.standard_normal((count, HIDDEN)).astype(np.float32)
    return hidden, rng.standard_normal((count, head.aux)).astype(np.float32) if head.aux else None


def step_inputs(hidden, aux):
    return {HIDDEN_STATES: hidden} | ({} if aux is None else {AUX_HIDDEN_STATES: aux})


def near(got, want, tolerance):
    assert got.shape == want.shape
    assert float(np.abs(got - want).max()) <= tolerance


def test_every_token_reads_its_own_row(head, rng):
    cache = head.backend.create_cache(num_seqs=3, num_tokens=40)
    lengths = [7, 1, 12]
    tokens = [rng.integers(0, head.ids, n) for n in lengths]
    rows = [rows_for(head, rng, n) for n in lengths]
    size = cache.geometry.block_size
    blocks = np.arange(cache.geometry.num_blocks).reshape(3, -1)
    assert blocks.shape[1] * size >= 40

    def execute(parts, context, given):
        inputs = [
            SequenceInput(parts[i], context[i], blocks[i].tolist(), logits="all") for i in range(len(parts))
        ]
        hidden, aux = (None if pair[0] is None else np.concatenate(pair) for pair in zip(*given, strict=True))
        return head.backend.execute(
            pack_step(inputs, inputs=step_inputs(hidden, aux), want_hidden_states=True), cache
        )

    out = execute(tokens, [0, 0, 0], rows)
    wanted = [head.run(t, *r) for t, r in zip(tokens, rows, strict=True)]
    near(out.logits, np.concatenate([w[0] for w in wanted]), head.tolerance)
    near(out.hidden_states, np.concatenate([w[1] for w in wanted]), head.tolerance)
    # two decode steps of the same form, which some plans repeat
    for _ in range(3):
        new = [rng.integers(0, head.ids, 1) for _ in lengths]
        more = [rows_for(head, rng, 1) for _ in lengths]
        out = execute(new, [len(t) for t in tokens], more)
        tokens = [np.concatenate(pair) for pair in zip(tokens, new, strict=True)]
        rows = [
            (np.concatenate([h, dh]), None if a is None else np.concatenate([a, da]))
            for (h, a), (dh, da) in zip(rows, more, strict=True)
        ]
        wanted = [head.run(t, *r) for t, r in zip(tokens, rows, strict=True)]
        near(out.logits, np.stack([w[0][-1] for w in wanted]), head.tolerance)
        near(out.hidden_states, np.stack([w[1][-1] for w in wanted]), head.tolerance)


def test_rows_that_a_step_leaves_out_are_zeros(head, rng):
    cache, tokens = head.backend.create_cache(num_seqs=1, num_tokens=16), rng.integers(0, head.ids, 5)
    hidden, _ = rows_for(head, rng, 5)
    blocks = list(range(cache.geometry.num_blocks))
    for inputs, given in (({}, None), ({HIDDEN_STATES: hidden}, hidden)):
        step = pack_step([SequenceInput(tokens, 0, blocks, logits="all")], inputs=inputs)
        near(head.backend.execute(step, cache).logits, head.run(tokens, given)[0], head.tolerance)


def test_a_long_prompt_is_read_row_by_row(head, rng):
    needed = 700 if isinstance(head.backend, FakeBackend) else 40
    length = min(needed, head.backend.capabilities.max_context)
    cache, tokens = (
        head.backend.create_cache(num_seqs=1, num_tokens=length),
        rng.integers(0, head.ids, length),
    )
    hidden, aux = rows_for(head, rng, length)
    part = SequenceInput(tokens, 0, list(range(cache.geometry.num_blocks)))
    out = head.backend.execute(pack_step([part], inputs=step_inputs(hidden, aux)), cache)
    near(out.logits, head.run(tokens, hidden, aux)[0][-1:], head.tolerance)


def test_rows_of_another_shape_are_refused(head):
    cache = head.backend.create_cache(num_seqs=1, num_tokens=8)
    blocks = list(range(cache.geometry.num_blocks))
    for bad in (
        np.zeros((3, HIDDEN), np.float32),
        np.zeros((2, HIDDEN + 1), np.float32),
        np.zeros((2, HIDDEN)),
    ):
        step = pack_step([SequenceInput([1, 2], 0, blocks)], inputs={HIDDEN_STATES: bad})
        with pytest.raises(
            StepError, match=f"hidden_states must be float32 with a row of {HIDDEN} for each of 2"
        ):
            head.backend.execute(step, cache)


def test_ids_may_be_more_than_there_are_logits_of(head):
    cache = head.backend.create_cache(num_seqs=1, num_tokens=8)
    blocks = list(range(cache.geometry.num_blocks))
    assert head.backend.vocab_size == VOCAB
    head.backend.execute(pack_step([SequenceInput([head.ids - 1], 0, blocks)]), cache)
    with pytest.raises(TokenIdError, match=f"{head.ids}"):
        head.backend.execute(pack_step([SequenceInput([head.ids], 0, blocks)]), cache)


def test_a_decoder_without_such_an_input_refuses_rows(tmp_path):
    model = decoder_model(TinyDecoder(Sizes(), SEED), Style(), tmp_path / "model.onnx")
    backend = load(None, model, tmp_path)
    cache = backend.create_cache(num_seqs=1, num_tokens=8)
    rows = {HIDDEN_STATES: np.zeros((1, HIDDEN), np.float32)}
    with pytest.raises(StepError, match=r"hidden_states.*not understood"):
        backend.execute(pack_step([SequenceInput([1], 0, [0])], inputs=rows), cache)


LAYERS = ("sum0", "sum1", "hidden_states")


@pytest.fixture(scope="module", params=tuple(PLANS))
def target(request, tmp_path_factory):
    """A decoder that also gives its residual stream, and ONNX Runtime's word on it."""
    folder, (kind, _) = tmp_path_factory.mktemp("target"), PLANS[request.param]
    style = Style(hidden_states=True) if request.param != "dense" else Style("plain", hidden_states=True)
    model = decoder_model(TinyDecoder(Sizes(), SEED), style, folder / "model.onnx")
    proto = onnx.load(model.path)
    shape = ["batch", "seq", HIDDEN]
    proto.graph.output.extend(helper.make_tensor_value_info(name, FLOAT, shape) for name in LAYERS[:2])
    onnx.save(proto, model.path)
    return kind, model, folder


def whole_run(model, tokens):
    session = ort.InferenceSession(str(model.path), providers=["CPUExecutionProvider"])
    n, feeds = len(tokens), {}
    for value in session.get_inputs():
        if value.name == "input_ids":
            feeds[value.name] = np.asarray(tokens, np.int64)[None]
        elif value.name == "attention_mask":
            feeds[value.name] = np.ones((1, n), np.int64)
        elif value.name == "position_ids":
            feeds[value.name] = np.arange(n)[None]
        else:
            feeds[value.name] = np.zeros([1, value.shape[1], 0, value.shape[3]], np.float32)
    return [found[0] for found in session.run([*LAYERS, "logits"], feeds)]


@pytest.mark.parametrize(
    "names", [("sum0",), ("hidden_states",), ("sum0", "sum1", "hidden_states"), ("sum1", "sum0")]
)
def test_hidden_states_are_the_outputs_that_are_named(target, rng, names):
    kind, model, folder = target
    backend = load(kind, dataclasses.replace(model, hidden_outputs=names), folder)
    cache = backend.create_cache(num_seqs=2, num_tokens=16)
    blocks = np.arange(cache.geometry.num_blocks).reshape(2, -1).tolist()
    tokens = [rng.integers(0, VOCAB, n) for n in (9, 4)]
    parts = [SequenceInput(t[:-1], 0, b, logits="all") for t, b in zip(tokens, blocks, strict=True)]
    first = backend.execute(pack_step(parts, want_hidden_states=True), cache)
    # then alone, without logits, and the wanted rows of one sequence only
    parts = [SequenceInput(t[-1:], len(t) - 1, b) for t, b in zip(tokens, blocks, strict=True)]
    parts[0] = dataclasses.replace(parts[0], logits="none")
    last = backend.execute(pack_step(parts, want_hidden_states=True, want_logits=False), cache)
    runs = [dict(zip((*LAYERS, "logits"), whole_run(model, t), strict=True)) for t in tokens]
    tolerance = 1e-4 if kind else 0.05
    near(first.logits, np.concatenate([run["logits"][:-1] for run in runs]), tolerance)
    states = [np.concatenate([run[name] for name in names], -1) for run in runs]
    near(first.hidden_states, np.concatenate([s[:-1] for s in states]), tolerance)
    near(last.hidden_states, states[1][-1:], tolerance)
    backend.close()


def test_an_output_that_is_missing_is_named(target):
    kind, model, folder = target
    with pytest.raises(ModelFileError, match=r"no output 'sum7'.*its outputs are hidden_states, logits"):
        load(kind, dataclasses.replace(model, hidden_outputs=("sum0", "sum7")), folder)


def test_a_head_in_float16_takes_the_same_rows(tmp_path, rng):
    tiny = TinyHead(Sizes(layers=1), SEED)
    model = head_model(tiny, Style(), tmp_path / "head.onnx")
    proto = onnx.load(model.path)
    value = next(v for v in proto.graph.input if v.name == "hidden")
    value.type.tensor_type.elem_type, value.name = FLOAT16, "half"
    proto.graph.node.insert(0, helper.make_node("Cast", ["half"], ["hidden"], "/half", to=FLOAT))
    onnx.save(proto, model.path)
    model = dataclasses.replace(model, inputs={**model.inputs, HIDDEN_STATES: "half"})
    tokens, (hidden, _) = (
        rng.integers(0, VOCAB, 6),
        (rng.standard_normal((6, HIDDEN)).astype(np.float16), None),
    )
    for kind in (None, PlanKind.PACKED, PlanKind.DENSE):
        backend = load(kind, model, tmp_path)
        cache = backend.create_cache(num_seqs=1, num_tokens=8)
        step = pack_step(
            [SequenceInput(tokens, 0, [0], logits="all")], inputs={HIDDEN_STATES: hidden.astype(np.float32)}
        )
        near(backend.execute(step, cache).logits, tiny.run(tokens, hidden)[0], 0.03)


def test_embeddings_and_hidden_states_go_together(head, rng):
    if head.backend.capabilities.embedding_size is None:
        pytest.skip("this head looks nothing up")
    width = head.backend.capabilities.embedding_size
    cache, tokens = head.backend.create_cache(num_seqs=1, num_tokens=8), rng.integers(0, head.ids, 4)
    hidden, _ = rows_for(head, rng, 4)
    known = head.backend.token_embeddings(tokens)  # pyright: ignore[reportAttributeAccessIssue]
    assert known.shape == (4, width)
    plain = pack_step([SequenceInput(tokens, 0, [0], logits="all")], inputs={HIDDEN_STATES: hidden})
    want = head.backend.execute(plain, cache).logits
    given = SequenceInput(np.zeros(4, np.int64), 0, [0], logits="all", embeds=known)
    step = pack_step([given], inputs={HIDDEN_STATES: hidden})
    assert {INPUTS_EMBEDS, EMBEDS_ROWS, HIDDEN_STATES} == set(step.inputs)
    near(
        head.backend.execute(step, cache).logits,
        want,
        1e-5 if not isinstance(head.backend, FakeBackend) else 99,
    )
