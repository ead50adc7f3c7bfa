"""Machines to plan for, and the plan for one of them."""

from geniex_catalogue.resolver import ResolvedModel
from geniex_runtimes import dispatcher
from geniex_runtimes.contract import (
    HardwareProfile,
)
from geniex_runtimes.planning import (
    Plan,
    Wish,
)
from tests.geniex_runtimes.models import (
    ADRENO,
    CUDA0,
    CUDA1,
    GB,
    HERE,
    HTP0,
    HTP1,
    VULKAN0,
    machine,
)

SNAPDRAGON = machine(HTP0, ADRENO, chipset="qualcomm-snapdragon-x-elite")
TWO_SESSIONS = machine(HTP0, HTP1, ADRENO, chipset="qualcomm-snapdragon-x-elite")
RB3 = machine(HTP0, ADRENO, total=6 * GB, free=5 * GB, chipset="qualcomm-qcs6490")
PLAIN = machine()
GAMER = machine(CUDA0)
TWO_CARDS = machine(CUDA0, CUDA1, VULKAN0)
SMALL = machine(total=4 * GB, free=3 * GB)


def plan(given_model: ResolvedModel, hardware: HardwareProfile, wish: Wish | None = None) -> Plan:
    """The plan where llama.cpp is here, and no other runtime."""
    return dispatcher.plan(given_model, hardware, HERE, wish or Wish())
