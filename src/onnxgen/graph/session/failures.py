"""What a failing node is reported as."""

from __future__ import annotations

from types import FrameType
from typing import Any

from onnxgen.errors import KernelError, RunCancelledError
from onnxgen.graph.planner.plan import Plan
from onnxgen.graph.planner.program import Call
from onnxgen.graph.session.run_values import described


def raise_named(plan: Plan, error: Exception) -> None:
    """Raise the error that names the node whose line in the plan failed; return for errors that pass as they are.

    Those are: a run that was stopped, nodes of inner graphs, which are named already, and what happens outside of nodes.

    Raises:
        KernelError: with the node, its provider, and its inputs' types and shapes.
    """
    if isinstance(error, RunCancelledError) or _is_named(error):
        return
    found = _failed_call(plan, error)
    if found is None:
        return
    call, frame = found
    values = {**frame.f_locals}
    inputs = ", ".join(_described(plan, value, values) for value in call.inputs)
    kind = "" if isinstance(error, KernelError) else f"{type(error).__name__}: "
    raise KernelError(
        f"{call.spec} failed on provider {call.provider!r} in graph {plan.program.name!r}: "
        f"{kind}{str(error).removeprefix(f'{call.spec}: ')}; its inputs were ({inputs})"
    ) from error


def _is_named(error: Exception) -> bool:
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback is not None and traceback.tb_frame.f_code is raise_named.__code__


def _failed_call(plan: Plan, error: Exception) -> tuple[Call, FrameType] | None:
    traceback = error.__traceback__
    while traceback is not None:
        frame = traceback.tb_frame
        if frame.f_code.co_filename == plan.code.co_filename and frame.f_code.co_name == "plan":
            call = plan.calls_by_line.get(traceback.tb_lineno)
            return None if call is None else (call, frame)
        traceback = traceback.tb_next
    return None


def _described(plan: Plan, number: int | None, values: dict[str, Any]) -> str:
    if number is None:
        return "left out"
    name = plan.program.values[number].name
    value = values.get(f"v{number}", values.get(f"w{number}"))
    return f"{name}: {described(value)}"
