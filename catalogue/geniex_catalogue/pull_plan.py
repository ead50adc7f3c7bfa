"""The plan of a pull: what, how much, from where, and whether there is room; nothing is written."""

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from geniex_catalogue import names, precision
from geniex_catalogue.entries import catalogue
from geniex_catalogue.errors import (
    DiskSpaceError,
    ModelNotFoundError,
    StoreError,
    UsageError,
)
from geniex_catalogue.fileset import ModelFile, Variant
from geniex_catalogue.gguf import GGUFHeader
from geniex_catalogue.hubs import hfcache
from geniex_catalogue.hubs.choice import Choice, Pick, check_name
from geniex_catalogue.hubs.contract import Delivery, Hub, Listing, Machine
from geniex_catalogue.hubs.deliveries import delivery_for, fetches, is_here, manifest_of
from geniex_catalogue.hubs.huggingface import HuggingFace
from geniex_catalogue.hubs.part import ENDING
from geniex_catalogue.hubs.transfer import Fetch
from geniex_catalogue.manifest import INFLIGHT, FileRecord, Manifest
from geniex_catalogue.names import ModelRef
from geniex_catalogue.offline import require_network
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
    named and there are several precisions. `machine` is for hubs that compile for one.
    """

    revision: str | None = None
    files: tuple[str, ...] = ()
    with_draft: bool = False
    token: str | None = None
    offline: bool = False
    machine: Machine | None = None
    pick: Pick | None = field(default=None, compare=False)


NO_WISH = PullWish()


@dataclass(frozen=True, slots=True)
class PullPlan:
    """What a pull would do.

    `ref` names the precision that was chosen. `present` is the model where all of it is here
    already; then there is nothing to fetch. `manifest` is what will be published, `fetches` the
    files of it that are not here; `reused` says where some of those are on this machine, by name.
    `free` is bytes of room at `target`. `header` is the first file's, as the hub has it.
    `delivery` is there where the hub has chosen by itself.
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
            return self.missing(job)
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
    draft = plan_pull(known, store, PullWish(token=wish.token, offline=wish.offline))
    require_room((plan, draft))
    return plan, draft


def plan_pull(ref: ModelRef, store: Store, wish: PullWish = NO_WISH) -> PullPlan:
    """Look at the hub and choose the files; a model that is here needs no hub at all.

    Raises DiskSpaceError where the rest of the files has no room, HubError, TransferError,
    GGUFError for a file that is none, UsageError, and the errors of `FileSet.choose`.
    """
    here = store.find(ref)
    if here is not None and wish.revision is None and (label := _label_here(here, ref, wish)):
        return _nothing_to_do(ref, label, here)
    _refuse_local(ref)
    require_network(f"`{ref}` is not here" if here is None else f"`{ref}`", wish.offline)
    delivery = delivery_for(ref, store, wish.machine or Machine(), wish.revision)
    if delivery is not None:
        plan = _delivered(ref, delivery, store, here, wish)
    else:
        hub = HuggingFace(wish.token)
        plan = _planned(ref, hub, hub.list(ref, wish.revision), store, here, wish)
    if here is not None and not plan.fetches:
        return replace(plan, present=here)
    require_room((plan,))
    return plan


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
    """Bytes of a file that are here already, from an earlier try."""
    try:
        length = job.part.stat().st_size
    except OSError:
        return 0
    return length if job.size is None else min(length, job.size)


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
    chosen = _Chosen(ref, hub, listing, wish)
    if here is None and not chosen.models:
        raise UsageError(
            f"`{wish.files[0]}` is no model: it goes beside one",
            hint=f"name a precision too: `geniex pull {ref.name}:PRECISION --file ...`",
        )
    target = store.folder(ref)
    manifest = chosen.manifest()
    whole = {name for name in chosen.files if here is not None and _is_same(here, manifest, name)}
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
    )


def _delivered(
    ref: ModelRef, delivery: Delivery, store: Store, here: StoredModel | None, wish: PullWish
) -> PullPlan:
    """The plan for what a hub has chosen by itself."""
    if wish.files or wish.with_draft:
        raise UsageError(
            f"`{ref.name}` comes as it is from its hub: it has no files or drafts to choose",
            hint="leave out `--file` and `--with-draft`",
        )
    target = store.folder(ref)
    whole = here is not None and is_here(delivery, here)
    return PullPlan(
        _with_label(ref, delivery.label),
        delivery.hub,
        target,
        free_at(target),
        delivery.revision,
        () if whole else fetches(delivery, target),
        manifest=manifest_of(delivery, ref),
        delivery=delivery,
    )


