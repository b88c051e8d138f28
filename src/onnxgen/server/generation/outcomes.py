"""`end_early`: what ends a request before its answer is whole, in the words of the observer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from onnxgen.server.errors import as_api_error
from onnxgen.server.generation.client_watch import CLIENT_LEFT, ClientLeftError

if TYPE_CHECKING:
    from onnxgen.server.observe.ended import Outcome
    from onnxgen.server.observe.observer import Observed


def end_early(observed: Observed, error: BaseException | None) -> Outcome:
    """Tell the observer that a request ended before its answer was whole; returns how.

    Args:
        observed: The request.
        error: What ended it; None: whoever asked wants no more.
    """
    if error is None or isinstance(error, (ClientLeftError, asyncio.CancelledError, GeneratorExit)):
        observed.end("cancelled", status=CLIENT_LEFT, error=error)
        return "cancelled"
    status = as_api_error(error).status
    outcome: Outcome = "timeout" if status == 504 else "error" if status >= 500 else "rejected"
    observed.end(outcome, status=status, error=error)
    return outcome
