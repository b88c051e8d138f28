import pytest

from onnxgen.engine.beams.options import BeamOptions
from onnxgen.errors import OptionError


def test_defaults_are_those_of_transformers():
    options = BeamOptions(4)
    assert (options.num_return_sequences, options.length_penalty, options.early_stopping) == (1, 1.0, False)
    assert BeamOptions(6, num_beam_groups=3, diversity_penalty=0.5).group_beams == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_beams": 0}, "num_beams must be between 1 and 256, got 0"),
        ({"num_beams": 257}, "num_beams must be between 1 and 256, got 257"),
        ({"num_beams": 2.5}, "num_beams must be an integer"),
        ({"num_beams": 3, "num_return_sequences": 4}, "num_return_sequences=4 needs as many beams"),
        ({"num_beams": 3, "num_return_sequences": 0}, "num_return_sequences must be at least 1"),
        ({"num_beams": 3, "length_penalty": float("nan")}, "length_penalty must be a finite number"),
        ({"num_beams": 3, "length_penalty": "1"}, "length_penalty must be a number"),
        ({"num_beams": 3, "early_stopping": "always"}, "early_stopping must be True, False or 'never'"),
        ({"num_beams": 3, "early_stopping": 1}, "early_stopping must be True, False or 'never'"),
        ({"num_beams": 4, "num_beam_groups": 3, "diversity_penalty": 1.0}, "must divide num_beams"),
        ({"num_beams": 4, "num_beam_groups": 2}, "do not go together"),
        ({"num_beams": 4, "diversity_penalty": 0.5}, "do not go together"),
        (
            {"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": -1.0},
            "diversity_penalty must be a finite number",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(options, message):
    with pytest.raises(OptionError, match=message):
        BeamOptions(**options)
