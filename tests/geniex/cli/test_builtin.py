"""`geniex infer` for real: llama.cpp and the built-in pair, by every way in."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cliharness import Cli
from tests.hubserver import HubServer
from tests.terminal import ROOT, environment

QUESTION = "What is the capital of France?"
ANSWER = "The capital of France is Paris.\n"


@pytest.fixture(scope="module")
def shared_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One data folder for all, so that the self-test of llama.cpp runs once."""
    return tmp_path_factory.mktemp("data")


@pytest.fixture(autouse=True)
def _here(shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GENIEX_DATADIR", str(shared_data))


def test_every_way_in_gives_the_same_text(cli: Cli, tiny_chat: Path, tmp_path: Path) -> None:
    greedy = ("--temperature", "0", "-q")
    file = tmp_path / "question"
    file.write_text(QUESTION)
    imported = cli("pull", "local/tiny", "--local-path", str(tiny_chat), "--link")
    assert imported.code == 0
    for result in (
        cli("infer", "-p", QUESTION, *greedy),
        cli("infer", "tiny-chat", "-p", QUESTION, *greedy),
        cli("infer", str(tiny_chat), "-p", QUESTION, *greedy),
        cli("infer", "local/tiny", "-p", QUESTION, *greedy),
        cli("infer", *greedy, stdin=QUESTION.encode()),
        cli("infer", "-p", "-", *greedy, stdin=QUESTION.encode()),
        cli("infer", "-i", str(file), *greedy),
    ):
        assert (result.code, result.out, result.err) == (0, ANSWER, "")
    assert cli("infer", "-p", QUESTION, "--temperature", "0", "--json").json["answer"] == (
        ANSWER.strip()
    )


def test_the_second_turn_uses_the_first(cli: Cli) -> None:
    found = cli("infer", "-p", QUESTION, "-p", "What is 2 plus 3?", "--temperature", "0", "--json")
    usage = found.json["turns"][1]["usage"]
    assert usage["cached_tokens"] > 0
    assert usage["cached_tokens"] + usage["prefilled_tokens"] == usage["prompt_tokens"]
    assert found.json["answer"] == "2 plus 3 is 5."


def test_json_is_json(cli: Cli) -> None:
    for seed in ("1", "2", "3"):
        flags = ("--enable-json", "--seed", seed, "--max-tokens", "400", "--json")
        found = cli("infer", "-p", "Give me an object", *flags).json
        if found["finish_reason"] == "stop":
            assert isinstance(json.loads(found["answer"]), dict)
        else:
            assert found["answer"].startswith("{") and "|>" not in found["answer"]


def test_a_seed_repeats(cli: Cli) -> None:
    def told(seed: str) -> str:
        return cli("infer", "-p", "Tell me a story.", "--temperature", "1", "--seed", seed).out

    assert told("7") == told("7")
    assert len({told(seed) for seed in ("1", "2", "3", "4")}) > 1


def test_a_context_that_is_too_short(cli: Cli) -> None:
    result = cli("infer", "-p", "word " * 500, "--nctx", "256")
    assert (result.code, result.out) == (1, "")
    assert "context_length_exceeded" in result.err and "--nctx" in result.err


def test_a_smaller_kv_cache(cli: Cli) -> None:
    flags = ("--kv-type", "Q8_0", "--temperature", "0", "--verbose")
    result = cli("infer", "-p", QUESTION, *flags)
    assert (result.code, result.out) == (0, ANSWER) and "kv=q8_0" in result.err
    half, small = (cli("doctor", "--kv-type", kind) for kind in ("f16", "q4_0"))
    assert "KV cache" not in half.out and "tokens, KV cache in q4_0" in small.out
    cli("config", "set", "kv_type", "q4_0")
    assert cli("info", "tiny", "--json").json["kv_type"] == "q4_0"
    cli("config", "unset", "kv_type")


@pytest.mark.parametrize("flag", ["--no-mmap", "--mmap", "--flash-attn=off"])
def test_how_weights_are_held_changes_no_answer(cli: Cli, flag: str) -> None:
    result = cli("infer", "-p", QUESTION, "--temperature", "0", flag)
    assert (result.code, result.out) == (0, ANSWER)


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (("--kv-type", "q9"), "`q9` is no type of a KV cache"),
        (("--flash-attn", "maybe"), "`maybe` is no setting of flash attention"),
        (("--kv-type", "q8_0", "--flash-attn", "off"), "needs flash attention"),
    ],
)
@pytest.mark.parametrize("command", [("infer", "-p", "hi"), ("doctor",), ("bench",)], ids=" ".join)
def test_a_cache_that_cannot_be(
    cli: Cli, command: tuple[str, ...], flags: tuple[str, ...], told: str
) -> None:
    result = cli(*command, *flags)
    assert (result.code, result.out) == (2, "") and told in result.err


def test_as_a_process(shared_data: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "geniex", "infer", "-p", QUESTION, "--temperature", "0"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        cwd=ROOT,
        env=environment(),
        check=False,
    )
    assert (done.returncode, done.stdout.decode()) == (0, ANSWER)
    labels = [line.split(":")[0] for line in done.stderr.decode().splitlines() if line]
    assert labels[0] == "total time" and labels[-1] == "stop reason"


