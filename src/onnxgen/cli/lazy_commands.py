"""Commands whose modules are imported when somebody asks for them."""

from __future__ import annotations

import pkgutil
from typing import Any

from typer.core import TyperGroup


def with_lazy_commands(group: type[TyperGroup], **places: tuple[str, str]) -> type[TyperGroup]:
    """A group with further commands.

    Args:
        group: A class of groups.
        places: By name of the command: ``module:function`` of what makes it, and the command that it is listed after.
    """

    class Group(group):
        """Knows commands that are not made yet."""

        def list_commands(self, ctx: Any) -> list[str]:
            """Names of all commands."""
            names = super().list_commands(ctx)
            for name, (_, after) in places.items():
                names.insert(names.index(after) + 1, name)
            return names

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            """A command by name."""
            if cmd_name in places:
                return pkgutil.resolve_name(places[cmd_name][0])()
            return super().get_command(ctx, cmd_name)

    return Group
