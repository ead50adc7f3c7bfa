"""What Windows tells of the logical CPUs: which core each is of, and how fast its kind is.

`GetSystemCpuSetInformation` fills a buffer with SYSTEM_CPU_SET_INFORMATION records
(learn.microsoft.com, winnt.h): sizes at their begin, so that later ones may be longer.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

# Size, Type, Id, Group, LogicalProcessorIndex, CoreIndex, cache, NUMA node, EfficiencyClass
_RECORD = struct.Struct("<IIIHBBBBB")
_CPU_SET = 0  # of Type
_PER_GROUP = 64


@dataclass(frozen=True, slots=True)
class CpuSet:
    """A logical CPU and its core, both counted through all groups; a higher `kind` is faster."""

    cpu: int
    core: int
    kind: int


def read_cpu_sets(data: bytes) -> tuple[CpuSet, ...]:
    """The records of a buffer; what is cut off or of another type is left out."""
    return tuple(_records(data))


def _records(data: bytes) -> Iterator[CpuSet]:
    at = 0
    while at + _RECORD.size <= len(data):
        size, type_, _, group, cpu, core, _, _, kind = _RECORD.unpack_from(data, at)
        if size < _RECORD.size or at + size > len(data):
            return
        if type_ == _CPU_SET:
            first = group * _PER_GROUP
            yield CpuSet(first + cpu, first + core, kind)
        at += size
