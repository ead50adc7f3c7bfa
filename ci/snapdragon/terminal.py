"""What the command line is to show of a bundle."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ci.environment import child_environment
from ci.snapdragon.report import Facts, FailedError, expect

QUESTION, WORD = "What is the capital of France?", "Paris"
SIMULATOR = "HTP simulator"
_PATIENCE = 900.0  # seconds; a first load on a device compiles nothing, but reads gigabytes


@dataclass(frozen=True, slots=True)
class Geniex:
    """The commands of geniex, by this interpreter, with `model` in the data folder."""

    model: str
    data_dir: Path | None = None

    def command(self, *words: str) -> list[str]:
        """The command line for these words."""
        place = [] if self.data_dir is None else ["--data-dir", str(self.data_dir)]
        return [sys.executable, "-m", "geniex", *words, *place]

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """Run a command to its end."""
        return subprocess.run(
            self.command(*words),
            env=child_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_PATIENCE,
            check=False,
        )

    def json(self, *words: str) -> Any:
        """What a command writes with `--json`. Raises FailedError where it fails."""
        done = self.run(*words, "--json")
        if done.returncode != 0:
            raise FailedError(f"`geniex {words[0]}` says: {done.stderr.strip()[-500:]}")
        return json.loads(done.stdout)

    def ask(self, *flags: str) -> Any:
        """The question, greedily, with further flags."""
        how = ("--temperature", "0", "--max-tokens", "128", "--no-think")
        return self.json("infer", self.model, "-p", QUESTION, *how, *flags)


def machine(geniex: Geniex) -> Facts:
    """What geniex finds here."""
    devices = geniex.json("devices")
    mine = [one for one in devices["devices"] if one["runtime"] == "qairt"]
    return {
        "system": f"{devices['system']} on {devices['machine']}, {devices['cpu']}",
        "chipset": devices["chipset"] or "no known Snapdragon",
        "geniex": geniex.json("version"),
        "device": ", ".join(one["name"] for one in mine) or "none",
        "simulated": any(one["name"] == SIMULATOR for one in mine),
        "probes": {one["probe"]: one["found"] or one["reason"] for one in devices["probes"]},
    }


def is_there(geniex: Geniex, found: Facts) -> Facts:
    """There is a device that bundles run on."""
    reason = found["probes"].get("runtime qairt")
    expect(found["device"] != "none", f"no device for bundles: {reason}")
    return {"device": found["device"], "qairt": found["geniex"]["runtimes"]["qairt"]}


def pulled(geniex: Geniex, bundle: Path | None) -> Facts:
    """The bundle arrives in the store, from the hub or from a file."""
    source = () if bundle is None else ("--local-path", str(bundle))
    done = geniex.run("pull", geniex.model, *source, "--yes")
    expect(done.returncode == 0, done.stderr.strip()[-500:])
    plan = geniex.json("doctor", geniex.model)["plan"]
    return {"model": geniex.model, "context": plan["context_length"], "runs on": plan["devices"]}


def answers(geniex: Geniex) -> Facts:
    """A right answer, twice the same, with its speeds in tokens per second."""
    first, second = geniex.ask(), geniex.ask()
    expect(WORD in first["answer"], f"the answer is {first['answer']!r}")
    expect(first["answer"] == second["answer"], "the same question has two greedy answers")
    times = second["timings"]
    return {
        "answer": first["answer"],
        "prompt tok/s": round(times["prompt_speed"], 1),
        "decode tok/s": round(times["decode_speed"], 1),
        "ttft": round(times["ttft"], 3),
    }


def engines_agree(geniex: Geniex) -> Facts:
    """Both engines give the same greedy answer."""
    genie, ort = (geniex.ask("--qairt-engine", engine) for engine in ("genie", "ort"))
    expect(genie["answer"] == ort["answer"], f"{genie['answer']!r} and {ort['answer']!r}")
    return {"ort tok/s": round(ort["timings"]["decode_speed"], 1)}


def what_is_ignored_is_said(geniex: Geniex) -> Facts:
    """Speculation, another unit and another context are ignored, each with one warning."""
    told = geniex.ask("--compute", "gpu", "--nctx", "333", "--spec-type", "auto")["warnings"]
    for word in ("speculative decoding", "ignoring device='gpu'", "--nctx 333"):
        count = sum(word in text for text in told)
        expect(count == 1, f"{count} warnings about `{word}`: {told}")
    return {"warnings": len(told)}


def requires_the_npu(geniex: Geniex, simulated: bool) -> Facts:
    """`--require npu` runs on a device, and is refused on the simulator."""
    done = geniex.run(
        "infer", geniex.model, "-p", QUESTION, "--max-tokens", "1", "--require", "npu"
    )
    if not simulated:
        expect(done.returncode == 0, done.stderr.strip()[-500:])
        return {"on": "the NPU"}
    expect("the HTP simulator is not an NPU" in done.stderr, done.stderr.strip()[-500:])
    return {"refused": "the HTP simulator is not an NPU"}
