"""Pulling a model: first the plan (what, how much, from where), then the bytes, then the store."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from geniex_catalogue import names, precision
from geniex_catalogue.entries import catalogue
from geniex_catalogue.errors import (
    DiskSpaceError,
    GGUFError,
    ModelNotFoundError,
    StoreError,
    UsageError,
)
from geniex_catalogue.fileset import ModelFile, Variant, set_problem
from geniex_catalogue.gguf import GGUFHeader, read_header
from geniex_catalogue.hubs.choice import check_name, choose
from geniex_catalogue.hubs.contract import Delivery, Hub, Listing, Machine, Progress
from geniex_catalogue.hubs.deliveries import delivery_for, fetches, is_here, whole
from geniex_catalogue.hubs.huggingface import HuggingFace
from geniex_catalogue.hubs.part import ENDING
from geniex_catalogue.hubs.transfer import Fetch, Fetched, fetch
from geniex_catalogue.manifest import INFLIGHT, FileRecord, Format, Manifest
from geniex_catalogue.model_lock import OnWait
from geniex_catalogue.names import ModelRef
from geniex_catalogue.store import Store
from geniex_catalogue.stored import StoredModel

# what the manifest and the lock may take besides the files
_MARGIN = 1 << 20


@dataclass(frozen=True, slots=True)
class PullPlan:
    """What a pull would do.

    `ref` names the precision that was chosen. `present` is the model where all of it is here
    already; then there is nothing to fetch. `total` is bytes of all files and `remaining` those
    still to come, None where the hub does not say; `free` is bytes of room at `target`. `header` is
    the first file's, as the hub has it. `delivery` is there where the hub chose by itself.
    """

    ref: ModelRef
    hub: str | None
    target: Path
    free: int
    revision: str | None = None
    fetches: tuple[Fetch, ...] = ()
    present: StoredModel | None = None
    header: GGUFHeader | None = field(default=None, repr=False, compare=False)
    delivery: Delivery | None = None

    @property
    def total(self) -> int | None:
        """Bytes of all files, or None if one is not known."""
        sizes = [job.size for job in self.fetches]
        return None if None in sizes else sum(size for size in sizes if size is not None)

    @property
    def format(self) -> Format:
        """What the files are."""
        return self.delivery.format if self.delivery else "gguf"

    @property
    def remaining(self) -> int | None:
        """Bytes still to come: what earlier tries have left is here."""
        return None if self.total is None else self.total - sum(map(_arrived, self.fetches))


def pull(
    ref: ModelRef,
    store: Store,
    *,
    revision: str | None = None,
    token: str | None = None,
    machine: Machine | None = None,
    progress: Progress | None = None,
) -> StoredModel:
    """Have a model in the store: `plan_pull`, then `execute`. Raises what they raise."""
    plan = plan_pull(ref, store, revision=revision, token=token, machine=machine)
    return execute(plan, store, progress)


def plan_pull(
    ref: ModelRef,
    store: Store,
    *,
    revision: str | None = None,
    token: str | None = None,
    machine: Machine | None = None,
) -> PullPlan:
    """Look at the hub and choose the files; a model that is here needs no hub at all.

    `revision` is a branch, tag or commit (None: the newest, unless the model is here); `machine` is
    for hubs that compile for one. Raises DiskSpaceError where the rest of the files has no room,
    HubError, TransferError, GGUFError for a file that is none, and the errors of `FileSet.choose`.
    """
    here = store.find(ref)
    if here is not None and revision is None and (label := _label_here(here, ref)):
        return _nothing_to_do(ref, label, here)
    delivery = delivery_for(ref, store, machine or Machine(), revision)
    if delivery is not None:
        return _plan_of(delivery, ref, store, here)
    hub = _hub_of(ref, token)
    listing = hub.list(ref, revision)
    label, variant = choose(hub, listing, ref)
    if here is not None and _same_bytes(here, label, variant):
        return _nothing_to_do(ref, label, here)
    target = store.folder(ref)
    jobs = tuple(_job(hub, listing, file, target) for file in variant.files)
    plan = PullPlan(
        _with_label(ref, label),
        hub.name,
        target,
        _free(target),
        listing.revision,
        jobs,
        header=variant.files[0].header,
    )
    _require_room(plan)
    return plan


def execute(
    plan: PullPlan,
    store: Store,
    progress: Progress | None = None,
    on_wait: OnWait | None = None,
) -> StoredModel:
    """Fetch the plan's files, check them, publish them; what an earlier try has left is used.

    KeyboardInterrupt and errors leave what has arrived for the next try. `on_wait` is told before
    waiting for another process. Raises DiskSpaceError, TransferError (ChecksumError), HubError,
    GGUFError, StoreError.
    """
    if plan.present is not None:
        return plan.present
    label = plan.ref.selector or precision.DEFAULT
    with store.lock(plan.ref, on_wait):
        here = store.find(plan.ref)
        if here is not None and _same_files(here, label, plan):
            # another process has fetched it while we waited
            return here
        _require_room(replace(plan, free=_free(plan.target)))
        store.stage(plan.ref, _manifest(plan, label, {}))
        try:
            arrived = fetch(plan.fetches, progress)
            if plan.delivery is not None:
                fetched = dict(whole(plan.delivery, arrived))
            else:
                fetched = {got.name: got for got in arrived}
            if plan.format == "gguf":
                _check_headers(plan.fetches)
        except BaseException:
            store.unstage(plan.ref)
            raise
        staged = {got.name: got.path for got in fetched.values()}
        return store.publish(plan.ref, _manifest(plan, label, fetched), staged)


def _hub_of(ref: ModelRef, token: str | None) -> Hub:
    """The hub that a name belongs to. Raises where it belongs to none that can be asked."""
    if ref.org == names.LOCAL_ORG:
        hint = f"import it with `geniex pull {ref.name} --local-path PATH`"
        raise ModelNotFoundError(str(ref), hint=hint)
    if catalogue().builtin_file(ref) is not None:
        raise UsageError(f"`{ref}` is built in, there is nothing to pull")
    return HuggingFace(token)


def _plan_of(delivery: Delivery, ref: ModelRef, store: Store, here: StoredModel | None) -> PullPlan:
    """The plan for what a hub has chosen by itself."""
    if here is not None and is_here(delivery, here):
        return _nothing_to_do(ref, delivery.label, here)
    target = store.folder(ref)
    plan = PullPlan(
        _with_label(ref, delivery.label),
        delivery.hub,
        target,
        _free(target),
        delivery.revision,
        fetches(delivery, target),
        delivery=delivery,
    )
    _require_room(plan)
    return plan


def _with_label(ref: ModelRef, label: str) -> ModelRef:
    if label.lower().endswith(".gguf"):
        return replace(ref, precision=None, file=label)
    return ref.with_precision(label)


def _label_here(model: StoredModel, ref: ModelRef) -> str | None:
    """The whole precision of a stored model that a name means, if there is one."""
    if ref.file is not None:
        holds = (
            label
            for label in model.precisions
            if ref.file in {record.name for record in model.records(label)}
        )
        return next(holds, None)
    if ref.precision is not None:
        return precision.find(ref.precision, model.precisions)
    return model.precisions[0] if model.precisions else None


def _same_bytes(model: StoredModel, label: str, variant: Variant) -> bool:
    """Whether a stored precision is the listed one, by the hashes of all its files."""
    if label not in model.precisions:
        return False
    here = {record.name: record.sha256 for record in model.records(label)}
    listed = {names.storable(file.name): file.sha256 for file in variant.files}
    return here == listed and None not in listed.values()


def _same_files(model: StoredModel, label: str, plan: PullPlan) -> bool:
    """Whether a stored precision is what was to be fetched."""
    if plan.delivery is not None:
        return is_here(plan.delivery, model)
    if label not in model.precisions:
        return False
    here = {record.name: record for record in model.records(label)}
    return {job.name for job in plan.fetches} == set(here) and all(
        job.sha256 in (None, here[job.name].sha256) for job in plan.fetches
    )


def _nothing_to_do(ref: ModelRef, label: str, here: StoredModel) -> PullPlan:
    found = _with_label(ref, label)
    return PullPlan(found, None, here.folder, _free(here.folder), present=here)


def _job(hub: Hub, listing: Listing, file: ModelFile, target: Path) -> Fetch:
    check_name(listing, file)
    folder = target / INFLIGHT
    name = names.storable(file.name)
    part = folder.joinpath(*name.split("/"))
    part = part.with_name(part.name + ENDING)
    return Fetch(name, hub.source(listing, file), part, file.size, file.sha256)


def _manifest(plan: PullPlan, label: str, fetched: Mapping[str, Fetched]) -> Manifest:
    """The manifest of the plan's files; those that are not fetched count as not here."""
    records = []
    for job in plan.fetches:
        got = fetched.get(job.name)
        records.append(
            FileRecord(
                name=job.name,
                size=got.size if got else job.size or 0,
                downloaded=got is not None,
                sha256=got.sha256 if got else job.sha256,
                revision=plan.revision,
                source=plan.hub,
                precision=label,
            )
        )
    first, *rest = records
    kind = plan.delivery.model_type if plan.delivery else "llm"
    return Manifest(plan.ref.name, plan.format, {label: first}, tuple(rest), model_type=kind)


