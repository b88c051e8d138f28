import pytest

from onnxgen import Model
from onnxgen.errors import ConfigError


def test_the_name_of_a_backend_says_where_it_belongs(tmp_path):
    with pytest.raises(ConfigError, match=r"RuntimeConfig\(backend='native'\)"):
        Model(tmp_path, backend="native")
