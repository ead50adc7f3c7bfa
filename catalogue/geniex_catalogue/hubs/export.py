"""Exporting a model with the AI Hub's compilers: uploaded, compiled, linked, downloaded.

Every step that was done is kept in a file by the id that the AI Hub gave it, so that the same
command goes on where it was stopped; jobs that run there go on meanwhile.
"""

import hashlib
import json
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from geniex_catalogue import durable
from geniex_catalogue.errors import HubError, HubNotFoundError, StoreError, UsageError
from geniex_catalogue.hubs.chipsets import KnownChipset
from geniex_catalogue.hubs.export_source import (
    EXTENSIONS,
    ExportSource,
    Graph,
    ModelPart,
    read_settings_of_npu,
)
from geniex_catalogue.hubs.workbench import JobState, Workbench
from geniex_catalogue.regular import read_regular
from geniex_catalogue.sizes import size_text

POLL = 15.0  # seconds between two looks at the jobs
_COMPILE = "--target_runtime qnn_dlc --qnn_options context_enable_graphs={graph}"
_STEPS = ("uploads", "compiled", "linked", "downloaded")
_MAX_STATE = 1 << 20

Tell = Callable[[str], None]


@dataclass
class ExportState:
    """What of an export is done: uploaded graphs, and jobs, by the ids that the AI Hub gave.

    `uploads` is keyed by the graphs' fingerprints; `compiled` by graph, `linked` by part, each with
    what it was made of. `downloaded` says for each context binary which link it is of.
    """

    path: Path
    uploads: dict[str, str] = field(default_factory=dict)
    compiled: dict[str, str] = field(default_factory=dict)
    linked: dict[str, str] = field(default_factory=dict)
    downloaded: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, data_dir: Path, source: ExportSource, chipset: str, options: str) -> "ExportState":
        """What was done before of this folder, for this chipset and with these options."""
        key = f"{source.folder.resolve()}\n{chipset}\n{options}"
        name = hashlib.sha256(key.encode(errors="surrogateescape")).hexdigest()[:16]
        state = cls(data_dir / "exports" / f"{name}.json")
        try:
            kept = json.loads(read_regular(state.path, _MAX_STATE))
        except (OSError, ValueError, RecursionError):
            return state
        for step in _STEPS:
            entries = kept.get(step) if isinstance(kept, dict) else None
            if isinstance(entries, dict):
                texts = {key: value for key, value in entries.items() if isinstance(value, str)}
                getattr(state, step).update(texts)
        return state

    def save(self) -> None:
        """Keep it. Raises StoreError."""
        steps = {step: getattr(self, step) for step in _STEPS}
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            durable.write(self.path, json.dumps(steps, indent=2).encode())
        except OSError as exc:
            raise StoreError(f"`{self.path}` cannot be written: {exc.strerror or exc}") from exc

    def forget(self) -> None:
        """The export is done: nothing is left to go on with."""
        self.path.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class ExportWish:
    """How to export: further options of the compiler and linker, as the AI Hub documents them."""

    compile_options: str = ""
    link_options: str = ""
    poll: float = field(default_factory=lambda: POLL)


def export(
    source: ExportSource,
    chipset: KnownChipset,
    target: Path,
    workbench: Workbench,
    data_dir: Path,
    wish: ExportWish,
    tell: Tell,
) -> Path:
    """Make a bundle for a chipset at `target`, a folder that is not there yet.

    `tell` is told each step. KeyboardInterrupt leaves the jobs running. Raises UsageError, a
    HubError, and StoreError.
    """
    if target.exists():
        raise UsageError(f"`{target}` is there already", hint="name another with `--output`")
    options = f"{wish.compile_options}\n{wish.link_options}"
    state = ExportState.of(data_dir, source, chipset.name, options)
    return _Export(source, chipset, target, workbench, state, wish, tell).run()


