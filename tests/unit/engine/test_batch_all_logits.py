import numpy as np
import pytest

from backend_cases import CASE_NAMES, CONTEXT, make_case
from hash_backend import HashBackend
from onnxgen.engine.batch import Batch
from onnxgen.errors import BackendError


def open_batch(case, rows, *, chunk=512):
    return Batch(
        case.backend,
        num_rows=rows,
        max_tokens=CONTEXT,
        chunk_tokens=chunk,
        rope_switch_length=case.rope_switch,
    )


@pytest.mark.parametrize("chunk", [3, 512])
@pytest.mark.parametrize("name", CASE_NAMES)
def test_every_token_has_its_logits_and_nothing_else_changes(tmp_path, name, chunk):
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    print("seed", seed)
    rng = np.random.default_rng(seed)
    case = make_case(name, tmp_path, seed)
    batch = open_batch(case, 2, chunk=chunk)
    texts = [rng.integers(1, case.backend.vocab_size, int(rng.integers(9, 16))).tolist() for _ in range(2)]
    for row, text in enumerate(texts):
        batch.extend(row, text)
    before = batch.forward([0, 1])
    start = int(rng.integers(0, 8))
    end = int(rng.integers(start + 1, 10))
    got = batch.outputs.all_logits(1, start, end)
    whole = texts[1]
    if case.rope_switch is None or len(whole) <= case.rope_switch:  # else all of it is computed as a long one
        case.check(got, whole[:end], range(start, end))
    np.testing.assert_array_equal(batch.forward([0, 1]), before)
    texts[1].append(5)
    batch.extend(1, [5])
    case.check(batch.forward([1]), texts[1], [-1])


def test_logits_that_were_set_stay():
    backend = HashBackend()
    batch = Batch(backend, num_rows=1, max_tokens=20, chunk_tokens=4)
    batch.extend(0, range(9))
    own = np.arange(50, dtype=np.float32)
    batch.set_logits(0, own)
    got = batch.outputs.all_logits(0, 2, 9)
    np.testing.assert_array_equal(got, [backend.logits(range(n)) for n in range(3, 10)])
    np.testing.assert_array_equal(batch.forward([0])[0], own)


@pytest.mark.parametrize("rewind", [True, False])
def test_a_step_that_fails_leaves_the_sequence_as_it_was(rewind):
    backend = HashBackend(rewind=rewind)
    batch = Batch(backend, num_rows=1, max_tokens=20, chunk_tokens=4)
    batch.extend(0, range(9))
    batch.forward([0])
    backend.fail_at = {len(backend.steps) + 1}
    with pytest.raises(BackendError):
        batch.outputs.all_logits(0, 0, 9)
    batch.append(0, 3)
    np.testing.assert_array_equal(batch.forward([0])[0], backend.logits([*range(9), 3]))
