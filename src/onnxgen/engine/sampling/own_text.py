"""`own_text`: how messages name what requests bring, whatever it does when it is asked."""

from __future__ import annotations

from collections.abc import Callable

_MOST = 300
"""Characters: some objects print all that they hold."""


def own_text(own: object, form: Callable[[object], str] = repr) -> str:
    """An object of a request as text of bounded length; its type where it cannot be told.

    Args:
        own: A processor, a sampler, what one returned, or an exception of one.
        form: ``repr`` or ``str``.
    """
    try:
        return form(own)[:_MOST]
    except Exception:  # noqa: BLE001 - the fault of one request, which must not end the others
        return f"<{type(own).__name__}>"
