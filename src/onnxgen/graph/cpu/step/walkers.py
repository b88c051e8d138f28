"""The compiled functions that walk steps, as the crew calls them."""

from __future__ import annotations

from onnxgen.graph.cpu.step.kernel import StepKernel

LEAD = StepKernel("walk:lead", (("profiled", False),), (), gives_value=True)
"""``lead(control, scratch, request, epoch)``: a whole step."""

LEAD_PROFILED = StepKernel("walk:lead", (("profiled", True),), (), gives_value=True)
"""The same, and how long each row took."""

SERVE = StepKernel("walk:serve", (), (), gives_value=True)
"""``serve(control, scratch, worker)``: the life of a worker."""

WALKERS = (LEAD, SERVE)
"""What every step needs."""
