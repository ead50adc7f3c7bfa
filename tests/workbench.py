"""A double of the AI Hub's compilers, with the names and parameters of `qai_hub.Client`."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


class Error(Exception):
    """The base of what `qai_hub` raises."""


class UserError(Error):
    """As `qai_hub.UserError`."""


class InternalError(Error):
    """As `qai_hub.InternalError`."""


class RateLimitedError(Error):
    """As `qai_hub.client.RateLimitedError`."""


class APIException(Exception):
    """As `qai_hub.public_rest_api.APIException`."""

    def __init__(self, message: str, status_code: int) -> None:
        super().__init__(message)
        self.status_code = status_code


@dataclass
class Device:
    """A device that is hosted."""

    name: str
    attributes: list[str]


@dataclass
class JobStatus:
    """How far a job is."""

    code: str
    message: str | None = None

    @property
    def finished(self) -> bool:
        return self.code in ("SUCCESS", "FAILED")

    @property
    def success(self) -> bool:
        return self.code == "SUCCESS"


@dataclass
class Model:
    """An uploaded or a compiled model."""

    model_id: str
    name: str
    content: bytes

    def download(self, filename: str, timeout: int | None = None) -> str:
        """Write it; the client adds an ending of its own where there is none."""
        place = filename if Path(filename).suffix else f"{filename}.bin"
        Path(place).write_bytes(self.content)
        print(f"Downloaded model to {place}")  # noqa: T201  (as the real one does)
        return place


@dataclass
class Job:
    """A job; each look at it brings it one of its `codes` further."""

    job_id: str
    name: str
    options: str
    models: list[Model]
    codes: list[str]
    message: str | None = None
    target: Model | None = None

    @property
    def url(self) -> str:
        return f"https://workbench.example/jobs/{self.job_id}/"

    def get_status(self) -> JobStatus:
        code = self.codes.pop(0) if len(self.codes) > 1 else self.codes[0]
        return JobStatus(code, self.message if code == "FAILED" else None)

    def get_target_model(self) -> Model | None:
        return self.target


@dataclass
class FakeClient:
    """The service, as its client shows it.

    `faults` are raised by the next calls of that name; None lets one through. `fail` are names of
    jobs that end badly; `calls` are the names of all calls.
    """

    devices: list[Device] = field(default_factory=list)
    models: dict[str, Model] = field(default_factory=dict)
    jobs: dict[str, Job] = field(default_factory=dict)
    faults: dict[str, list[BaseException | None]] = field(default_factory=dict)
    fail: set[str] = field(default_factory=set)
    calls: list[str] = field(default_factory=list)
    verbose: bool = True

    def _called(self, name: str) -> None:
        self.calls.append(name)
        fault = self.faults[name].pop(0) if self.faults.get(name) else None
        if fault is not None:
            raise fault

    def set_verbose(self, verbose: bool = True) -> None:
        self.verbose = verbose

    def get_devices(
        self, name: str = "", os: str = "", attributes: str | list[str] | None = None
    ) -> list[Device]:
        self._called("get_devices")
        wanted = [attributes] if isinstance(attributes, str) else attributes or []
        return [d for d in self.devices if all(a in d.attributes for a in wanted)]

    def upload_model(
        self, model: Any, name: str | None = None, project: str | None = None
    ) -> Model:
        self._called("upload_model")
        path = Path(model)
        files = sorted(path.iterdir()) if path.is_dir() else [path]
        content = b"".join(file.read_bytes() for file in files)
        made = Model(f"m{len(self.models)}", name or path.name, content)
        self.models[made.model_id] = made
        return made

    def get_model(self, model_id: str) -> Model:
        self._called("get_model")
        if model_id not in self.models:
            raise UserError(f"Model ID '{model_id}' could not be found.")
        return self.models[model_id]

    def submit_compile_job(
        self,
        model: Model,
        device: Device,
        name: str | None = None,
        input_specs: Any = None,
        options: str = "",
        single_compile: bool = True,
        calibration_data: Any = None,
        retry: bool = True,
        project: str | None = None,
    ) -> Job:
        self._called("submit_compile_job")
        return self._submit(name or "", options, [model], b"dlc:", "OPTIMIZING_MODEL")

    def submit_link_job(
        self,
        models: Sequence[Model],
        device: Device,
        name: str | None = None,
        options: str = "",
        project: str | None = None,
    ) -> Job:
        self._called("submit_link_job")
        return self._submit(name or "", options, list(models), b"bin:", "LINKING_MODELS")

    def _submit(self, name: str, options: str, models: list[Model], kind: bytes, at: str) -> Job:
        made = Model(f"t{len(self.jobs)}", name, kind + b"+".join(m.content for m in models))
        end = "FAILED" if name in self.fail else "SUCCESS"
        job = Job(f"j{len(self.jobs)}", name, options, models, ["CREATED", at, end], "bad op", made)
        self.jobs[job.job_id] = job
        return job

    def get_job(self, job_id: str, job_type: Any = None) -> Job:
        self._called("get_job")
        if job_id not in self.jobs:
            raise UserError(f"Job ID '{job_id}' could not be found.")
        return self.jobs[job_id]
