from onnxgen.conformance.candidate_sizes import candidate_sizes


def test_given_sizes_are_kept_in_every_candidate():
    candidates = list(candidate_sizes(("batch", "n"), {"n": 7}, seed=1))
    assert {sizes["n"] for sizes in candidates} == {7} and len({sizes["batch"] for sizes in candidates}) > 3
