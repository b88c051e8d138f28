"""ONNX Runtime behind the seam. The only package that imports onnxruntime.

Knows ONNX graphs and ONNX Runtime; knows nothing of model folders or text.
"""

from __future__ import annotations

import os

# ONNX Runtime's packages report their use over the network, from the moment they are imported on. That is
# for users to switch on (ORT_DISABLE_TELEMETRY=0), not for a runtime of local models to do unasked.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
