"""`geniex bench` with a scripted runtime: what it measures, writes, refuses, and keeps."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from geniex.bench.asking import Asker, Sample
from geniex_catalogue.errors import LoadError
from geniex_runtimes.contract import SPEC_FALLBACK
from geniex_runtimes.errors import GenerationError
from geniex_runtimes.fake import FakeModel, FakeRuntime, Script
from geniex_runtimes.options import LoadOptions
from tests.cliharness import Cli, Result
from tests.geniex.bench.results import case, result, row

Install = Callable[[FakeRuntime], FakeRuntime]

SMALL = ("--prompt-tokens", "32", "--tokens", "4", "--repeat", "2")
NGRAM = ("--spec-type", "ngram-simple")
MTP = ("--spec-type", "draft-mtp", "--draft-model", "tiny-draft")
DRAFTED = Script(drafts=((3, 3), (3, 1)))


class Paced(FakeRuntime):
    """Decodes faster where it speculates."""

    def load(self, *args: Any, **kwargs: Any) -> FakeModel:
        options: LoadOptions = args[1]
        fast = bool(options.speculative.types)
        self.scripts = (Script(delay=0.0 if fast else 0.005),)
        return super().load(*args, **kwargs)


@pytest.fixture
def install(scripted: Install, data_dir: Path) -> Callable[..., FakeRuntime]:
    def make(*scripts: Script, **how: Any) -> FakeRuntime:
        return scripted(FakeRuntime(*(scripts or (DRAFTED,)), name="llama_cpp", **how))

    return make


@pytest.fixture
def runtime(install: Callable[..., FakeRuntime]) -> FakeRuntime:
    return install()


def measure(cli: Cli, *args: str) -> Result:
    return cli("bench", "tiny", *SMALL, *args)


class TestMeasuring:
    def test_a_table(self, cli: Cli, runtime: FakeRuntime) -> None:
        found = measure(cli, *MTP, "--draft-tokens", "1,2")
        assert found.code == 0
        speeds, loads = (part.splitlines() for part in found.out.split("\n\n"))
        assert speeds[0].split()[:4] == ["model", "settings", "prompt", "prefill"]
        names = ["plain", "draft-mtp 1", "draft-mtp 2", "draft-mtp adaptive"]
        for lines in (speeds, loads):
            assert [line.split("  ")[1].strip() for line in lines[1:]] == names
        assert "67%" in speeds[2]

    def test_a_terminal_is_told_the_model_once(
        self, cli: Cli, runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("geniex.cli.bench_report.has_colour", lambda stream: True)
        monkeypatch.setenv("COLUMNS", "120")
        lines = measure(cli, *NGRAM).out.splitlines()
        assert lines[0].strip() == "geniex/tiny-chat:Q8_0"
        assert lines[1].startswith("settings") and lines[2].startswith("plain")

    def test_settings_are_measured_in_turns(self, cli: Cli, runtime: FakeRuntime) -> None:
        assert measure(cli, *NGRAM, "--draft-tokens", "2").code == 0
        kinds = [(one.speculative.types, one.speculative.adapt) for one in runtime.loads]
        plain, fixed, adaptive = ((), True), (("ngram-simple",), False), (("ngram-simple",), True)
        # alone twice, for load time and memory, then side by side
        assert kinds == [plain, fixed, adaptive] * 3
        assert {one.speculative.n_max for one in runtime.loads[1:3]} == {2}

    def test_json_holds_every_value(self, cli: Cli, runtime: FakeRuntime) -> None:
        found = measure(cli, *NGRAM, "--depth", "0,16", "--parallel", "1,2", "--json").json
        assert found["complete"] and found["machine"]["cpu"] == "Scripted CPU"
        plain, other = found["cases"]
        assert (plain["label"], other["label"]) == ("plain", "ngram-simple adaptive")
        assert (plain["first"], other["speculation"]) == (True, ["ngram-simple"])
        shapes = [(r["depth"], r["parallel"]) for r in plain["rows"]]
        assert shapes == [(0, 1), (16, 1), (0, 2), (16, 2)]
        for one in other["rows"]:
            for speed in ("prefill_speed", "decode_speed", "total_speed", "ttft"):
                assert len(one[speed]["values"]) == 2
            assert one["answered"] == [4 * one["parallel"]] * 2
            assert one["ratio"]["decode_speed"]["median"] > 0
        assert len(plain["load_time"]["values"]) == 2 and plain["memory"]["median"] >= 0

    def test_csv(self, cli: Cli, runtime: FakeRuntime) -> None:
        lines = list(csv.DictReader(measure(cli, "--csv").out.splitlines()))
        [line] = lines
        assert (line["prompt_tokens"], line["answered"], line["complete"]) == ("32", "8", "1")

    def test_the_same_is_asked_of_each(self, cli: Cli, monkeypatch: pytest.MonkeyPatch,
                                       runtime: FakeRuntime) -> None:  # fmt: skip
        seen: list[tuple[str, int]] = []
        sample = Asker.sample

        def spy(self: Asker, shape: Any, tokens: int, seed: int) -> Sample:
            loaded = self._loaded
            seen.append((",".join(loaded.info.speculation), seed))
            return sample(self, shape, tokens, seed)

        monkeypatch.setattr(Asker, "sample", spy)
        assert measure(cli, *NGRAM).code == 0
        assert [one for one in seen if one[1] > 0] == [
            *(("", 1), ("ngram-simple", 1), ("ngram-simple", 2), ("", 2)),
        ]

    def test_several_models(self, cli: Cli, runtime: FakeRuntime, tiny_chat: Path) -> None:
        found = cli("bench", "tiny", str(tiny_chat), *SMALL, "--json").json
        names = [case["model"] for case in found["cases"]]
        assert names == ["geniex/tiny-chat:Q8_0", str(tiny_chat)]
        assert all(case["first"] for case in found["cases"])

    def test_a_model_of_two_names_is_measured_once(self, cli: Cli, runtime: FakeRuntime) -> None:
        names = ("tiny", "geniex/tiny-chat:Q8_0")
        found = cli("bench", *names, *SMALL, *NGRAM, "--spec-type", "NGRAM-simple", "--json")
        assert [case["label"] for case in found.json["cases"]] == [
            *("plain", "ngram-simple adaptive"),
        ]
        assert "`geniex/tiny-chat:Q8_0` is named twice, and measured once" in found.err

    def test_answers_that_end_early_are_held_back(
        self, cli: Cli, install: Callable[..., FakeRuntime]
    ) -> None:
        install(Script(("one",)))
        found = measure(cli, "--json")
        assert "end tokens were held back" in found.err
        # the script ends all the same: what is short is told too
        assert [note.split(": ")[1] for note in found.json["notes"]] == [
            *("the model ends its answers early", "some answers ended early"),
        ]


class TestNothingIsPassedOver:
    def test_speculation_that_is_not_set_up(
        self, cli: Cli, install: Callable[..., FakeRuntime]
    ) -> None:
        install(spec_failure="hidden sizes differ")
        found = measure(cli, *NGRAM, "--json")
        assert f"left out: {SPEC_FALLBACK}: hidden sizes differ" in found.err
        assert [case["label"] for case in found.json["cases"]] == ["plain"]

    def test_a_draft_that_is_damaged(self, cli: Cli, runtime: FakeRuntime, tmp_path: Path) -> None:
        (tmp_path / "d.gguf").write_bytes(b"no model")
        found = measure(cli, "--spec-type", "draft-mtp", "--draft-model", str(tmp_path / "d.gguf"))
        assert found.code == 0 and "it would be plain decoding" in found.err

    @pytest.mark.parametrize(
        ("args", "told"),
        [
            pytest.param(("--nctx", "32"), "context of 32 tokens", id="too long"),
            pytest.param(("--prompt-tokens", "many"), "whole numbers", id="words"),
            pytest.param(("--parallel", "0"), "whole numbers from 1", id="nobody"),
            pytest.param(("--parallel", "1,257"), "numbers from 1 to 256", id="everybody"),
            pytest.param(("--draft-tokens", "2"), "without a type", id="tokens alone"),
            pytest.param(("--json", "--csv"), "not both", id="two forms"),
            pytest.param(("--plot", "a.gif"), ".png or .svg", id="a picture of no kind"),
            pytest.param(("--save-best",), "nothing to choose from", id="one setting"),
            pytest.param(("-c", "cup"), "unknown compute `cup`", id="unit"),
        ],
    )
    def test_wrong_use(
        self, cli: Cli, runtime: FakeRuntime, args: tuple[str, ...], told: str
    ) -> None:
        found = measure(cli, *args)
        assert (found.code, found.out) == (2, "") and told in found.err
        assert not runtime.loads

    def test_a_unit_that_is_not_here(self, cli: Cli, runtime: FakeRuntime) -> None:
        found = measure(cli, "-c", "npu", "-c", "cpu", *NGRAM, "--json")
        assert found.code == 0 and found.err.count("npu` is left out: nothing here can run") == 1
        assert [case["label"] for case in found.json["cases"]] == [
            *("cpu", "cpu, ngram-simple adaptive"),
        ]
        alone = measure(cli, "-c", "npu", "-c", "gpu")
        assert (alone.code, alone.out) == (1, "") and "Error: nothing here can run" in alone.err

    def test_a_model_that_is_not_here(self, cli: Cli, runtime: FakeRuntime) -> None:
        assert cli("bench", "tny").code == 3

    def test_bundles_answer_one_at_a_time_and_do_not_speculate(
        self, cli: Cli, scripted: Install, data_dir: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from geniex_runtimes import registry
        from tests.geniex.cli.test_speculation import _on_npu

        scripted(FakeRuntime(DRAFTED, name="qairt"))
        monkeypatch.setattr(registry, "BUILT_IN", {"qairt": "scripted_runtime:make"})
        monkeypatch.setattr(registry, "_PACKAGES", {})
        _on_npu(monkeypatch)
        found = measure(cli, *NGRAM, "--json")
        assert "ignoring for runtime qairt" in found.err and "left out" in found.err
        assert [case["runtime"] for case in found.json["cases"]] == ["qairt"]


class TestFailures:
    def test_a_model_that_does_not_load(
        self, cli: Cli, install: Callable[..., FakeRuntime]
    ) -> None:
        install(load_error=LoadError("no memory"))
        found = measure(cli, "--json")
        assert (found.code, found.json["complete"], found.json["cases"]) == (1, False, [])
        assert found.err.startswith("Error: no memory\n")

    def test_what_others_gave_is_told(self, cli: Cli, scripted: Install, data_dir: Path) -> None:
        class Picky(FakeRuntime):
            def load(self, *args: Any, **kwargs: Any) -> FakeModel:
                if args[1].speculative.types:
                    raise LoadError("not this one")
                return super().load(*args, **kwargs)

        scripted(Picky(name="llama_cpp"))
        found = measure(cli, *NGRAM, "--save-best")
        assert found.code == 1 and "plain" in found.out
        assert "Error: not this one" in found.err and "no best settings" in found.err

    def test_an_answer_that_fails_midway(
        self, cli: Cli, install: Callable[..., FakeRuntime]
    ) -> None:
        bad = Script(error=GenerationError("decode failed"), error_after=2)
        install(DRAFTED, bad)
        found = measure(cli, "--json")
        assert found.code == 1 and "Error: decode failed" in found.err
        [case] = found.json["cases"]
        assert case["load_time"]["values"] and not found.json["complete"]


class TestInterrupted:
    @pytest.fixture(autouse=True)
    def _interrupt(self, runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
        sample = Asker.sample

        def third(self: Asker, shape: Any, tokens: int, seed: int) -> Sample:
            if seed == 2:
                raise KeyboardInterrupt
            return sample(self, shape, tokens, seed)

        monkeypatch.setattr(Asker, "sample", third)

    def test_what_is_there_is_told(self, cli: Cli) -> None:
        found = measure(cli)
        assert found.code == 130 and "plain" in found.out
        assert "Warning: incomplete" in found.err

    def test_json_says_so(self, cli: Cli) -> None:
        found = measure(cli, *NGRAM, "--json", "--save-best")
        assert (found.code, found.json["complete"]) == (130, False)
        assert len(found.json["cases"][0]["rows"][0]["decode_speed"]["values"]) == 1
        assert "no best settings are kept" in found.err
        assert cli("config", "list").out == ""


class TestBest:
    @pytest.fixture(autouse=True)
    def _kept(self, cli: Cli, scripted: Install, data_dir: Path) -> None:
        self.runtime = scripted(Paced(name="llama_cpp"))
        self.saved = cli(
            *("bench", "tiny", "--prompt-tokens", "8", "--tokens", "4", "--repeat", "6"),
            *(*MTP, "--draft-tokens", "2", "--save-best", "--warmup", "0"),
        )

    def asked(self, cli: Cli, *args: str) -> tuple[Result, LoadOptions]:
        found = cli("infer", "tiny", "-p", "hi", *args)
        return found, self.runtime.loads[-1]

    def test_it_is_kept_used_and_told(self, cli: Cli) -> None:
        assert self.saved.code == 0 and "is the fastest" in self.saved.err
        listed = cli("config", "list").out
        assert listed.startswith("best.geniex/tiny-chat:Q8_0: spec_type=draft-mtp draft_model=")
        assert cli("config", "get", "best.geniex/tiny-chat:Q8_0").out in listed
        found, options = self.asked(cli)
        assert options.speculative.types == ("draft-mtp",) and options.speculative.n_max == 2
        assert options.draft is not None
        [line] = [line for line in found.err.splitlines() if "best settings" in line]
        assert line.startswith("best settings of `geniex bench`: spec_type=draft-mtp")

    def test_flags_win_and_it_can_be_unset(self, cli: Cli) -> None:
        for flags in (("--spec-type", "none"), NGRAM):
            found, options = self.asked(cli, *flags)
            assert "draft-mtp" not in options.speculative.types
            assert "best settings" not in found.err
        key = "best.geniex/tiny-chat:Q8_0"
        assert cli("config", "unset", key).code == 0
        assert self.asked(cli)[1].speculative.types == ()
        assert cli("config", "list").out == ""
        again = cli("config", "unset", key)
        assert again.code == 2 and "is not set" in again.err


class TestBestIsKeptWhereItIsKnown:
    TWO = ("bench", "tiny", "--prompt-tokens", "8", "--tokens", "4", "--warmup", "0", "--save-best")

    def test_too_few_rounds_keep_nothing(self, cli: Cli, runtime: FakeRuntime) -> None:
        found = cli(*self.TWO, "--threads", "2,1", "--repeat", "2", "-q")
        assert found.code == 0 and "take 5 rounds to tell" in found.err
        assert "no best settings are kept" in found.err and cli("config", "list").out == ""

    def test_what_was_left_out_was_not_compared(
        self, cli: Cli, install: Callable[..., FakeRuntime]
    ) -> None:
        install(spec_failure="hidden sizes differ")
        found = cli(*self.TWO, *NGRAM, "--repeat", "6")
        assert "nothing to choose from" in found.err and cli("config", "list").out == ""

    def test_a_draft_is_found_from_every_folder(
        self,
        cli: Cli,
        scripted: Install,
        tmp_path: Path,
        tiny_chat_draft: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        scripted(Paced(name="llama_cpp"))
        (tmp_path / "d.gguf").write_bytes(tiny_chat_draft.read_bytes())
        monkeypatch.chdir(tmp_path)
        draft = ("--spec-type", "draft-mtp", "--draft-model", "./d.gguf")
        assert cli(*self.TWO, *draft, "--repeat", "6").code == 0
        assert f"draft_model={(tmp_path / 'd.gguf').resolve()}" in cli("config", "list").out


class TestCompare:
    @pytest.fixture
    def files(self, tmp_path: Path) -> list[str]:
        made = []
        for name, factor in (("a.json", 1), ("b.json", 2)):
            values = [factor * value for value in (10.0, 11, 12, 13, 14)]
            path = tmp_path / name
            path.write_text(json.dumps(result(case("plain", row(decode=values))).as_dict()))
            made.append(str(path))
        return made

    def test_a_table_and_a_verdict(self, cli: Cli, files: list[str]) -> None:
        found = cli("bench", "--compare", *files)
        assert (found.code, found.err) == (0, "")
        assert "2.00x (1.43-2.80)  faster" in found.out
        assert found.out.splitlines()[-1].endswith("a.json: faster (decode tok/s 2.00x)")

    def test_json(self, cli: Cli, files: list[str]) -> None:
        assert cli("bench", "--compare", *files, "--json").json["verdict"] == "faster"

    @pytest.mark.parametrize(
        "args",
        [
            pytest.param((), id="no files"),
            pytest.param(("a.json",), id="one"),
            pytest.param(("a.json", "b.json"), id="not there"),
        ],
    )
    def test_wrong_use(self, cli: Cli, args: tuple[str, ...]) -> None:
        assert cli("bench", "--compare", *args).code == 2

    def test_a_flag_that_would_do_nothing(self, cli: Cli, files: list[str]) -> None:
        found = cli("bench", "--compare", *files, "--repeat", "5")
        assert found.code == 2 and "`--repeat` does nothing" in found.err


def test_the_built_in_pair_for_real(cli: Cli, data_dir: Path) -> None:
    found = measure(cli, *MTP, "--json", "--repeat", "1", "--warmup", "0")
    assert found.code == 0
    plain, fixed = found.json["cases"]
    assert plain["rows"][0]["prefill_speed"]["median"] > 0
    assert fixed["speculation"] == ["draft-mtp"] and fixed["rows"][0]["accepted"] is not None
    assert fixed["rows"][0]["answered"] == plain["rows"][0]["answered"]
