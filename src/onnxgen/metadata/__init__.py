"""What a model folder means: `genai_config.json` or `inference_metadata.yaml` to one frozen `ModelSpec`.

Knows both schemas; opens no graph and runs nothing.
"""
