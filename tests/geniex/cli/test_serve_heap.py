"""A crowd that comes before a model does: its threads share a few heaps all the same."""

import itertools
import json
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.geniex.server.live import PATIENCE, LiveServer, running

CROWD = 16
HEAP = 64 << 20  # bytes: glibc's heaps of threads begin at multiples of that
CHAT = {
    "model": "geniex/tiny-chat",
    "messages": [{"role": "user", "content": "Hi"}],
    "max_tokens": 4,
}

glibc = pytest.mark.skipif(
    sys.platform != "linux" or sys.maxsize < 1 << 32, reason="heaps of threads as glibc makes them"
)


def heaps(process: int) -> int:
    """How many heaps a process has beside its first one."""
    maps = Path(f"/proc/{process}/maps").read_text(encoding="utf-8").splitlines()
    found = 0
    for line, after in itertools.pairwise(maps):
        begin, end = (int(word, 16) for word in line.split()[0].split("-"))
        rest = after.split()
        # what is in use, then what is only reserved
        whole = begin % HEAP == 0 and end < begin + HEAP and line.split()[1] == "rw-p"
        found += whole and rest[1] == "---p" and rest[0].startswith(line.split()[0].split("-")[1])
    return found


def crowd(server: LiveServer) -> list[int]:
    """The statuses of many who ask at once."""
    data, kind = json.dumps(CHAT).encode(), {"content-type": "application/json"}

    def ask(number: int) -> int:
        request = urllib.request.Request(f"{server.base_url}/chat/completions", data, kind)
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            answer.read()
            return int(answer.status)

    with ThreadPoolExecutor(CROWD) as pool:
        return list(pool.map(ask, range(CROWD)))


@glibc
def test_a_crowd_before_the_first_model(tmp_path: Path) -> None:
    with running(data_dir=tmp_path) as server:
        assert set(crowd(server)) == {200}
        # one may be in two parts; without sharing there are as many as the crowd has threads
        assert 1 <= heaps(server.process.pid) <= 5
