"""Whether a stored model's bytes are what its hub said: every file read again."""

from collections.abc import Callable
from dataclasses import dataclass

from geniex_catalogue.hashing import sha256_of
from geniex_catalogue.manifest import FileRecord
from geniex_catalogue.stored import StoredModel, problem


@dataclass(frozen=True, slots=True)
class Fault:
    """A file that is not what it should be, and why; no `record` where there is no manifest."""

    reason: str
    record: FileRecord | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """What a check has found.

    `hashed` files were compared with the sha256 that is known of them, `sized` ones only with
    their size: nothing else is known of files of this machine. `partial` precisions were begun
    and not ended, which is no fault.
    """

    model: StoredModel
    hashed: tuple[str, ...] = ()
    sized: tuple[str, ...] = ()
    faults: tuple[Fault, ...] = ()

    @property
    def status(self) -> str:
        """`ok`, `partial` or `damaged`."""
        if self.faults:
            return "damaged"
        return "ok" if self.model.precisions else "partial"


def check(model: StoredModel, progress: Callable[[str, int], None] | None = None) -> Report:
    """Read all files of a model; never an error for what is in them.

    `progress` is told the file and the bytes just read.
    """
    if model.manifest is None:
        damaged = model.status != "partial"
        return Report(model, faults=(Fault(model.reason or "it is damaged"),) if damaged else ())
    hashed: list[str] = []
    sized: list[str] = []
    faults: list[Fault] = []
    for record in model.manifest.files():
        if not record.downloaded:
            continue
        text = problem(model.folder, record)
        if text is None and record.sha256 is not None:
            text = _wrong_hash(model, record, progress)
        if text is not None:
            faults.append(Fault(text, record))
        else:
            (sized if record.sha256 is None else hashed).append(record.name)
    if not model.manifest.models:
        faults.append(Fault("it has no model file"))
    return Report(model, tuple(hashed), tuple(sized), tuple(faults))


def _wrong_hash(
    model: StoredModel, record: FileRecord, progress: Callable[[str, int], None] | None
) -> str | None:
    """What is wrong with a file's content, by its known sha256."""

    def advance(count: int) -> None:
        if progress is not None:
            progress(record.name, count)

    try:
        found = sha256_of(model.path(record), advance)
    except OSError as exc:
        return f"`{record.name}` cannot be read: {exc.strerror or exc}"
    known = (record.sha256 or "").lower()
    if found == known:
        return None
    return f"`{record.name}` has the sha256 {found}, {known} expected"
