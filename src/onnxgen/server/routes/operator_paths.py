"""`only_where`: paths for operators, which are not there unless the settings say so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from fastapi import Request

from onnxgen.server.errors import ApiError
from onnxgen.server.services import services_of


def only_where(setting: Literal["enable_admin", "enable_debug"], prefix: str) -> Callable[[Request], None]:
    """A dependency of routes that refuses requests unless a setting is on.

    Args:
        setting: The setting.
        prefix: What the paths have in common.
    """

    def check(request: Request) -> None:
        if not getattr(services_of(request).settings, setting):
            raise ApiError(
                404,
                f"{prefix} is not enabled on this server; start it with --{setting.replace('_', '-')}",
                code="not_enabled",
            )

    return check
