"""Long texts are shadowed in another way than short ones, and to the same effect."""

from hypothesis import given
from hypothesis import strategies as st

from onnxgen.preprocess.shadow_text import (
    PUNCTUATION,
    Shade,
    plain,
    shadowed,
    without_noncharacters,
)

TEXTS = st.text(st.sampled_from("ab<>|[é中😀\ufdcf\ufdd0\ufdd7\ufdef\ufdf0�") | st.characters(), min_size=1)
SHADES = st.sets(st.sampled_from(sorted(PUNCTUATION))).map(Shade)


@given(TEXTS, SHADES)
def test_a_long_text_is_what_its_parts_are(text, shade):
    times = 3000 // len(text) + 1
    assert shade.text(text * times) == shade.text(text) * times
    assert plain(text * times) == plain(text) * times
    assert without_noncharacters(text * times) == without_noncharacters(text) * times
    assert shadowed(text * times) == shadowed(text)


@given(TEXTS, SHADES, st.sampled_from([1, 3000]))
def test_shadows_are_as_long_as_their_characters_and_go_away_again(text, shade, times):
    [shadow] = shade.data([text * times])
    assert len(shadow) == len(text) * times
    assert plain(shadow) == without_noncharacters(text * times)
