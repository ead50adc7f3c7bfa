"""Pulling a model: the bytes of a plan, from a cache or a hub, checked and put into the store."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from geniex_catalogue import ledgers
from geniex_catalogue.durable import FULL
from geniex_catalogue.errors import DiskSpaceError, GGUFError, StoreError
from geniex_catalogue.fileset import ModelFile, set_problem
from geniex_catalogue.gguf import read_header
from geniex_catalogue.hashing import sha256_of
from geniex_catalogue.hubs.contract import Progress
from geniex_catalogue.hubs.deliveries import is_here, whole
from geniex_catalogue.hubs.part import facts_path
from geniex_catalogue.hubs.placing import copied
from geniex_catalogue.hubs.transfer import MAX_WORKERS, Fetch, Fetched, fetch
from geniex_catalogue.manifest import FileRecord, Manifest
from geniex_catalogue.model_lock import OnWait, unwritable
from geniex_catalogue.names import ModelRef
from geniex_catalogue.pull_plan import (
    NO_WISH,
    PullPlan,
    PullWish,
    free_at,
    outdated,
    plan_pull,
    plan_pulls,
    require_room,
)
from geniex_catalogue.sizes import size_text
from geniex_catalogue.store import Store
from geniex_catalogue.stored import StoredModel, place_of, records_of

__all__ = ["PullPlan", "PullWish", "execute", "plan_pull", "plan_pulls", "pull"]


def pull(
    ref: ModelRef,
    store: Store,
    wish: PullWish = NO_WISH,
    progress: Progress | None = None,
    on_wait: OnWait | None = None,
) -> StoredModel:
    """Have a model in the store: `plan_pulls`, then `execute` each. Raises what they raise."""
    plans = plan_pulls(ref, store, wish)
    first, *_ = (execute(plan, store, progress, on_wait) for plan in plans)
    return first


def execute(
    plan: PullPlan,
    store: Store,
    progress: Progress | None = None,
    on_wait: OnWait | None = None,
    note: Callable[[str], None] = lambda text: None,
    max_workers: int = MAX_WORKERS,
) -> StoredModel:
    """Fetch the plan's files, check them, publish them; what an earlier try has left is used.

    KeyboardInterrupt and errors leave what has arrived for the next try. `on_wait` is told before
    waiting for another process, `note` what came from elsewhere than the hub, or begins anew.
    `max_workers` is how many requests run at a time. Raises DiskSpaceError, TransferError
    (ChecksumError), HubError, GGUFError, StoreError.
    """
    if plan.present is not None or plan.manifest is None:
        return _here(plan)
    with store.lock(plan.ref, on_wait):
        here = store.find(plan.ref)
        if here is not None and not plan.again and _has_all(here, plan):
            # another process has fetched it while we waited
            return here
        require_room((replace(plan, free=free_at(plan.target)),))
        store.stage(plan.ref, plan.manifest)
        try:
            taken = _take_reused(plan, progress, note)
            rest = [job for job in plan.fetches if job.name not in taken]
            _tell_outdated(rest, note)
            _salvage(plan, rest)
            got = {**taken, **_fetched(plan, rest, progress, max_workers)}
            _check_headers(plan, got)
            _keep_ledgers(plan, rest, got)
        except BaseException:
            store.unstage(plan.ref)
            raise
        staged = {name: done.path for name, done in got.items()}
        return store.publish(plan.ref, _with(plan.manifest, got), staged)


def _here(plan: PullPlan) -> StoredModel:
    if plan.present is None:
        raise StoreError(f"there is no plan of what to fetch for `{plan.ref}`")
    return plan.present


def _fetched(
    plan: PullPlan, jobs: Sequence[Fetch], progress: Progress | None, max_workers: int
) -> dict[str, Fetched]:
    """The files that a hub sends, out of their archive where they came in one."""
    arrived = fetch(jobs, progress, max_workers=max_workers)
    if plan.delivery is not None:
        return whole(plan.delivery, arrived)
    return {done.name: done for done in arrived}


def _tell_outdated(jobs: Sequence[Fetch], note: Callable[[str], None]) -> None:
    """Say which files begin anew, since the hub has another version of them now."""
    for job in jobs:
        if count := outdated(job):
            left = f"what an earlier pull has left ({size_text(count)})"
            note(f"{job.name}: {left} is of another version, it begins anew")


def _salvage(plan: PullPlan, jobs: Sequence[Fetch]) -> None:
    """Have damaged files that are to be fetched again go on from what of them is right."""
    for job in jobs:
        if job.name in plan.again:
            try:
                ledgers.salvage(plan.target, job.name, job.part)
            except OSError as exc:
                if exc.errno in FULL:
                    free = free_at(plan.target)
                    raise DiskSpaceError(str(plan.target), job.size or 0, free) from exc
                raise unwritable(plan.target, exc) from exc


def _keep_ledgers(plan: PullPlan, jobs: Sequence[Fetch], got: dict[str, Fetched]) -> None:
    """Keep what tells damage block by block, except of what was unpacked: it is of other bytes."""
    for job in jobs:
        if got[job.name].path == job.part:
            # without its ledger a damaged file comes again as a whole: no reason to refuse it now
            with suppress(OSError):
                ledgers.keep(plan.target, job.name, job.part)


def _has_all(model: StoredModel, plan: PullPlan) -> bool:
    """Whether all that was to be fetched is in the store."""
    if plan.delivery is not None:
        return is_here(plan.delivery, model)
    if model.manifest is None or plan.manifest is None:
        return False
    if not set(plan.manifest.models) <= set(model.precisions):
        return False
    here = {record.name: record for record in model.manifest.files() if record.downloaded}
    return all(
        job.name in here and job.sha256 in (None, here[job.name].sha256) for job in plan.fetches
    )


def _with(manifest: Manifest, got: dict[str, Fetched]) -> Manifest:
    """The manifest with the sizes and hashes of what has arrived."""

    def arrived(record: FileRecord) -> FileRecord:
        done = got.get(record.name)
        if done is None:
            return record
        return replace(record, downloaded=True, size=done.size, sha256=done.sha256)

    return manifest.mapped(arrived)


def _take_reused(
    plan: PullPlan, progress: Progress | None, note: Callable[[str], None]
) -> dict[str, Fetched]:
    """Bring in what other programs have on this machine, and only where its bytes are right."""
    taken = {}
    for job in plan.fetches:
        place = plan.reused.get(job.name)
        if place is None:
            continue
        target = job.part.with_name(Path(job.name).name)
        how = _bring(place, target, job, progress)
        if how is None:
            note(f"{job.name}: `{place}` is not what the hub has, fetching it")
            continue
        note(f"{job.name}: {how} from the Hugging Face cache, not downloaded")
        taken[job.name] = Fetched(job.name, target, job.size or 0, job.sha256 or "")
        # what an earlier try has begun of it is of no use any more
        for begun in (job.part, facts_path(job.part)):
            begun.unlink(missing_ok=True)
    return taken


def _bring(place: Path, target: Path, job: Fetch, progress: Progress | None) -> str | None:
    """Link or copy a file, and check its bytes; how it was done, or None where they are wrong."""

    def advance(count: int) -> None:
        if progress is not None:
            progress.advance(job.name, count)

    if progress is not None:
        progress.start(job.name, job.size, 0)
    try:
        how = _linked_or_copied(place, target)
        if sha256_of(target, advance) != job.sha256:
            target.unlink()
            return None
    except OSError as exc:
        with suppress(OSError):
            target.unlink(missing_ok=True)
        if exc.errno in FULL:
            raise DiskSpaceError(str(target.parent), job.size or 0, free_at(target.parent)) from exc
        raise unwritable(target, exc) from exc
    if progress is not None:
        progress.finish(job.name)
    return how


def _linked_or_copied(place: Path, target: Path) -> str:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    try:
        target.hardlink_to(place)
    except OSError:
        # another file system, or one without hard links
        copied({target.name: place})(target.name, target, lambda count: None)
        return "copied"
    return "linked"


def _check_headers(plan: PullPlan, got: dict[str, Fetched]) -> None:
    """Refuse what has arrived as its hub states it, and is no GGUF, or no set, all the same."""
    manifest = plan.manifest
    if manifest is None or manifest.format != "gguf":
        return
    sets = [_ggufs(records_of(manifest, label)) for label in manifest.models]
    inside = {record.name for records in sets for record in records}
    alone = [(r,) for r in _ggufs(tuple(manifest.files())) if r.name not in inside]
    for records in (*sets, *alone):
        places = {
            record.name: got[record.name].path
            if record.name in got
            else place_of(plan.target, record)
            for record in records
        }
        if places.keys() & got.keys():
            _check_set(places)


def _ggufs(records: tuple[FileRecord, ...]) -> tuple[FileRecord, ...]:
    return tuple(record for record in records if record.name.lower().endswith(".gguf"))


def _check_set(places: dict[str, Path]) -> None:
    files = []
    for name, path in places.items():
        try:
            files.append(ModelFile(name, path.stat().st_size, header=read_header(path)))
        except GGUFError as exc:
            with suppress(OSError):
                path.unlink(missing_ok=True)
            raise GGUFError(name, exc.reason, hint="the file on the hub is broken") from exc
    if len(files) > 1 and (text := set_problem(dict(enumerate(files, 1)), len(files))):
        raise GGUFError(files[0].name, text, hint="the files on the hub are broken")
