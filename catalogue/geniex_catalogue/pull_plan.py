"""The plan of a pull: what, how much, from where, and whether there is room; nothing is written."""

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from geniex_catalogue import ledgers, names, precision
from geniex_catalogue.entries import catalogue
from geniex_catalogue.errors import (
    DiskSpaceError,
    ModelNotFoundError,
    StoreError,
    UsageError,
)
from geniex_catalogue.fileset import ModelFile
from geniex_catalogue.gguf import GGUFHeader
from geniex_catalogue.hashing import sha256_of
from geniex_catalogue.hubs import hfcache
from geniex_catalogue.hubs.choice import Pick
from geniex_catalogue.hubs.contract import Delivery, Hub, Listing, Machine
from geniex_catalogue.hubs.deliveries import (
    delivers,
    delivery_for,
    fetches,
    is_here,
    manifest_of,
    same_files,
    with_hub,
)
from geniex_catalogue.hubs.huggingface import HuggingFace
from geniex_catalogue.hubs.part import ENDING, usable
from geniex_catalogue.hubs.part import arrived as bytes_here
from geniex_catalogue.hubs.transfer import Fetch
from geniex_catalogue.manifest import INFLIGHT, FileRecord, Manifest
from geniex_catalogue.names import ModelRef
from geniex_catalogue.offline import require_network
from geniex_catalogue.pull_choice import Asked, Chosen, refuse_nested, with_label
from geniex_catalogue.store import Store
from geniex_catalogue.stored import StoredModel, problem

# what the manifest and the lock may take besides the files
_MARGIN = 1 << 20


@dataclass(frozen=True, slots=True)
class PullWish:
    """What is wanted besides a model's name.

    `revision` is a branch, tag or commit (None: the newest, unless the model is here). `files` are
    named files of the repository: in the place of a precision, or beside the one that the name
    has. `with_draft` takes the draft that goes with the model. `pick` chooses where nothing is
    named and there are several precisions. `machine` is for hubs that compile for one. `fresh`
    looks at the hub also for what is here; the files in `again` are fetched although they are.
    `look_only` plans also what has no room.
    """

    revision: str | None = None
    files: tuple[str, ...] = ()
    with_draft: bool = False
    token: str | None = None
    offline: bool = False
    machine: Machine | None = None
    fresh: bool = False
    again: frozenset[str] = frozenset()
    look_only: bool = False
    pick: Pick | None = field(default=None, compare=False)


NO_WISH = PullWish()


@dataclass(frozen=True, slots=True)
class PullPlan:
    """What a pull would do.

    `ref` names the precision that was chosen. `present` is the model where all of it is here
    already; then there is nothing to fetch. `manifest` is what will be published, `fetches` the
    files of it that are not here; `reused` says where some of those are on this machine, by name.
    `free` is bytes of room at `target`. `header` is the first file's, as the hub has it.
    `delivery` is there where the hub has chosen by itself. `again` are files that are fetched
    although they are here.
    """

    ref: ModelRef
    hub: str | None
    target: Path
    free: int
    revision: str | None = None
    fetches: tuple[Fetch, ...] = ()
    present: StoredModel | None = None
    header: GGUFHeader | None = field(default=None, repr=False, compare=False)
    manifest: Manifest | None = field(default=None, repr=False)
    reused: Mapping[str, Path] = field(default_factory=dict, hash=False)
    delivery: Delivery | None = field(default=None, repr=False)
    again: frozenset[str] = frozenset()

    @property
    def total(self) -> int | None:
        """Bytes of all files, or None if one is not known."""
        sizes = [job.size for job in self.fetches]
        return None if None in sizes else sum(size for size in sizes if size is not None)

    @property
    def remaining(self) -> int | None:
        """Bytes to come over the network: not what earlier tries or other programs have left."""
        return None if self.total is None else sum(map(self.missing, self.fetches))

    @property
    def needed(self) -> int:
        """Bytes of room that the files take, as far as their sizes are known."""
        unpacked = self.delivery.unpacked if self.delivery else 0
        return unpacked + sum(self._room_for(job) for job in self.fetches)

    def missing(self, job: Fetch) -> int:
        """Bytes of a file that have to come over the network, as far as its size is known."""
        return 0 if job.name in self.reused else max(0, (job.size or 0) - arrived(job))

    def _room_for(self, job: Fetch) -> int:
        place = self.reused.get(job.name)
        if place is None:
            # the bytes of another version make room for those to come
            missing = max(0, self.missing(job) - outdated(job))
            kept = job.name in self.again and ledgers.can_salvage(self.target, job.name)
            # its own damaged file becomes the part
            return max(0, missing - _own_size(self.target / job.name)) if kept else missing
        return 0 if hfcache.can_link(place, self.target) else job.size or 0


