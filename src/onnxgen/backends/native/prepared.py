"""A model's plan: from the user's cache, or made from its graph."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from onnxgen.backends.base import DecoderModel
from onnxgen.backends.native.passes import RotaryRows
from onnxgen.backends.native.plan import StepPlan
from onnxgen.backends.native.plan_store import PlanStore
from onnxgen.backends.native.rotary_tables import join_rotary_tables
from onnxgen.errors import ModelFileError
from onnxgen.foundations.files import check_file, is_present
from onnxgen.foundations.runtime_config import RuntimeConfig

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A plan that the kernels can run, and how its positions find their rotary rows."""

    plan: StepPlan
    rotary: RotaryRows


def prepare(model: DecoderModel, config: RuntimeConfig) -> Prepared:
    """The plan of a model.

    Raises:
        ModelFileError: A file of the model is missing or broken.
        CapabilityError: The graph needs what this backend cannot do; the message has every node, and why.
    """
    if model.model_bytes is None and not is_present(model.path):
        raise ModelFileError(f"there is no file {model.path}")
    store = PlanStore(config.cache_dir / "plans")
    key = store.key(model)
    plan = None if key is None else store.load(key)
    if plan is None:
        plan = _make(model)
        if key is not None:
            store.save(key, plan)
    return Prepared(*join_rotary_tables(plan, model.rope_switch_length))


def _make(model: DecoderModel) -> StepPlan:
    from onnxgen.backends.native.fuse import fuse_plan
    from onnxgen.backends.native.kernels_for import check_kernels
    from onnxgen.backends.native.lower import lower_decoder
    from onnxgen.graph.loader import load_graph

    if model.model_bytes is None:
        graph = load_graph(check_file(model.path))
    else:
        graph = load_graph(model.model_bytes, beside=model.path)
    plan = fuse_plan(lower_decoder(graph, model))
    check_kernels(plan, str(model.path))
    return plan
