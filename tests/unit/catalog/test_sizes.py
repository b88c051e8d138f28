import pytest

from onnxgen.catalog import format_bytes


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (98_362_432, "98.4 MB"),
        (999_499_999, "999 MB"),
        (999_600_000, "1 GB"),
        (1_500_000_000_000, "1.5 TB"),
    ],
)
def test_bytes_have_three_digits_at_most(count, text):
    assert format_bytes(count) == text
