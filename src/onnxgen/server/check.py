"""`check_model`: looks at a model as far as that can be done without loading its weights."""

from __future__ import annotations

from dataclasses import replace

from onnxgen.engine.speculation.loaded import proposer_recipes
from onnxgen.errors import ConfigError, DownloadError
from onnxgen.facade.adapters import load_adapter
from onnxgen.facade.model_text import ModelText
from onnxgen.facade.resolve import resolve_model
from onnxgen.facade.template_file import read_template_file
from onnxgen.foundations.progress import SILENT, Progress
from onnxgen.foundations.runtime_config import RuntimeConfig
from onnxgen.preprocess.tool_calls.detection import named_tool_call_format
from onnxgen.scheduler.policies import make_policy
from onnxgen.server.introduction import in_columns, what_it_does
from onnxgen.server.models import ModelEntry
from onnxgen.server.models.engine_options import engine_config, runtime_config
from onnxgen.server.models.loader import gives_vectors
from onnxgen.server.settings import ServerSettings


def check_model(
    entry: ModelEntry, settings: ServerSettings, runtime: RuntimeConfig, *, progress: Progress = SILENT
) -> list[str]:
    """Lines about a model: what clients will find.

    A checkpoint that is on this machine is built if that was not done before; nothing is fetched.

    Args:
        entry: What the operator says of it.
        settings: How the server serves.
        runtime: How models are run.
        progress: Shows building.

    Raises:
        OnnxgenError: A file of it is missing or wrong, or what is said of it does not fit it.
    """
    if gives_vectors(entry):
        return [f"{entry.id}: {entry.source}, gives vectors"]
    config = replace(runtime_config(entry, runtime), offline=True)
    try:
        folder = resolve_model(entry.source, config=config, precision=entry.precision, progress=progress)
    except DownloadError as cause:
        return [f"{entry.id}: not on this machine, would be fetched ({cause})"]
    text = ModelText(
        folder, template=None if entry.chat_template is None else read_template_file(entry.chat_template)
    )
    if entry.chat_template is not None and not text.has_chat_template:
        raise ConfigError(f"model {entry.id!r}: {entry.chat_template} is no chat template that can be used")
    if entry.tool_call_format is not None:
        named_tool_call_format(entry.tool_call_format)
    for name, path in entry.adapters.items():
        load_adapter(path, name)
    draft = entry.draft_model and resolve_model(
        entry.draft_model, config=config, precision=entry.precision, progress=progress
    )
    engine = engine_config(entry, settings, config)
    make_policy(engine.scheduler)  # raises where there is none of that name
    for proposer in proposer_recipes(text.spec, config, engine.speculation, draft=draft or None):
        proposer.check(text.spec, tokenizer=text.tokenizer)
    said = {
        "folder": str(folder),
        "context": f"{min(text.spec.context_length, settings.context or text.spec.context_length)} tokens",
        **what_it_does(entry, text.spec, text.chat_facts),
    }
    return [f"{entry.id}: can be served", *in_columns(said)]