class _Export:
    """One export on its way."""

    def __init__(
        self,
        source: ExportSource,
        chipset: KnownChipset,
        target: Path,
        workbench: Workbench,
        state: ExportState,
        wish: ExportWish,
        tell: Tell,
    ) -> None:
        self._source = source
        self._chipset = chipset
        self._target = target
        self._workbench = workbench
        self._state = state
        self._wish = wish
        self._tell = tell
        self._device: Any = None

    def run(self) -> Path:
        self._device = self._workbench.device(self._chipset.name)
        for graph in self._source.graphs:
            self._compile(graph)
        compiled = {graph.name: self._job_of(graph) for graph in self._source.graphs}
        self._wait(compiled, self._state.compiled, "compile")
        for part in self._source.parts:
            self._link(part)
        linked = {part.binary: self._link_key(part) for part in self._source.parts}
        self._wait(linked, self._state.linked, "link")
        return self._assemble()

    def _compile(self, graph: Graph) -> None:
        """Have a job that compiles a graph, its upload before it."""
        key = self._job_of(graph)
        if self._is_known(self._state.compiled, key):
            self._tell(f"{graph.name}: compiled before, or on its way")
            return
        options = f"{_COMPILE.format(graph=graph.name)} {self._wish.compile_options}".strip()
        kept = graph.fingerprint in self._state.uploads
        try:
            job = self._workbench.compile(self._model(graph), self._device, graph.name, options)
        except HubNotFoundError:
            if not kept:
                raise
            # uploads do not stay for ever
            del self._state.uploads[graph.fingerprint]
            job = self._workbench.compile(self._model(graph), self._device, graph.name, options)
        self._state.compiled[key] = job
        self._state.save()
        self._tell(f"{graph.name}: job {job} compiles it")

    def _model(self, graph: Graph) -> str:
        """The id of an uploaded graph, which is uploaded where it is not."""
        model = self._state.uploads.get(graph.fingerprint)
        if model is None:
            self._tell(f"{graph.name}: uploading {size_text(graph.size)}")
            model = self._workbench.upload(graph.path, graph.name)
            self._state.uploads[graph.fingerprint] = model
            self._state.save()
        return model

    def _link(self, part: ModelPart) -> None:
        """Have a job that links the graphs of a part, so that they share their weights."""
        key = self._link_key(part)
        if self._is_known(self._state.linked, key):
            self._tell(f"{part.binary}: linked before, or on its way")
            return
        jobs = [self._state.compiled[self._job_of(graph)] for graph in part.graphs]
        name = part.binary.removesuffix(".bin")
        job = self._workbench.link(jobs, self._device, name, self._wish.link_options)
        self._state.linked[key] = job
        self._state.save()
        self._tell(f"{part.binary}: job {job} links it")

    def _job_of(self, graph: Graph) -> str:
        return hashlib.sha256(f"{graph.name}\n{graph.fingerprint}".encode()).hexdigest()[:24]

    def _link_key(self, part: ModelPart) -> str:
        jobs = [self._state.compiled.get(self._job_of(graph), "") for graph in part.graphs]
        return f"{part.binary}:{'+'.join(jobs)}"

    def _is_known(self, jobs: dict[str, str], key: str) -> bool:
        """Whether a kept job is one that the AI Hub still has, and has not failed."""
        job = jobs.get(key)
        if job is None:
            return False
        try:
            state = self._workbench.state(job)
        except HubNotFoundError:
            state = None
        if state is None or (state.finished and not state.success):
            del jobs[key]
            self._state.save()
            return False
        return True

    def _wait(self, keys: dict[str, str], jobs: dict[str, str], what: str) -> None:
        """Wait for jobs, telling when something changes. Raises HubError for one that failed."""
        seen: dict[str, str] = {}
        left = dict(keys)
        while left:
            for name, key in list(left.items()):
                state = self._workbench.state(jobs[key])
                if seen.get(name) != state.code:
                    seen[name] = state.code
                    self._tell(f"{name}: {state.code.lower().replace('_', ' ')}")
                if state.finished:
                    self._require_success(name, state, what)
                    del left[name]
            if left:
                time.sleep(self._wish.poll)

    def _require_success(self, name: str, state: JobState, what: str) -> None:
        if not state.success:
            raise HubError(
                f"the AI Hub could not {what} `{name}`: {state.message or state.code}",
                hint=f"its log: {state.url}; the same command tries it again",
            )

    def _assemble(self) -> Path:
        """Download the context binaries and put the bundle's other files beside them."""
        partial = self._target.with_name(f"{self._target.name}.partial")
        try:
            partial.mkdir(parents=True, exist_ok=True)
            for part in self._source.parts:
                self._download(part, partial / part.binary)
            for name in self._source.others:
                shutil.copyfile(self._source.folder / name, partial / name)
            _aim(partial / EXTENSIONS, self._chipset)
            partial.replace(self._target)
        except OSError as exc:
            raise StoreError(f"`{partial}` cannot be written: {exc.strerror or exc}") from exc
        self._state.forget()
        return self._target

    def _download(self, part: ModelPart, target: Path) -> None:
        key = self._link_key(part)
        if target.exists() and self._state.downloaded.get(part.binary) == key:
            self._tell(f"{part.binary}: here already")
            return
        self._tell(f"{part.binary}: downloading")
        arriving = target.with_name(f".{target.name}")
        self._workbench.download(self._state.linked[key], arriving)
        if arriving.stat().st_size == 0:
            raise HubError(f"the AI Hub sent an empty `{part.binary}`")
        arriving.replace(target)
        self._state.downloaded[part.binary] = key
        self._state.save()


def _aim(path: Path, chipset: KnownChipset) -> None:
    """Have the settings of the NPU name the chipset that the bundle is for."""
    if not path.exists():
        return
    settings = read_settings_of_npu(path)
    for device in settings["devices"]:
        if chipset.soc is not None:
            device["soc_model"] = chipset.soc
        if chipset.htp_arch is not None:
            device["dsp_arch"] = f"v{chipset.htp_arch}"
    path.write_text(json.dumps(settings, indent=2), "utf-8")
