"""The AI Hub's compilers, through the client `qai-hub`: the little of it that an export takes."""

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from geniex_catalogue.errors import (
    ChipsetError,
    GenieXError,
    HubAuthError,
    HubError,
    HubNotFoundError,
    HubOfflineError,
    HubRateLimitError,
    StoreError,
)
from geniex_catalogue.extras import install

_TOKEN_HINT = (
    "sign in at https://aihub.qualcomm.com, copy the API token from the settings of your account, "
    "then `qai-hub configure --api_token TOKEN`"
)
# the client draws boxes around some of what it says
_FRAME = re.compile("[\u2500-\u257f|]+")
# what the service says of a client that may not do what it asks
_NO_TOKEN = ("client configuration", "api token", "authentication", "client.ini")


class Client(Protocol):
    """What is used of `qai_hub.Client`, with its own names and parameters."""

    def set_verbose(self, verbose: bool = True) -> None:
        """Whether it shows how far an upload or a download is."""
        ...

    def get_devices(self, name: str = "", os: str = "", attributes: Any = None) -> Sequence[Any]:
        """Devices; `attributes` such as `chipset:qualcomm-snapdragon-x-elite`."""
        ...

    def upload_model(self, model: Any, name: str | None = None) -> Any:
        """Upload a file or folder; gives a model with `model_id`."""
        ...

    def get_model(self, model_id: str) -> Any:
        """A model that was uploaded."""
        ...

    def submit_compile_job(
        self, model: Any, device: Any, name: str | None = None, *, options: str = ""
    ) -> Any:
        """Start to compile; gives a job with `job_id` and `url`."""
        ...

    def submit_link_job(
        self, models: Any, device: Any, name: str | None = None, options: str = ""
    ) -> Any:
        """Start to link compiled models into one context binary."""
        ...

    def get_job(self, job_id: str) -> Any:
        """A job, with `get_status()` and `get_target_model()`."""
        ...


@dataclass(frozen=True, slots=True)
class JobState:
    """How far a job is; `code` is the service's word, `message` says why it failed."""

    code: str
    finished: bool
    success: bool
    message: str
    url: str


class Workbench:
    """Uploads, compiles, links and downloads. Every call raises HubError (HubAuthError ...).

    With `progress`, the client shows on stderr how far uploads and downloads are.
    """

    def __init__(self, client: Client, *, progress: bool = False) -> None:
        self._client = client
        self._progress = progress

    def device(self, chipset: str) -> Any:
        """A device with a chipset, to compile for. Raises ChipsetError where there is none."""
        with translated():
            found = self._client.get_devices(attributes=f"chipset:{chipset}")
        if not found:
            raise ChipsetError(
                f"the AI Hub has no device with the chipset `{chipset}` to compile for",
                hint="`qai-hub list-devices` shows what it has",
            )
        return found[-1]

    def upload(self, path: Path, name: str) -> str:
        """Upload a graph; the answer is its id."""
        with translated(), self._shown():
            return str(self._client.upload_model(str(path), name=name).model_id)

    def compile(self, model: str, device: Any, name: str, options: str) -> str:
        """Start to compile an uploaded graph; the answer is the id of the job."""
        with translated():
            source = self._client.get_model(model)
            job = self._client.submit_compile_job(source, device, name=name, options=options)
            return str(job.job_id)

    def link(self, jobs: Sequence[str], device: Any, name: str, options: str) -> str:
        """Start to link what jobs have compiled; the answer is the id of the job."""
        with translated():
            models = [self._client.get_job(job).get_target_model() for job in jobs]
            return str(
                self._client.submit_link_job(models, device, name=name, options=options).job_id
            )

    def state(self, job: str) -> JobState:
        """How far a job is."""
        with translated():
            found = self._client.get_job(job)
            status = found.get_status()
            return JobState(
                str(status.code),
                bool(status.finished),
                bool(status.success),
                str(status.message or ""),
                str(found.url),
            )

    def download(self, job: str, target: Path) -> None:
        """Bring what a job has made to a file. Raises StoreError where it is not there then."""
        with translated(), self._shown():
            model = self._client.get_job(job).get_target_model()
            if model is None:
                raise HubError(f"the job `{job}` has made nothing")
            place = Path(str(model.download(str(target))))
        try:
            # the client may add an ending of its own
            place.replace(target)
        except OSError as exc:
            raise StoreError(f"`{target}` was not written: {exc.strerror or exc}") from exc

    @contextmanager
    def _shown(self) -> Iterator[None]:
        self._client.set_verbose(self._progress)
        try:
            yield
        finally:
            self._client.set_verbose(False)


def connect(*, progress: bool = False) -> Workbench:
    """The AI Hub, with the user's token. Raises HubError where the client is not installed,
    HubAuthError where there is no token."""
    try:
        import qai_hub
    except ImportError as exc:
        raise HubError(
            "exporting takes the package `qai-hub`, which is not installed",
            hint=install("aihub"),
        ) from exc
    with translated():
        client = qai_hub.Client()
        # asks for the token, which is read late
        client.set_verbose(False)
    return Workbench(client, progress=progress)


@contextmanager
def translated() -> Iterator[None]:
    """Turn what the client raises into our errors, and what it prints to stderr."""
    try:
        # it tells what it does on stdout, which is for data
        with redirect_stdout(sys.stderr):
            yield
    except GenieXError:
        raise
    except Exception as exc:
        raise _meaning(exc) from exc


def _meaning(exc: Exception) -> GenieXError:
    """What an error of the client means, by the names of its classes."""
    kinds = {kind.__name__ for kind in type(exc).__mro__}
    status = getattr(exc, "status_code", None)
    said = " ".join(_FRAME.sub(" ", str(exc)).split()) or type(exc).__name__
    if "RateLimitedError" in kinds or status == 429:
        return HubRateLimitError(f"the AI Hub asks to slow down: {said}", hint="try again later")
    if status in (401, 403) or (
        "UserError" in kinds and any(word in said.lower() for word in _NO_TOKEN)
    ):
        return HubAuthError(f"the AI Hub does not know you: {said}", hint=_TOKEN_HINT)
    if status == 404 or "could not be found" in said:
        return HubNotFoundError(f"the AI Hub has no such thing: {said}")
    if status == 413:
        return HubError(f"too large for the AI Hub: {said}", hint="split it into more parts")
    if status == 426:
        return HubError(f"this `qai-hub` is too old: {said}", hint="pip install -U qai-hub")
    broken = kinds & {"RequestException", "TimeoutError", "ConnectionError"}
    if broken or ("InternalError" in kinds and ("connect" in said or "imeout" in said)):
        return HubOfflineError(f"the AI Hub cannot be reached: {said}")
    if "InternalError" in kinds or (isinstance(status, int) and status >= 500):
        return HubError(f"the AI Hub has failed: {said}", hint="run the same command again later")
    if "UserError" in kinds or "APIException" in kinds:
        return HubError(f"the AI Hub refuses this: {said}")
    return HubError(f"the client of the AI Hub has failed: {type(exc).__name__}: {said}")
