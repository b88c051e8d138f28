import numpy as np
import pytest

import onnxgen as og
from bigram_models import write_bigram_folder
from onnxgen.foundations.runtime_config import RuntimeConfig

VOCAB, EOS = 23, 22


@pytest.mark.parametrize("backend", ["ort", "native"])
def test_a_decoder_without_layers_is_run(tmp_path, backend):
    table = np.full((VOCAB, VOCAB), -5, np.float32)
    follower = (np.arange(VOCAB) + 5) % EOS
    table[np.arange(VOCAB), follower] = 5
    folder = write_bigram_folder(tmp_path / "model", table)
    with og.Model(folder, runtime=RuntimeConfig(backend=backend)) as model:
        params = og.GeneratorParams(model)
        params.set_search_options(max_length=12)
        generator = og.Generator(model, params)
        generator.append_tokens([3, 9])
        expected = [3, 9]
        while len(expected) < 12:
            expected.append(int(follower[expected[-1]]))
        while not generator.is_done():
            generator.generate_next_token()
        assert generator.get_sequence(0).tolist() == expected
        generator.rewind_to(5)
        np.testing.assert_array_equal(generator.get_logits()[0, 0], table[expected[4]])
