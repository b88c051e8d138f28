"""Run, serve and take apart generative models in ONNX format, from Python."""