class _Chosen:
    """The files that a wish means, each for what it is."""

    def __init__(self, ref: ModelRef, hub: Hub, listing: Listing, wish: PullWish) -> None:
        self._hub, self._listing, self._wish = hub, listing, wish
        self._choice = Choice(hub, listing)
        self.models: dict[str, Variant] = {}
        self.drafts: list[Variant] = []
        self.projector: Variant | None = None
        self.ref = ref
        self.header: GGUFHeader | None = None
        if ref.selector is not None or not wish.files:
            wanted = ref.precision or _usual(ref)
            self._add_model(*self._choice.model(ref.name, wanted, ref.file, wish.pick))
        for file in wish.files:
            self._add_file(*self._choice.model(ref.name, None, file))
        if wish.with_draft and catalogue().draft_for(ref) is None:
            self._add_draft()

    def _add_model(self, label: str, variant: Variant) -> None:
        if not self.models:
            self.ref = _with_label(self.ref, label)
            self.header = variant.files[0].header
        self.models[label] = variant

    def _add_file(self, label: str, variant: Variant) -> None:
        if variant.role == "projector":
            if self.projector is not None:
                raise UsageError("a model has one projector", hint="name one of them")
            self.projector = variant
        elif variant.role == "draft" and self.models:
            self.drafts.append(variant)
        else:
            self._add_model(label, variant)

    def _add_draft(self) -> None:
        """The draft that the model's own repository has. Raises UsageError where it has none."""
        if self.header is not None and self.header.has_heads:
            return
        label = next(iter(self.models), precision.DEFAULT)
        draft = self._choice.draft(label)
        if draft is None:
            raise UsageError(
                f"no draft of `{self.ref}` is known",
                hint="leave out `--with-draft`; `--draft-model` of `geniex infer` names any draft",
            )
        if draft not in self.drafts:
            self.drafts.append(draft)

    @property
    def files(self) -> dict[str, ModelFile]:
        """All chosen files by the name they are stored under, what is to be loaded first."""
        companions = [*self.drafts, *([self.projector] if self.projector else [])]
        chosen = [file for v in (*self.models.values(), *companions) for file in v.files]
        for file in chosen:
            check_name(self._listing, file)
        return {names.storable(file.name): file for file in chosen}

    def manifest(self) -> Manifest:
        """The manifest of the chosen files, none of them here yet."""
        models, extras = {}, []
        for label, variant in self.models.items():
            first, *rest = (self._record(file, label) for file in variant.files)
            models[label] = first
            extras += rest
        extras += [self._record(file) for draft in self.drafts for file in draft.files]
        projector = self._record(self.projector.files[0]) if self.projector else None
        return Manifest(self.ref.name, "gguf", models, tuple(extras), projector=projector)

    def _record(self, file: ModelFile, label: str | None = None) -> FileRecord:
        return FileRecord(
            names.storable(file.name),
            file.size or 0,
            downloaded=False,
            sha256=file.sha256,
            revision=self._listing.revision,
            source=self._hub.name,
            precision=label,
        )


def _usual(ref: ModelRef) -> str | None:
    """The precision that the catalogue names for a model, where the user names nothing."""
    entry = catalogue().entry(ref) if ref.selector is None else None
    return entry.precision if entry is not None else None


def _with_label(ref: ModelRef, label: str) -> ModelRef:
    if label.lower().endswith(".gguf"):
        return replace(ref, precision=None, file=label)
    return ref.with_precision(label)


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
    if listed is None or here is None or not here.downloaded or listed.sha256 is None:
        return False
    return here.sha256 == listed.sha256 and problem(model.folder, here) is None


def _nothing_to_do(ref: ModelRef, label: str, here: StoredModel) -> PullPlan:
    found = _with_label(ref, label)
    return PullPlan(found, None, here.folder, free_at(here.folder), present=here)


def _job(hub: Hub, listing: Listing, file: ModelFile, name: str, target: Path) -> Fetch:
    part = (target / INFLIGHT).joinpath(*name.split("/"))
    part = part.with_name(part.name + ENDING)
    return Fetch(name, hub.source(listing, file), part, file.size, file.sha256)
