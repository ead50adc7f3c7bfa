"""Workers that are killed, servers that are killed, and many requests: nothing is left behind."""

import signal
import threading
from typing import Any

import psutil
import pytest
from openai import APIError, InternalServerError, OpenAI

from ci.soaking.watch import growth
from tests.geniex.qairt.conftest import MODEL, SHORT, workers, zombies
from tests.geniex.qairt.test_served import FRANCE, PARIS, ask, text
from tests.geniex.server.door import wait_for
from tests.geniex.server.live import PATIENCE, LiveServer, running

REQUESTS, WARM_UP = 200, 40
COUNT: Any = [{"role": "user", "content": "Count."}]


def test_a_worker_that_is_killed_mid_stream_is_an_error(served: LiveServer, client: OpenAI) -> None:
    stream = client.chat.completions.create(model=MODEL, messages=COUNT, temperature=0, stream=True)
    next(iter(stream))
    worker = workers(served.process.pid)[0]
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
            stream = client.chat.completions.create(
                model=MODEL, messages=COUNT, temperature=0, stream=True
            )
            next(iter(stream))
            left = workers(server.process.pid)
            server.end(signal.SIGKILL)
        assert left
        _, alive = psutil.wait_procs(left, timeout=PATIENCE)
        assert not alive


def test_many_requests_leave_memory_as_it_was(served: LiveServer, client: OpenAI) -> None:
    before = workers(served.process.pid)
    # every other one asks for something more than text
    kinds: tuple[dict[str, Any], ...] = ({}, {"logprobs": 2}, {}, {"stop": ["Tuesday"]})
    sizes: dict[int, list[int]] = {}
    for number in range(REQUESTS):
        how = kinds[number % len(kinds)]
        answer = client.completions.create(
            model=SHORT, prompt="Monday", max_tokens=1, temperature=0, **how
        )
        assert answer.usage is not None and answer.usage.completion_tokens == 1
        if number == 0:
            [worker] = set(workers(served.process.pid)) - set(before)
            watched = [psutil.Process(served.process.pid), worker]
        if number >= WARM_UP:
            for process in watched:
                sizes.setdefault(process.pid, []).append(process.memory_info().rss)
    assert worker in workers(served.process.pid) and not zombies(served.process.pid)
    for samples in sizes.values():
        assert growth(samples) < 0.02
