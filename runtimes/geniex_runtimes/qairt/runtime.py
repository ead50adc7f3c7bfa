"""The runtime `qairt`: compiled bundles on a Snapdragon's NPU, or on its simulator."""

import logging
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from geniex_catalogue.errors import GenieXError, UsageError
from geniex_catalogue.extras import install
from geniex_catalogue.resolver import ResolvedModel
from geniex_runtimes.contract import Availability, Device, ModelInfo
from geniex_runtimes.errors import RuntimeNotInstalledError
from geniex_runtimes.options import LoadOptions
from geniex_runtimes.qairt.bundle import Bundle, read_bundle
from geniex_runtimes.qairt.device import QairtDevice, installed_libraries, this_device
from geniex_runtimes.qairt.engine import EngineMissingError
from geniex_runtimes.qairt.foreman import Foreman, Job
from geniex_runtimes.qairt.loaded import QairtModel, with_defaults
from geniex_runtimes.qairt.native import library_name
from geniex_runtimes.qairt.protocol import Loaded
from geniex_runtimes.qairt.verification import verify
from geniex_runtimes.qairt.vocabulary import Vocabulary

log = logging.getLogger("geniex.qairt")

_NEEDED = ("QnnHtp", "QnnSystem")
_GENIE = "Genie"
# QnnSystem of the simulator stands on it, and no wheel brings it
_ATOMIC = "libatomic.so.1"
_LIBRARY_FOLDERS = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib")


class QairtRuntime:
    """Bundles, each in a worker process of its own."""

    name = "qairt"
    formats = frozenset({"qairt"})

    def availability(self) -> Availability:
        """Whether Qualcomm's libraries are here; none of them is loaded."""
        if sys.platform == "darwin":
            return Availability(False, reason="Qualcomm's libraries do not exist for macOS")
        try:
            libraries, version = installed_libraries()
        except RuntimeNotInstalledError as exc:
            return Availability(False, reason=exc.message, hint=exc.hint)
        missing = [name for name in map(library_name, _NEEDED) if not (libraries / name).is_file()]
        if missing:
            return Availability(
                False,
                reason=f"the package `onnxruntime-qnn` lacks {', '.join(missing)}",
                hint=install("qairt", again=True),
            )
        if not _has_atomic():
            return Availability(
                False,
                reason=f"Qualcomm's libraries need `{_ATOMIC}`, which is not installed",
                hint="install it: `apt install libatomic1`, or `dnf install libatomic`",
            )
        return Availability(True, version=version, detail=f"libraries in {libraries}")

    def devices(self) -> tuple[Device, ...]:
        """The NPU of a Snapdragon, or the simulator of one; empty where there is neither."""
        if not self.availability().available:
            return ()
        try:
            device = this_device()
        except (GenieXError, OSError) as exc:
            log.warning("the devices of qairt cannot be told: %s", exc)
            return ()
        if not device.present:
            return ()
        return (Device(device.name, device.text, "npu", self.name),)

    def load(
        self,
        model: ResolvedModel,
        options: LoadOptions,
        *,
        progress: Callable[[float], bool] | None = None,
    ) -> QairtModel:
        """Check a bundle, and load it in a worker.

        Raises BundleError and BundleTargetError before anything of it is loaded, LoadError where
        that fails, RuntimeNotInstalledError.
        """
        if options.embedding:
            raise UsageError(f"`{model.name}` is a bundle, and bundles give no embeddings")
        if options.sliding_window and options.qairt_engine == "genie":
            raise UsageError(
                "`--sliding-window` is not supported by the engine genie",
                hint="choose `--qairt-engine ort`, or leave one of the two out",
            )
        found = self.availability()
        if not found.available:
            raise RuntimeNotInstalledError(f"qairt: {found.reason}", hint=found.hint)
        device = this_device()
        bundle = read_bundle(model.path)
        verify(bundle, device)
        vocabulary = Vocabulary(bundle.tokenizer, bundle.vocab_size, bundle.bos_id)
        foreman, loaded, warnings = _started(model.name, bundle, device, options, progress)
        return QairtModel(_info(model.name, bundle, device, loaded, warnings), vocabulary, foreman)


def _started(
    name: str,
    bundle: Bundle,
    device: QairtDevice,
    options: LoadOptions,
    progress: Callable[[float], bool] | None,
) -> tuple[Foreman, Loaded, tuple[str, ...]]:
    """A worker with the engine that was asked for, or ort where genie cannot do it."""
    asked, slides = options.qairt_engine, options.sliding_window
    job = Job(name, bundle.folder.absolute(), asked or "genie", bundle.size, slides)
    problem = _problem(device) if job.engine == "genie" else None
    if asked is None and problem is None and slides:
        problem = "libGenie has no sliding window"
    if problem is None:
        try:
            foreman = Foreman(job)
            return foreman, foreman.start(progress), ()
        except EngineMissingError as exc:
            problem = str(exc)
    if asked is not None:
        raise _unusable(f"the engine {asked} cannot be used: {problem}")
    warning = f"{problem}; using the engine ort"
    log.warning("%s: %s", name, warning)
    foreman = Foreman(replace(job, engine="ort"))
    try:
        return foreman, foreman.start(progress), (warning,)
    except EngineMissingError as exc:
        raise _unusable(f"no engine can be used: {problem}; {exc}") from exc


def _problem(device: QairtDevice) -> str | None:
    """Why the engine genie cannot be used."""
    library = library_name(_GENIE)
    there = (device.libraries / library).is_file()
    return None if there else f"{library} is not in the installed onnxruntime-qnn"


def _unusable(message: str) -> RuntimeNotInstalledError:
    return RuntimeNotInstalledError(message, hint=install("qairt", again=True))


def _info(
    name: str, bundle: Bundle, device: QairtDevice, loaded: Loaded, warnings: tuple[str, ...]
) -> ModelInfo:
    return ModelInfo(
        name=name,
        runtime=QairtRuntime.name,
        compute="npu",
        devices=(device.name,),
        context_length=loaded.context_length,
        slots=1,
        chat_template=bundle.chat_template,
        bos_token=bundle.bos_token,
        eos_token=bundle.eos_token,
        control_tokens=bundle.control_tokens,
        end_tokens=bundle.end_tokens,
        sampling_defaults=with_defaults(bundle.sampling, bundle.sampling),
        warnings=warnings,
        vocab_size=loaded.vocab_size,
        training_context=bundle.context_length,
    )


def _has_atomic() -> bool:
    """Whether the loader will find it, on the one system where that is in doubt."""
    if sys.platform != "linux":
        return True
    places = (Path(folder) for folder in _LIBRARY_FOLDERS)
    return any(
        (place / _ATOMIC).exists() or any(place.glob(f"*/{_ATOMIC}"))
        for place in places
        if place.is_dir()
    )
