"""Answers held to a JSON schema, and tokens guessed from the prompt, in onnxgen and its peers."""
