"""What a model folder means: `genai_config.json` or `inference_metadata.yaml` to one frozen `ModelSpec`.

Knows both schemas; opens no graph and runs nothing.
"""

from typing import TYPE_CHECKING

from onnxgen.foundations.lazy_names import lazy_names

if TYPE_CHECKING:
    from onnxgen.metadata.load import load_model_spec

__all__ = ["load_model_spec"]

__getattr__ = lazy_names(__name__, {"load": ("load_model_spec",)})
