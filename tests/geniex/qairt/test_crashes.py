"""Workers that are killed, servers that are killed, and many requests: nothing is left behind."""

import signal
import threading
from typing import Any

import psutil
import pytest
from openai import APIError, InternalServerError, OpenAI

from ci.soak import growth
from tests.geniex.qairt.conftest import MODEL, workers, zombies
from tests.geniex.qairt.test_served import FRANCE, PARIS, ask, text
from tests.geniex.server.door import wait_for
from tests.geniex.server.live import PATIENCE, LiveServer, running

REQUESTS, WARM_UP = 200, 40
COUNT: Any = [{"role": "user", "content": "Count."}]


def test_a_worker_that_is_killed_mid_stream_is_an_error(served: LiveServer, client: OpenAI) -> None:
    stream = client.chat.completions.create(model=MODEL, messages=COUNT, temperature=0, stream=True)
    next(iter(stream))
    [worker] = workers(served.process.pid)
    worker.kill()
    with pytest.raises(APIError, match="worker"):
        list(stream)
    assert text(ask(client, FRANCE)) == PARIS
    [another] = workers(served.process.pid)
    assert another.pid != worker.pid and not zombies(served.process.pid)


def test_a_worker_that_is_killed_is_an_error_of_the_whole_answer(
    served: LiveServer, client: OpenAI
) -> None:
    ask(client, FRANCE)  # there is a worker
    [worker] = workers(served.process.pid)
    idle = worker.cpu_times().user

    def kill_when_busy() -> None:
        wait_for(lambda: worker.cpu_times().user > idle + 0.3)
        worker.kill()

    killer = threading.Thread(target=kill_when_busy)
    killer.start()
    with pytest.raises(InternalServerError, match="worker"):
        client.chat.completions.create(model=MODEL, messages=COUNT, temperature=0)
    killer.join()
    assert text(ask(client, FRANCE)) == PARIS


def test_no_worker_outlives_a_server_that_is_killed(served: LiveServer) -> None:
    with running("--parallel", "1", data_dir=served.data_dir) as server:
        with OpenAI(base_url=server.base_url, api_key="none", max_retries=0) as client:
            assert text(ask(client, FRANCE)) == PARIS
        left = workers(server.process.pid)
        assert left
        server.end(signal.SIGKILL)
        _, alive = psutil.wait_procs(left, timeout=PATIENCE)
        assert not alive


def test_many_requests_leave_memory_as_it_was(served: LiveServer, client: OpenAI) -> None:
    sizes: dict[int, list[int]] = {}
    ask(client, FRANCE)
    [worker] = workers(served.process.pid)
    watched = [psutil.Process(served.process.pid), worker]
    for number in range(REQUESTS):
        assert text(ask(client, FRANCE, max_completion_tokens=2)) == "The capital"
        if number >= WARM_UP:
            for process in watched:
                sizes.setdefault(process.pid, []).append(process.memory_info().rss)
    assert workers(served.process.pid) == [worker] and not zombies(served.process.pid)
    for samples in sizes.values():
        assert growth(samples) < 0.02