def test_devices_and_doctor_look_for_real(cli: Cli) -> None:
    assert cli("devices").code == 0
    found = cli("doctor", "--json").json
    assert found["plan"]["needed_memory"] < found["plan"]["available_memory"]
    assert any(probe["probe"] == "extra buffers" for probe in found["machine"]["probes"])


class TestSpeculation:
    OWL = "Tell me about the owl."
    MTP = ("--spec-type", "draft-mtp", "--draft-model", "geniex/tiny-chat-draft")

    @staticmethod
    def accepted(err: str) -> tuple[int, int]:
        """What the last line of the profile says: accepted, proposed."""
        found = re.fullmatch(
            r"draft accept:   (\d+)/(\d+) \((\d+\.\d)%\)", err.rstrip().splitlines()[-1]
        )
        assert found is not None, err
        accepted, proposed = int(found[1]), int(found[2])
        assert found[3] == f"{100 * accepted / proposed:.1f}"
        return accepted, proposed

    @pytest.mark.parametrize(
        "sampling",
        [("--temperature", "0"), ("--temperature", "0.8", "--seed", "7")],
        ids=["greedy", "seeded"],
    )
    @pytest.mark.parametrize("how", ["tutorial", "path", "auto", "fixed"])
    def test_the_same_text_and_drafts_that_were_accepted(
        self, cli: Cli, tiny_chat_draft: Path, sampling: tuple[str, ...], how: str
    ) -> None:
        flags = {
            "tutorial": (*self.MTP, "--draft-tokens", "3"),
            "path": (*self.MTP[:3], str(tiny_chat_draft)),
            "auto": ("--spec-type", "auto"),
            "fixed": (*self.MTP, "--no-draft-adapt", "--require-spec"),
        }[how]
        ask = ("infer", "geniex/tiny-chat", "-p", self.OWL, *sampling)
        plain, drafted = cli(*ask), cli(*ask, *flags)
        assert drafted.code == 0 and drafted.out == plain.out != ""
        accepted, proposed = self.accepted(drafted.err)
        assert 0 < accepted <= proposed
        if how == "fixed":
            assert 0.5 < accepted / proposed < 0.9

    def test_the_tutorial_from_the_first_pull(
        self, cli: Cli, hub: HubServer, tiny_chat: Path, tiny_chat_draft: Path
    ) -> None:
        target = "google/gemma-4-26B-A4B-it-qat-q4_0-gguf"
        draft = "RachidAR/gemma-4-26B-A4B-it-qat-assistant-q4_0-gguf"
        files = {"gemma-4-26B_q4_0-it.gguf": tiny_chat, "mmproj-model-f16.gguf": tiny_chat_draft}
        hub.add(target, {name: path.read_bytes() for name, path in files.items()})
        assistant = "gemma-4-26B-A4B-it-qat-assistant-q4_0.gguf"
        hub.add(draft, {assistant: tiny_chat_draft.read_bytes()})
        assert cli("pull", f"{target}:Q4_0").code == 0
        assert cli("pull", f"{draft}:Q4_0").code == 0
        seen = len(hub.seen)
        flags = ("--spec-type", "draft-mtp", "--draft-model", f"{draft}:Q4_0", "--draft-tokens")
        greedy = ("--temperature", "0")
        result = cli("infer", f"{target}:Q4_0", *flags, "3", *greedy, stdin=self.OWL.encode())
        assert result.code == 0 and "owl" in result.out
        assert self.accepted(result.err)[0] > 0
        assert len(hub.seen) == seen
        chosen = cli("infer", target, "--spec-type", "auto", "-p", self.OWL, "--json").json
        assert chosen["speculation"]["draft_model"] == f"{draft}:Q4_0"

    def test_json_counts(self, cli: Cli) -> None:
        ask = ("infer", "tiny", "-p", self.OWL, "-p", ANSWER, "--temperature", "0", "--json")
        plain, drafted = cli(*ask).json, cli(*ask, *self.MTP, "--no-draft-adapt").json
        for one, other in zip(plain["turns"], drafted["turns"], strict=True):
            assert one["answer"] == other["answer"] and one["usage"] == other["usage"]
            found = other["speculation"]
            assert found["types"] == ["draft-mtp"] and found["state"] == "on"
            assert found["accepted"] == sum(found["accepted_at"])
            assert found["accepted"] + found["rejected"] == found["proposed"] > 0
            # tokens without a draft (the first, the last of a budget) come one at a time
            assert found["accepted"] + found["steps"] <= other["usage"]["completion_tokens"]
            assert 1 < found["tokens_per_step"] <= 4
            assert found["draft_time"] > 0 and found["verify_time"] > 0

    def test_a_pair_that_does_not_fit(self, cli: Cli, toys: Path) -> None:
        ask = ("infer", "tiny", "-p", self.OWL, "--temperature", "0")
        draft = ("--spec-type", "draft-mtp", "--draft-model", str(toys / "g4-markov-draft.gguf"))
        plain, fallen = cli(*ask), cli(*ask, *draft)
        assert (fallen.code, fallen.out) == (0, plain.out)
        assert fallen.err.count("speculative decoding setup failed; falling back to plain") == 1
        assert "draft accept" not in fallen.err
        required = cli(*ask, *draft, "--require-spec")
        assert (required.code, required.out) == (1, "")
        assert required.err.startswith("Error: ")