def plan_pulls(ref: ModelRef, store: Store, wish: PullWish = NO_WISH) -> tuple[PullPlan, ...]:
    """The plan of a model, and that of its draft where it is wanted and lies elsewhere.

    Raises what `plan_pull` raises, UsageError for a draft that nobody knows, and DiskSpaceError
    where the two together have no room.
    """
    plan = plan_pull(ref, store, wish)
    known = catalogue().draft_for(ref) if wish.with_draft else None
    if known is None:
        return (plan,)
    beside = PullWish(token=wish.token, offline=wish.offline, look_only=wish.look_only)
    draft = plan_pull(known, store, beside)
    if not wish.look_only:
        require_room((plan, draft))
    return plan, draft


def plan_pull(ref: ModelRef, store: Store, wish: PullWish = NO_WISH) -> PullPlan:
    """Look at the hub and choose the files; a model that is here needs no hub at all.

    Raises DiskSpaceError where the rest of the files has no room, HubError, TransferError,
    GGUFError for a file that is none, UsageError, and the errors of `FileSet.choose`.
    """
    here = store.find(ref)
    known = wish.revision is None and not wish.fresh
    if here is not None and known and (label := _label_here(here, ref, wish)):
        return _nothing_to_do(ref, label, here)
    ref = with_hub(ref, here)
    _refuse_local(ref)
    require_network(_why_network(ref, here, wish), wish.offline)
    if delivers(ref):
        plan = _delivered(ref, store, here, wish)
    else:
        hub = HuggingFace(wish.token)
        plan = _planned(ref, hub, hub.list(ref, wish.revision), store, here, wish)
    if here is not None and not plan.fetches:
        return replace(plan, present=here)
    if not wish.look_only:
        require_room((plan,))
    return plan


def _why_network(ref: ModelRef, here: StoredModel | None, wish: PullWish) -> str:
    """What the hub is needed for."""
    if here is not None and (wish.fresh or wish.revision):
        return f"the hub has to be asked about `{ref}`"
    labels = ", ".join(here.precisions) if here is not None else ""
    return f"`{ref}` is not here" + (f" (only {labels})" if labels else "")


def _refuse_local(ref: ModelRef) -> None:
    """Refuse a name that belongs to no hub."""
    if ref.org == names.LOCAL_ORG:
        hint = f"import it with `geniex pull {ref.name} --local-path PATH`"
        raise ModelNotFoundError(str(ref), hint=hint)
    if catalogue().builtin_file(ref) is not None:
        raise UsageError(f"`{ref}` is built in, there is nothing to pull")


def require_room(plans: Iterable[PullPlan]) -> None:
    """Raise DiskSpaceError where what is still to come has no room beside what is free."""
    first, *rest = plans
    needed = first.needed + sum(plan.needed for plan in rest)
    if needed > 0 and needed + _MARGIN > first.free:
        raise DiskSpaceError(str(first.target), needed + _MARGIN, first.free)


def arrived(job: Fetch) -> int:
    """Bytes of a file that are here already, from an earlier try at the same version."""
    length = usable(job.part, job.sha256, _size_of(job))
    return length if job.size is None else min(length, job.size)


def outdated(job: Fetch) -> int:
    """Bytes of an earlier try that are of another version than the hub has now."""
    if usable(job.part, job.sha256, _size_of(job)):
        return 0
    return bytes_here(job.part)


def _size_of(job: Fetch) -> int | None:
    return job.source.length if job.size is None else job.size


def _own_size(path: Path) -> int:
    """Bytes of a file that nobody else has a link to."""
    try:
        found = path.stat()
    except OSError:
        return 0
    return found.st_size if found.st_nlink == 1 else 0


def free_at(folder: Path) -> int:
    """Bytes of room where a folder is or will be. Raises StoreError."""
    place = next(path for path in (folder, *folder.parents) if path.exists())
    try:
        return shutil.disk_usage(place).free
    except OSError as exc:
        raise StoreError(f"`{place}` cannot be read: {exc.strerror or exc}") from exc


