"""Plans to plans that compute the same with fewer calls and less memory traffic; one rewrite, one file.

A rewrite never changes what a row's result depends on, so that results stay the same whatever else is in a step.
"""

from onnxgen.backends.native.fuse.pipeline import fuse_plan

__all__ = ["fuse_plan"]
