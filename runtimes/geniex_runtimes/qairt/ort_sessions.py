"""Graphs of context binaries in onnxruntime, run by its QNN execution provider and nothing else."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy.typing as npt

from geniex_runtimes.qairt.bundle_paths import unloadable
from geniex_runtimes.qairt.engine import EngineError, EngineMissingError
from geniex_runtimes.qairt.inspection import GraphFacts
from geniex_runtimes.qairt.wrapper import ElementError, wrap

PROVIDER = "QNNExecutionProvider"
_QUIET = 3  # onnxruntime's severity: errors alone
Values = Mapping[str, npt.NDArray[Any]]


class QnnSessions:
    """A session for each graph, by the graph's name."""

    def __init__(self, shards: Sequence[tuple[Path, Sequence[GraphFacts]]]) -> None:
        """Load the graphs of context binaries.

        Raises BundleError for one that does not load, EngineError, EngineMissingError.
        """
        self._sessions: dict[str, Any] = {}
        devices = _devices()
        for binary, graphs in shards:
            for graph in graphs:
                if graph.name in self._sessions:
                    raise EngineError(f"two graphs of the bundle are called `{graph.name}`")
                self._sessions[graph.name] = _session(binary, graph, len(graphs) > 1, devices)

    def run(self, graph: GraphFacts, values: Values) -> dict[str, npt.NDArray[Any]]:
        """All outputs of a graph. Raises EngineError."""
        names = [one.name for one in graph.outputs]
        fed = {one.name: values[one.name] for one in graph.inputs}
        try:
            given = self._sessions[graph.name].run(names, fed)
        except Exception as exc:
            # onnxruntime's own classes have no base but this
            raise EngineError(f"the graph `{graph.name}` failed: {_first_line(exc)}") from exc
        return dict(zip(names, given, strict=True))

    def close(self) -> None:
        """Free all sessions."""
        self._sessions.clear()


def _devices() -> list[Any]:
    """The one device to run on: the NPU; on x86 the simulator, which calls itself a CPU."""
    try:
        import onnxruntime
        import onnxruntime_qnn
    except (ImportError, OSError) as exc:
        raise EngineMissingError(f"onnxruntime-qnn does not load: {exc}") from exc
    found = [one for one in onnxruntime.get_ep_devices() if one.ep_name == PROVIDER]
    if not found:
        try:
            onnxruntime.set_default_logger_severity(_QUIET)
            onnxruntime.register_execution_provider_library(
                PROVIDER, onnxruntime_qnn.get_library_path()
            )
        except Exception as exc:
            raise EngineMissingError(f"the QNN provider does not load: {_first_line(exc)}") from exc
        found = [one for one in onnxruntime.get_ep_devices() if one.ep_name == PROVIDER]
    npu = onnxruntime.OrtHardwareDeviceType.NPU
    found.sort(key=lambda one: one.device.type != npu)
    if not found:
        raise EngineMissingError("the QNN provider finds no device")
    return found[:1]


def _session(binary: Path, graph: GraphFacts, shared: bool, devices: list[Any]) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = _QUIET
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    # the model is in memory: this is where its path to the binary begins
    options.add_session_config_entry("ep.context_file_path", str(binary.parent / "graph.onnx"))
    if shared:
        # the graphs of a binary are in memory once, and not for each session
        options.add_session_config_entry("ep.share_ep_contexts", "1")
    options.add_provider_for_devices(
        devices, {"backend_type": "htp", "htp_performance_mode": "burst"}
    )
    try:
        session = onnxruntime.InferenceSession(wrap(graph, binary.name), options)
    except ElementError as exc:
        raise EngineError(f"the graph `{graph.name}` cannot be run: {exc}") from exc
    except Exception as exc:
        raise unloadable([binary], f"onnxruntime ({_first_line(exc)})") from exc
    # or a failed run is tried again elsewhere
    session.disable_fallback()
    return session


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0][:300] or type(error).__name__
