"""Whether there is a kernel for every call of a plan."""

from __future__ import annotations

from onnxgen.backends.native.bind import FUNCTIONS
from onnxgen.backends.native.bind_attention import attention_of
from onnxgen.backends.native.plan import BlockMatrix, Call, Family, StepPlan
from onnxgen.errors import CapabilityError, OptionError
from onnxgen.graph.cpu.packed_blocks import BITS, BLOCK_SIZES


def check_kernels(plan: StepPlan, origin: str) -> None:
    """Refuse a plan with calls that nobody can run.

    Raises:
        CapabilityError: The message has every such call, the nodes it comes from, and why.
    """
    declined = [
        f"{', '.join(call.nodes)}: {reason}" for call in plan.calls if (reason := _why_not(plan, call))
    ]
    if declined:
        reasons = "".join(f"\n- {reason}" for reason in declined)
        raise CapabilityError(f"the native backend has no kernels for {origin}:{reasons}")


def _why_not(plan: StepPlan, call: Call) -> str | None:
    match call.family:
        case Family.ROTATE:
            return "rotation is done by attention, and this one stands alone"
        case Family.MAP | Family.GATE if call.text("function") not in FUNCTIONS:
            return f"there is no kernel for {call.text('function')}"
        case Family.ATTEND:
            try:
                attention_of(call)
            except OptionError as reason:
                return str(reason)
            return None
        case Family.PRODUCT | Family.EMBED:
            return _blocks(plan, call)
        case _:
            return None


def _blocks(plan: StepPlan, call: Call) -> str | None:
    name = call.weights["matrix" if call.family is Family.PRODUCT else "table"]
    part = plan.weights[name].parts[0]
    if isinstance(part, BlockMatrix) and (part.bits not in BITS or part.block_size not in BLOCK_SIZES):
        return f"there are kernels for {BITS} bits in blocks of {BLOCK_SIZES}, not {part.bits} in {part.block_size}"
    return None
