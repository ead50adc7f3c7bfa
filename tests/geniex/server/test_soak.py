"""Clients that come, ask right and wrong, and go at any moment: the server is as before."""

import json
import urllib.request
from pathlib import Path

import pytest

from ci.soak import CLIENTS, KINDS, Soak, growth
from tests.geniex.server.live import running

ROUNDS = 200


@pytest.mark.slow
def test_random_starts_cancels_and_disconnects(tmp_path: Path) -> None:
    with running("--parallel", "4", data_dir=tmp_path) as server:
        soak = Soak(server.url, seed=4)
        soak.run(CLIENTS, rounds=ROUNDS)
        soak.settle()
        assert soak.report.faults == []
        assert sum(soak.report.done.values()) == ROUNDS
        assert {kind for kind, _ in soak.report.done} == set(KINDS)
        body = {
            "model": "tiny",
            "messages": [{"role": "user", "content": "What is the capital of France?"}],
            "temperature": 0,
        }
        request = urllib.request.Request(
            f"{server.base_url}/chat/completions",
            json.dumps(body).encode(),
            {"content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as response:
            answer = json.load(response)
        content = answer["choices"][0]["message"]["content"]
        assert content == "The capital of France is Paris."
        assert server.end() == 0
        assert not [line for line in server.log if "Traceback" in line]


def test_a_server_that_fails_is_found_out() -> None:
    soak = Soak("http://127.0.0.1:1", seed=1)
    soak.run(2, rounds=6)
    assert len(soak.report.faults) == 6


def test_growth_is_of_the_memory_after_the_warm_up() -> None:
    assert growth([100, 100, 101, 100, 102, 101, 100, 110, 99, 101]) == pytest.approx(0.0, abs=0.01)
    assert growth([100, 102, 104, 106, 108, 110, 112, 114, 116, 118]) > 0.1
