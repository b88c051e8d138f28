"""YAML text to plain values, strictly: no aliases, no key twice, no unbounded size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from onnxgen.errors import MetadataError
from onnxgen.foundations.files import read_text

_MAX_BYTES = 16 << 20


def read_yaml(path: Path) -> Any:
    """Read a YAML file that holds one document.

    Aliases are refused: a few lines of them can stand for gigabytes, and metadata needs none.

    Raises:
        MetadataError: The file is missing, too large or not YAML; the message has line and column.
    """
    if path.is_file() and path.stat().st_size > _MAX_BYTES:
        raise MetadataError(f"{path} has {path.stat().st_size} bytes; metadata may have {_MAX_BYTES}")
    text = read_text(path, error=MetadataError)

    import yaml
    from yaml.composer import ComposerError
    from yaml.constructor import ConstructorError

    class _StrictLoader(yaml.SafeLoader):
        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                mark = self.peek_event().start_mark
                raise ComposerError(None, None, "aliases (*name) are not allowed", mark)
            return super().compose_node(parent, index)

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            seen: set[Any] = set()
            for key_node, _ in node.value:
                key = self.construct_object(key_node, deep=True)
                if not isinstance(key, str):
                    raise ConstructorError(
                        None, None, f"the key {key!r} is not a string", key_node.start_mark
                    )
                if key in seen:
                    raise ConstructorError(
                        None, None, f"the key {key!r} stands twice in one mapping", key_node.start_mark
                    )
                seen.add(key)
            return super().construct_mapping(node, deep)

    try:
        return yaml.load(text, _StrictLoader)
    except yaml.MarkedYAMLError as cause:
        mark = cause.problem_mark
        at = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise MetadataError(f"{path} is not usable YAML: {at}{cause.problem}") from cause
    except (yaml.YAMLError, ValueError) as cause:
        raise MetadataError(f"{path} is not usable YAML: {cause}") from cause
    except RecursionError as cause:
        raise MetadataError(f"{path} is nested too deeply to be read") from cause