def _check_headers(jobs: tuple[Fetch, ...]) -> None:
    """Refuse what has arrived as its hub states it, and is no GGUF, or no set, all the same."""
    files = []
    for job in jobs:
        try:
            files.append(ModelFile(job.name, job.size, header=read_header(job.part)))
        except GGUFError as exc:
            job.part.unlink(missing_ok=True)
            raise GGUFError(job.name, exc.reason, hint="the file on the hub is broken") from exc
    if len(files) > 1 and (text := set_problem(dict(enumerate(files, 1)), len(files))):
        raise GGUFError(jobs[0].name, text, hint="the files on the hub are broken")


def _arrived(job: Fetch) -> int:
    """Bytes of a file that are here already."""
    try:
        length = job.part.stat().st_size
    except OSError:
        return 0
    return length if job.size is None else min(length, job.size)


def _free(folder: Path) -> int:
    """Bytes of room where a folder is or will be. Raises StoreError."""
    place = next(path for path in (folder, *folder.parents) if path.exists())
    try:
        return shutil.disk_usage(place).free
    except OSError as exc:
        raise StoreError(f"`{place}` cannot be read: {exc.strerror or exc}") from exc


def _require_room(plan: PullPlan) -> None:
    sized = [job for job in plan.fetches if job.size is not None]
    known = sum(job.size or 0 for job in sized) - sum(map(_arrived, sized))
    if known > 0 and known + _MARGIN > plan.free:
        raise DiskSpaceError(str(plan.target), known + _MARGIN, plan.free)
