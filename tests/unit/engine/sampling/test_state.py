from onnxgen.engine.sampling.state import RowState


def test_a_new_sequence_has_the_first_bound():
    assert RowState().mu(7, first=10.0) == 10.0


def test_the_bound_is_that_of_the_latest_token_drawn():
    state = RowState()
    state.note_mu(8, 9.5)
    state.note_mu(9, 9.0)
    assert state.mu(9, first=10.0) == 9.0
    assert state.mu(12, first=10.0) == 9.0  # tokens were appended that nobody drew


def test_a_rewound_sequence_goes_on_as_if_it_had_never_gone_further():
    state = RowState()
    for length in range(8, 20):
        state.note_mu(length, 20.0 - length)
    assert state.mu(11, first=10.0) == 9.0
    state.note_mu(12, 3.0)
    assert state.mu(12, first=10.0) == 3.0
    state.rewind(7)
    assert state.mu(30, first=10.0) == 10.0
