"""What contexts take grows with their number, the states that recurrent layers keep too."""

from dataclasses import replace
from pathlib import Path

from geniex.server.footprint import footprint
from geniex_runtimes import memory
from geniex_runtimes.planning import Plan
from tests.geniex_runtimes.models import header, model

PLAN = Plan("llama_cpp", "cpu", (), 0, 4096, 0, 0)
STATE = {"llama.ssm.inner_size": 4096, "llama.ssm.state_size": 128}


def test_each_context_has_states_of_its_own(tmp_path: Path) -> None:
    (file := tmp_path / "a.gguf").touch()
    plain = replace(model(), files=(file,))
    hybrid = replace(plain, header=replace(header(), metadata={**header().metadata, **STATE}))
    states = memory.need(hybrid, 4096).states
    assert states == 24 * 4096 * 128 * 4 * (1 + memory.KEPT_STATES)
    for slots in (1, 8):
        more = footprint(hybrid, PLAN, slots).contexts - footprint(plain, PLAN, slots).contexts
        assert more == slots * states
