"""What a model folder means: `genai_config.json` or `inference_metadata.yaml` to one frozen `ModelSpec`.

Knows both schemas; opens no graph and runs nothing.
"""

from onnxgen.metadata.capabilities import SUPPORTED_CAPABILITIES
from onnxgen.metadata.load import load_model_spec
from onnxgen.metadata.model_spec import ModelSpec, SearchDefaults, SpecialTokens

__all__ = ["SUPPORTED_CAPABILITIES", "ModelSpec", "SearchDefaults", "SpecialTokens", "load_model_spec"]
