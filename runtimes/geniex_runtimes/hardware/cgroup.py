"""The limits that a container sets: CPU time and memory, from cgroup v1 and v2."""

from dataclasses import dataclass
from pathlib import PurePosixPath

from geniex_runtimes.hardware.sources import Sources

# v1 says "no limit" with a number near 2^63
_UNLIMITED = 1 << 60


@dataclass(frozen=True, slots=True)
class Limits:
    """What this process may use: CPUs (0.5 is half of one), and bytes; None means no limit.

    `memory_used` counts what cannot be given back: files that are only cached are left out.
    """

    cpus: float | None = None
    memory: int | None = None
    memory_used: int = 0


def read(sources: Sources) -> Limits:
    """The tightest limits on the way from this process' group up to the root."""
    groups = _groups(sources.text("proc/self/cgroup") or "")
    cpus = [limit for group in groups if (limit := _cpus(sources, group)) is not None]
    memory = [pair for group in groups if (pair := _memory(sources, group)) is not None]
    tightest = min(memory, default=None)
    return Limits(
        cpus=min(cpus, default=None),
        memory=tightest[0] if tightest else None,
        memory_used=tightest[1] if tightest else 0,
    )


def _groups(listing: str) -> list[str]:
    """Folders of the process' groups and of all groups above them, below the root folder."""
    folders: list[str] = []
    for line in listing.splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        mount = f"sys/fs/cgroup/{controllers}" if controllers else "sys/fs/cgroup"
        group = PurePosixPath("/" + path.lstrip("/"))
        for level in (group, *group.parents):
            folders.append(f"{mount}{level}".rstrip("/"))
    return folders


def _cpus(sources: Sources, group: str) -> float | None:
    quota, _, period = (sources.text(f"{group}/cpu.max") or "").partition(" ")
    if not quota:
        quota = sources.text(f"{group}/cpu.cfs_quota_us") or ""
        period = sources.text(f"{group}/cpu.cfs_period_us") or ""
    # "max" and -1 are no limit
    if not quota.isdigit() or not period.isdigit() or int(period) == 0:
        return None
    return int(quota) / int(period)


def _memory(sources: Sources, group: str) -> tuple[int, int] | None:
    for limit_file, used_file, cached in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        limit = sources.text(f"{group}/{limit_file}") or ""
        if not limit.isdigit() or int(limit) >= _UNLIMITED:
            continue
        used = sources.text(f"{group}/{used_file}") or ""
        stat = dict(
            line.split(maxsplit=1)
            for line in (sources.text(f"{group}/memory.stat") or "").splitlines()
            if " " in line
        )
        held = int(used) if used.isdigit() else 0
        return int(limit), max(0, held - int(stat.get(cached, "0")))
    return None