def _planned(
    ref: ModelRef,
    hub: Hub,
    listing: Listing,
    store: Store,
    here: StoredModel | None,
    wish: PullWish,
) -> PullPlan:
    asked = Asked(wish.files, wish.with_draft, wish.pick)
    chosen = Chosen(ref, hub, listing, asked)
    if here is None and not chosen.models:
        raise UsageError(
            f"`{wish.files[0]}` is no model: it goes beside one",
            hint=f"name a precision too: `geniex pull {ref.name}:PRECISION --file ...`",
        )
    target = store.folder(ref)
    manifest = chosen.manifest()
    if here is not None and here.manifest is not None:
        refuse_nested(chosen.files, [record.name for record in here.manifest.files()])
    same = {name for name in chosen.files if here is not None and _is_same(here, manifest, name)}
    whole = same - wish.again
    jobs = tuple(
        _job(hub, listing, file, name, target)
        for name, file in chosen.files.items()
        if name not in whole
    )
    return PullPlan(
        chosen.ref,
        hub.name,
        target,
        free_at(target),
        listing.revision,
        jobs,
        header=chosen.header,
        manifest=manifest.mapped(lambda r: replace(r, downloaded=r.name in whole)),
        reused=hfcache.find_all(listing.repo, jobs),
        again=wish.again,
    )


def _delivered(ref: ModelRef, store: Store, here: StoredModel | None, wish: PullWish) -> PullPlan:
    """The plan for what a hub has chosen by itself."""
    if wish.files or wish.with_draft:
        raise UsageError(
            f"`{ref.name}` comes as it is from its hub: it has no files or drafts to choose",
            hint="leave out `--file` and `--with-draft`",
        )
    delivery = delivery_for(ref, store, wish.machine or Machine(), wish.revision)
    target = store.folder(ref)
    whole = here is not None and is_here(delivery, here)
    same = {
        name: record
        for name, record in same_files(delivery, here).items()
        if name not in wish.again
    }
    jobs = () if whole and not wish.again else fetches(delivery, target)
    return PullPlan(
        with_label(ref, delivery.label),
        delivery.hub,
        target,
        free_at(target),
        delivery.revision,
        tuple(job for job in jobs if job.name not in same),
        manifest=manifest_of(delivery, ref, same),
        delivery=delivery,
        again=wish.again,
    )


def _label_here(model: StoredModel, ref: ModelRef, wish: PullWish) -> str | None:
    """The whole precision of a stored model that a name means, if all that is wanted is here."""
    held = {record.name for label in model.precisions for record in model.records(label)}
    beside = [names.storable(file) for file in wish.files]
    if any(name not in held and model.companion(name) is None for name in beside):
        return None
    if wish.with_draft and catalogue().draft_for(ref) is None and not model.has_draft():
        return None
    file = ref.file if ref.selector or not beside else beside[0]
    if file is not None:
        holds = (
            label
            for label in model.precisions
            if file in {record.name for record in model.records(label)}
        )
        return next(holds, None)
    if ref.precision is not None:
        return precision.find(ref.precision, model.precisions)
    return model.precisions[0] if model.precisions else None


def _is_same(model: StoredModel, manifest: Manifest, name: str) -> bool:
    """Whether a file of the store is the listed one, by its hash and size."""
    if model.manifest is None:
        return False
    listed = next((record for record in manifest.files() if record.name == name), None)
    here = next((record for record in model.manifest.files() if record.name == name), None)
    if listed is None or here is None or not here.downloaded or here.place is not None:
        return False
    if listed.sha256 is None or problem(model.folder, here) is not None:
        return False
    return (here.sha256 or _hash_of(model, here, listed)) == listed.sha256


def _hash_of(model: StoredModel, here: FileRecord, listed: FileRecord) -> str | None:
    """The sha256 of a file of which none was noted, where its size is the listed one's.

    GenieX notes none; to read a file costs less than to fetch it again.
    """
    try:
        path = model.path(here)
        return sha256_of(path) if path.stat().st_size == listed.size else None
    except OSError:
        return None


def _nothing_to_do(ref: ModelRef, label: str, here: StoredModel) -> PullPlan:
    found = with_label(ref, label)
    return PullPlan(found, None, here.folder, free_at(here.folder), present=here)


def _job(hub: Hub, listing: Listing, file: ModelFile, name: str, target: Path) -> Fetch:
    part = (target / INFLIGHT).joinpath(*name.split("/"))
    part = part.with_name(part.name + ENDING)
    return Fetch(name, hub.source(listing, file), part, file.size, file.sha256)
