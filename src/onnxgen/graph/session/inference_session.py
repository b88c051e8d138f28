"""`InferenceSession`: a model made ready to run, with ONNX Runtime's surface."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from onnxgen.errors import ConfigError, FeedError
from onnxgen.foundations.suggest import did_you_mean
from onnxgen.graph.ep.threads import limited_threads
from onnxgen.graph.loader import load_graph
from onnxgen.graph.plugin.selection import ProviderChoice, options_by_name, select_providers
from onnxgen.graph.session.compile import compile_model
from onnxgen.graph.session.executor import Executable
from onnxgen.graph.session.feeds import Feeds, InputPort
from onnxgen.graph.session.io_binding import IOBinding
from onnxgen.graph.session.model_metadata import ModelMetadata, read_metadata
from onnxgen.graph.session.node_arg import NodeArg, node_arg
from onnxgen.graph.session.options import SessionOptions
from onnxgen.graph.session.ort_value import OrtValue
from onnxgen.graph.session.profile import Profile
from onnxgen.graph.session.run_options import RunOptions
from onnxgen.graph.session.session_log import SessionLog
from onnxgen.graph.session.settle import settle
from onnxgen.graph.session.spent_model import let_go, write_model


class InferenceSession:
    """A model, loaded, optimized and placed on execution providers. Several threads may run it at once.

    Args:
        path_or_bytes: A path, the bytes of a model, an `onnx.ModelProto` or an `onnx_ir.Model`; models in memory are left
            as they are.
        sess_options: How to load and run it.
        providers: Names, pairs of name and options, or provider objects, in the order of preference; ``cpu`` and
            ``reference`` where none are given.
        provider_options: Options by position, when ``providers`` are plain names.
        session_options: Another spelling of ``sess_options``.

    Raises:
        ModelNotFoundError: there is no file at that path.
        ModelFileError: the model cannot be read or breaks the rules of the format.
        UnsupportedOperatorError: no provider runs some of its nodes; the message has all of them with each reason.
        ConfigError: options or providers are wrong.
        CapabilityError, OSError: the optimized model cannot be written where the options want it.
    """

    def __init__(
        self,
        path_or_bytes: Any,
        sess_options: SessionOptions | None = None,
        providers: Sequence[ProviderChoice] | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
        *,
        session_options: SessionOptions | None = None,
    ) -> None:
        options = _one_of(sess_options, session_options)
        self._options = options
        self._log = SessionLog(options)
        self._profile = Profile(enabled=options.enable_profiling, prefix=options.profile_file_prefix)
        self._providers = select_providers(providers, provider_options)
        self._provider_options = options_by_name(providers, provider_options)
        with self._profile.tracer.span("load", "session"):
            loaded = load_graph(path_or_bytes)
        self._metadata = read_metadata(loaded.model)
        settle(loaded.model, options, loaded.origin)
        fixed = set(loaded.model.graph.initializers)
        self._most_threads: int = options.intra_op_num_threads
        with limited_threads(self._most_threads) if self._most_threads else nullcontext():
            executable = compile_model(
                loaded,
                self._providers,
                level=options.graph_optimization_level.level,
                trace=self._profile.tracer,
                memory_reuse=options.memory_reuse,
            )
        if options.optimized_model_filepath:
            write_model(loaded.model, Path(options.optimized_model_filepath))
        let_go(loaded.model)
        self._executable = executable
        self._feeds = Feeds(
            [InputPort(value.name, value.type) for value in executable.inputs],
            [InputPort(value.name, value.type) for value in executable.overridable],
            fixed,
        )
        self._output_types = {value.name: value.type for value in executable.outputs}
        self._log.say(
            logging.INFO, "loaded %s for providers %s", loaded.origin, ", ".join(self.get_providers())
        )

    @property
    def executable(self) -> Executable:
        """What runs: its ``source`` is the plan as Python, its ``placement`` says which provider runs what, and why."""
        return self._executable

    def run(
        self,
        output_names: Iterable[str] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None = None,
    ) -> list[Any]:
        """Compute outputs.

        Args:
            output_names: What is wanted, in that order; every output when None or empty.
            input_feed: Values by input: arrays, lists for sequences, None for empty optionals, dictionaries for maps,
                `OrtValue`. Initializers that are inputs, too, may be fed.
            run_options: For stopping the run from another thread.

        Returns:
            Arrays; lists for sequences, None for empty optionals, dictionaries for maps. Element types that NumPy lacks are
            those of ml_dtypes, strings come in ``object`` arrays.

        Raises:
            FeedError: names or values do not fit the model.
            KernelError: a node failed.
            RunCancelledError: the run was told to stop.
        """
        return self._compute(
            self._feeds.prepare(_mapping(input_feed)), self._wanted(output_names), None, run_options
        )

    def run_with_ort_values(
        self,
        output_names: Iterable[str] | None,
        input_dict_ort_values: Mapping[str, OrtValue],
        run_options: RunOptions | None = None,
    ) -> list[OrtValue]:
        """`run` with `OrtValue` in and out."""
        names = self._wanted(output_names) or self._output_types
        values = self._compute(
            self._feeds.prepare(_mapping(input_dict_ort_values)), [*names], None, run_options
        )
        return [OrtValue(value, self._output_types[name]) for name, value in zip(names, values, strict=True)]

    def run_with_iobinding(self, iobinding: IOBinding, run_options: RunOptions | None = None) -> None:
        """Compute the outputs that are bound, from the inputs that are bound.

        Raises:
            FeedError: an input or every output is missing, or memory bound for an output has another shape or type.
        """
        names, buffers = iobinding.wanted()
        iobinding.keep(names, self._compute(iobinding.feeds(), names, buffers, run_options))

    def run_async(
        self,
        output_names: Iterable[str] | None,
        input_feed: Mapping[str, Any],
        callback: Callable[[list[Any], Any, str], None],
        user_data: Any,
        run_options: RunOptions | None = None,
    ) -> None:
        """`run` in a thread of its own; feeds are checked before it starts.

        Args:
            output_names: See `run`.
            input_feed: See `run`.
            callback: Called there with the outputs, ``user_data`` and an error message, empty when there was no error.
            user_data: Anything.
            run_options: See `run`.
        """
        feeds, names = self._feeds.prepare(_mapping(input_feed)), self._wanted(output_names)

        def work() -> None:
            try:
                results, error = self._compute(feeds, names, None, run_options), ""
            except Exception as cause:  # noqa: BLE001 # the callback is the only one to tell
                results, error = [], str(cause) or type(cause).__name__
            callback(results, user_data, error)

        threading.Thread(target=work, name="onnxgen-run-async", daemon=True).start()

    def get_inputs(self) -> list[NodeArg]:
        """What must be fed, in the model's order."""
        return [node_arg(value.name, value.type) for value in self._executable.inputs]

    def get_outputs(self) -> list[NodeArg]:
        """What can be asked for, in the model's order."""
        return [node_arg(value.name, value.type) for value in self._executable.outputs]

    def get_overridable_initializers(self) -> list[NodeArg]:
        """What may be fed: initializers that are inputs as well, since IR version 4."""
        return [node_arg(value.name, value.type) for value in self._executable.overridable]

    def get_modelmeta(self) -> ModelMetadata:
        """What the file says of itself."""
        return self._metadata

    def get_session_options(self) -> SessionOptions:
        """The options that the session was made with."""
        return self._options

    def get_providers(self) -> list[str]:
        """Names of its execution providers, in the order of preference."""
        return [provider.name for provider in self._providers]

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """Options by provider, for those given by name."""
        return {name: dict(self._provider_options.get(name, {})) for name in self.get_providers()}

    def io_binding(self) -> IOBinding:
        """An `IOBinding` for this session."""
        return IOBinding(self._feeds, self._output_types)

    def get_profiling_start_time_ns(self) -> int:
        """When the profile began, in nanoseconds since 1970; 0 without profiling."""
        return self._profile.start_ns

    def end_profiling(self) -> str:
        """Write the profile and stop profiling.

        Returns:
            Path of the file, which Perfetto and ``chrome://tracing`` open; empty without profiling.

        Raises:
            OSError: it cannot be written.
        """
        return self._profile.end()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a session cannot be pickled or copied; make one from the model in each process")

    def _compute(
        self,
        feeds: Mapping[str, Any],
        names: Sequence[str] | None,
        buffers: Mapping[str, np.ndarray] | None,
        options: RunOptions | None,
    ) -> list[Any]:
        should_stop = None if options is None else _stop(options)
        if self._log.wanted(logging.DEBUG, options):
            self._log.say(
                logging.DEBUG, "runs for %s", ", ".join(names or self._output_types), run_options=options
            )
        run, trace = self._executable.run, self._profile.tracer
        if not self._most_threads:
            return run(feeds, names, outputs=buffers, should_stop=should_stop, trace=trace)
        with limited_threads(self._most_threads):
            return run(feeds, names, outputs=buffers, should_stop=should_stop, trace=trace)

    def _wanted(self, output_names: Iterable[Any] | None) -> Sequence[str] | None:
        """Checked names; None for all."""
        if output_names is None:
            return None
        if isinstance(output_names, str):
            raise FeedError(
                f"output names are a list, found the text {output_names!r}; write [{output_names!r}]"
            )
        names = list(output_names)
        for name in names:
            if not isinstance(name, str) or name not in self._output_types:
                known = ", ".join(map(repr, self._output_types))
                hint = did_you_mean(str(name), self._output_types)
                raise FeedError(f"the model has no output {name!r}{hint}; its outputs are {known}")
        return names or None


def _stop(options: Any) -> Callable[[], bool]:
    if not isinstance(options, RunOptions):
        raise ConfigError(f"run_options is a RunOptions, found {type(options).__name__}")
    return options.reader("terminate")


def _mapping(feeds: Any) -> Mapping[str, Any]:
    if type(feeds) is not dict and not isinstance(feeds, Mapping):
        raise FeedError(f"feeds are a dictionary from input names to values, found {type(feeds).__name__}")
    return feeds


def _one_of(first: SessionOptions | None, second: SessionOptions | None) -> SessionOptions:
    if first is not None and second is not None:
        raise ConfigError(
            "sess_options and session_options are two spellings of one argument; give one of them"
        )
    options: Any = first if first is not None else second
    if options is None:
        return SessionOptions()
    if not isinstance(options, SessionOptions):
        raise ConfigError(f"session options are a SessionOptions, found {type(options).__name__}")
    return options
