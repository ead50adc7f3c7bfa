"""Speculation at the command line with a scripted runtime: what is asked of it, what is told."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from geniex.cli.commands import Commands
from geniex.cli.conversation import Conversation
from geniex.cli.output import Output
from geniex.config import Settings
from geniex.session import AnswerOptions, OpenModel, open_model
from geniex.speculation import MEDIA_IGNORED
from geniex.speculation_wish import read_wish
from geniex_catalogue.errors import UsageError
from geniex_catalogue.hubs.localfs import import_path
from geniex_catalogue.names import ModelRef
from geniex_catalogue.store import Store
from geniex_runtimes.contract import SPEC_FALLBACK
from geniex_runtimes.fake import FakeModel, FakeRuntime, Script
from geniex_runtimes.options import SpeculativeOptions
from tests.cliharness import Cli
from tests.hubserver import HubServer

Install = Callable[[FakeRuntime], FakeRuntime]

BIG = "google/gemma-4-26B-A4B-it-qat-q4_0-gguf"
BIG_DRAFT = "RachidAR/gemma-4-26B-A4B-it-qat-assistant-q4_0-gguf"
DRAFTED = Script(("Hello",), drafts=((3, 3), (3, 1), (2, 0)))
MTP = ("--spec-type", "draft-mtp", "--draft-model", "geniex/tiny-chat-draft")


@pytest.fixture
def install(scripted: Install, data_dir: Path) -> Callable[..., FakeRuntime]:
    def make(script: Script = DRAFTED, **how: Any) -> FakeRuntime:
        return scripted(FakeRuntime(script, name="llama_cpp", **how))

    return make


@pytest.fixture
def runtime(install: Callable[..., FakeRuntime]) -> FakeRuntime:
    return install()


def ask(cli: Cli, *args: str) -> Any:
    return cli("infer", "tiny", "-p", "hi", *args)


def test_the_tutorials_flags_reach_the_runtime(
    cli: Cli, runtime: FakeRuntime, tiny_chat_draft: Path
) -> None:
    assert ask(cli, *MTP, "--draft-tokens", "3").code == 0
    options = runtime.loads[-1]
    assert options.speculative == SpeculativeOptions(("draft-mtp",), n_max=3)
    assert options.draft is not None and options.draft.path == tiny_chat_draft


def test_every_flag_reaches_the_runtime(cli: Cli, runtime: FakeRuntime) -> None:
    more = ("--draft-tokens", "5", "--draft-min", "2", "--draft-p-min", "0.5")
    assert ask(cli, *MTP, *more, "--no-draft-adapt", "--require-spec").code == 0
    assert runtime.loads[-1].speculative == SpeculativeOptions(
        ("draft-mtp",), n_max=5, n_min=2, p_min=0.5, adapt=False, require=True
    )


def test_without_flags_it_is_plain(cli: Cli, runtime: FakeRuntime) -> None:
    result = ask(cli)
    assert runtime.loads[-1].speculative == SpeculativeOptions()
    assert runtime.loads[-1].draft is None
    assert "draft accept" not in result.err and "speculation" not in result.err


def test_the_plan_counts_the_draft(cli: Cli, runtime: FakeRuntime, tiny_chat_draft: Path) -> None:
    alone = ask(cli, "--json").json["plan"]["needed_memory"]
    both = ask(cli, *MTP, "--json").json["plan"]["needed_memory"]
    assert both > alone + tiny_chat_draft.stat().st_size / 2


def test_the_last_line_of_the_profile(cli: Cli, runtime: FakeRuntime) -> None:
    result = ask(cli, *MTP)
    assert result.out == "Hello\n"
    assert result.err.rstrip().splitlines()[-1] == "draft accept:   4/8 (50.0%)"


@pytest.mark.parametrize(
    ("script", "lines"),
    [
        pytest.param(
            Script(drafts=((3, 1),), spec_state="reduced", spec_reason="1 token pays, 3 do not"),
            ["speculation:    reduced, 1 token pays, 3 do not", "draft accept:   1/3 (33.3%)"],
            id="reduced",
        ),
        pytest.param(
            Script(spec_state="off", spec_reason="plain is faster"),
            ["speculation:    off, plain is faster"],
            id="off",
        ),
        pytest.param(Script(), [], id="no drafts were made"),
    ],
)
def test_the_profile_says_what_became_of_it(
    cli: Cli, install: Callable[..., FakeRuntime], script: Script, lines: list[str]
) -> None:
    install(script)
    told = ask(cli, *MTP).err.rstrip().splitlines()
    assert [line for line in told if line.startswith(("speculation:", "draft"))] == lines


def test_json_tells_all(cli: Cli, runtime: FakeRuntime) -> None:
    result = ask(cli, *MTP, "--json")
    assert result.err == ""
    found = result.json["speculation"]
    assert found == result.json["turns"][0]["speculation"]
    assert found == {
        "types": ["draft-mtp"],
        "draft_model": "geniex/tiny-chat-draft:Q8_0",
        "choice": None,
        "state": "on",
        "reason": None,
        "steps": 3,
        "proposed": 8,
        "accepted": 4,
        "rejected": 4,
        "accepted_at": [2, 1, 1],
        "tokens_per_step": pytest.approx(7 / 3),
        "draft_time": 0.003,
        "verify_time": 0.003,
    }
    assert ask(cli, "--json").json["speculation"] is None
    assert ask(cli, "--spec-type", "none", "--json").json["speculation"] is None


@pytest.mark.parametrize("args", [("--json",), ("-q",), ()])
def test_auto_says_what_it_chose(cli: Cli, runtime: FakeRuntime, args: tuple[str, ...]) -> None:
    line = "speculation: draft-mtp, with geniex/tiny-chat-draft:Q8_0"
    result = ask(cli, "--spec-type", "auto", *args)
    assert runtime.loads[-1].speculative.types == ("draft-mtp",)
    assert (line in result.err.splitlines()) == (args != ("-q",))
    if args == ("--json",):
        assert result.json["speculation"]["choice"] == line


class TestSetUpFailure:
    @pytest.fixture(autouse=True)
    def _failing(self, install: Callable[..., FakeRuntime]) -> None:
        install(spec_failure="hidden sizes differ")

    def test_it_is_told_once_and_the_answer_comes(self, cli: Cli) -> None:
        result = ask(cli, *MTP)
        assert (result.code, result.out) == (0, "Hello\n")
        assert result.err.count(f"Warning: {SPEC_FALLBACK}: hidden sizes differ\n") == 1
        assert "draft accept" not in result.err

    def test_quiet_does_not_hide_it(self, cli: Cli) -> None:
        assert ask(cli, *MTP, "-q").err == f"Warning: {SPEC_FALLBACK}: hidden sizes differ\n"

    def test_json_says_why(self, cli: Cli) -> None:
        found = ask(cli, *MTP, "--json").json
        assert found["speculation"]["types"] == []
        assert found["speculation"]["state"] == "off"
        assert found["speculation"]["reason"] == f"{SPEC_FALLBACK}: hidden sizes differ"
        assert found["warnings"] == [f"{SPEC_FALLBACK}: hidden sizes differ"]

    def test_required_it_is_an_error(self, cli: Cli) -> None:
        result = ask(cli, *MTP, "--require-spec")
        assert (result.code, result.out) == (1, "")
        assert result.err.startswith("Error: hidden sizes differ\nhint: without `--require-spec`")


def test_a_damaged_draft_is_told_once(cli: Cli, runtime: FakeRuntime, tmp_path: Path) -> None:
    (tmp_path / "d.gguf").write_bytes(b"no model")
    flags = ("--spec-type", "draft-mtp", "--draft-model", str(tmp_path / "d.gguf"))
    result = ask(cli, *flags)
    assert (result.code, result.out) == (0, "Hello\n")
    assert result.err.count(SPEC_FALLBACK) == 1
    assert runtime.loads[-1].speculative.types == ()
    assert ask(cli, *flags, "--json").json["speculation"]["state"] == "off"
    assert ask(cli, *flags, "--require-spec").code == 1


@pytest.mark.parametrize(
    ("args", "told"),
    [
        pytest.param(("--spec-type", "draft-magic"), "draft-magic", id="unknown type"),
        pytest.param(("--draft-model", "a/b"), "--spec-type draft-mtp", id="draft alone"),
        pytest.param(("--draft-tokens", "2"), "does nothing", id="tokens alone"),
        pytest.param((*MTP, "--draft-tokens", "0"), "draft-tokens", id="no tokens"),
        pytest.param((*MTP, "--draft-tokens", "few"), "draft-tokens", id="words"),
        pytest.param((*MTP, "--draft-min", "-1"), "draft-min", id="negative"),
        pytest.param((*MTP, "--draft-min", "4"), "at most 3", id="min above the most"),
        pytest.param((*MTP, "--draft-p-min", "1.5"), "draft-p-min", id="p"),
        pytest.param((*MTP, "--draft-p-min", "nan"), "nan", id="nan"),
        pytest.param(
            ("--spec-type", "draft-mtp"), "--draft-model geniex/tiny-chat-draft:Q8_0", id="no draft"
        ),
    ],
)
def test_wrong_use(cli: Cli, runtime: FakeRuntime, args: tuple[str, ...], told: str) -> None:
    result = ask(cli, *args)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("Error: ") and told in result.err
    assert not runtime.loads


def test_the_runtime_of_bundles_ignores_it(
    cli: Cli, scripted: Install, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from geniex_runtimes import registry

    made = scripted(FakeRuntime(DRAFTED, name="qairt"))
    monkeypatch.setattr(registry, "BUILT_IN", {"qairt": "scripted_runtime:make"})
    monkeypatch.setattr(registry, "_PACKAGES", {})
    _on_npu(monkeypatch)
    result = ask(cli, "--spec-type", "draft-mtp", "--draft-model", "org/nowhere")
    assert (result.code, result.out) == (0, "Hello\n")
    assert result.err.startswith(
        "Warning: speculative decoding is only supported by llama_cpp; ignoring for runtime qairt\n"
    )
    assert made.loads[-1].speculative.types == ()


def _on_npu(monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    from geniex_runtimes import hardware
    from geniex_runtimes.contract import Device
    from tests.geniex.conftest import MACHINE

    machine = replace(MACHINE, devices=(Device("HTP0", "Scripted NPU", "npu", "qairt"),))
    monkeypatch.setattr(hardware, "probe", lambda data_dir: machine)


def test_a_model_with_a_projector_is_warned_of(
    cli: Cli, runtime: FakeRuntime, tmp_path: Path, tiny_chat: Path
) -> None:
    (tmp_path / "m.gguf").write_bytes(tiny_chat.read_bytes())
    (tmp_path / "mmproj-F16.gguf").write_bytes(b"")
    name = str(tmp_path / "m.gguf")
    speculating = cli("infer", name, "-p", "hi", "--spec-type", "ngram-simple")
    assert f"Warning: {MEDIA_IGNORED}\n" in speculating.err
    assert "VLM" not in cli("infer", name, "-p", "hi").err


class TestPulling:
    @pytest.fixture(autouse=True)
    def _hub(self, hub: HubServer, tiny_chat_draft: Path) -> None:
        hub.add(BIG_DRAFT, {"draft-Q4_0.gguf": tiny_chat_draft.read_bytes()})
        self.hub = hub

    def test_a_named_draft_is_pulled_as_models_are(
        self, cli: Cli, runtime: FakeRuntime, data_dir: Path
    ) -> None:
        flags = ("--spec-type", "draft-mtp", "--draft-model", f"{BIG_DRAFT}:Q4_0")
        result = ask(cli, *flags)
        assert result.code == 0 and f"`{BIG_DRAFT}:Q4_0` is not here yet" in result.err
        draft = runtime.loads[-1].draft
        assert draft is not None and draft.path.is_relative_to(data_dir)
        seen = len(self.hub.seen)
        assert ask(cli, *flags).code == 0 and len(self.hub.seen) == seen

    def test_a_draft_nobody_has_is_an_error(self, cli: Cli, runtime: FakeRuntime) -> None:
        result = ask(cli, "--spec-type", "draft-mtp", "--draft-model", "org/nowhere")
        assert result.code == 3 and not runtime.loads
        assert result.err.splitlines()[-2].startswith('Error: resolve draft model "org/nowhere": ')

    def test_a_draft_that_is_no_name_costs_no_download(
        self, cli: Cli, runtime: FakeRuntime, tiny_chat: Path
    ) -> None:
        self.hub.add("org/big", {"m-Q8_0.gguf": tiny_chat.read_bytes()})
        flags = ("--spec-type", "draft-mtp", "--draft-model", "tiny-draftt")
        result = cli("infer", "org/big", "-p", "hi", *flags)
        assert result.code == 3 and "did you mean `tiny-draft`" in result.err
        assert not self.hub.seen

    @pytest.mark.parametrize(
        ("name", "kind", "pulls"),
        [
            pytest.param(BIG, "draft-mtp", False, id="its draft is known"),
            pytest.param("org/repo", "draft-simple", False, id="never without a draft"),
            pytest.param("org/repo", "draft-mtp", True, id="it may have heads of its own"),
        ],
    )
    def test_a_missing_draft_is_told_before_the_pull(
        self, cli: Cli, runtime: FakeRuntime, name: str, kind: str, pulls: bool
    ) -> None:
        result = cli("infer", name, "-p", "hi", "--spec-type", kind)
        assert bool(self.hub.seen) == pulls
        assert pulls or (result.code == 2 and f"{kind} needs a draft model" in result.err)

    @pytest.mark.parametrize("yes", [True, False])
    def test_what_auto_would_like_needs_a_yes(
        self, cli: Cli, runtime: FakeRuntime, data_dir: Path, tiny_chat: Path, yes: bool
    ) -> None:
        import_path(ModelRef(*BIG.split("/")), tiny_chat, Store(data_dir))
        args = ("--yes",) if yes else ()
        result = cli("infer", BIG, "-p", "hi", "--spec-type", "auto", *args)
        kinds = runtime.loads[-1].speculative.types
        assert kinds == (("draft-mtp",) if yes else ("ngram-simple",))
        assert bool(self.hub.seen) == yes
        assert yes or f"`geniex pull {BIG_DRAFT}:Q4_0`" in result.err


class TestChat:
    @pytest.fixture
    def conversation(self, runtime: FakeRuntime, tmp_path: Path) -> Iterator[Conversation]:
        wish = read_wish("draft-mtp,ngram-simple", "tiny-draft", draft_tokens=4)
        with open_model("tiny", Settings(data_dir=tmp_path), wish=wish) as model:
            yield Conversation(model, Output(), AnswerOptions())

    @staticmethod
    def asked(conversation: Conversation) -> SpeculativeOptions | None:
        conversation.ask("hi")
        assert isinstance(conversation.model, OpenModel)
        loaded = conversation.model.loaded
        assert isinstance(loaded, FakeModel)
        return loaded.requests[-1].speculative

    def test_it_is_as_loaded_until_set(self, conversation: Conversation) -> None:
        assert self.asked(conversation) is None

    @pytest.mark.parametrize(
        ("line", "name", "value"),
        [
            ("/set speculation off", "types", ()),
            ("/set speculation on", "types", ("ngram-simple", "draft-mtp")),
            ("/set draft_tokens 2", "n_max", 2),
            ("/set draft_min 1", "n_min", 1),
            ("/set draft-p-min 0.25", "p_min", 0.25),
            ("/set draft_adapt off", "adapt", False),
        ],
    )
    def test_set(self, conversation: Conversation, line: str, name: str, value: object) -> None:
        commands = Commands(conversation)
        commands.run(line)
        chosen = self.asked(conversation)
        assert chosen is not None and getattr(chosen, name) == value
        commands.run(f"{line.rpartition(' ')[0]} default")
        assert self.asked(conversation) == conversation.facts.speculative

    @pytest.mark.parametrize(
        "line",
        [
            "/set draft_tokens 5",
            "/set draft_tokens 0",
            "/set draft_tokens many",
            "/set draft_p_min 2",
            "/set draft_p_min nan",
            "/set draft_adapt maybe",
            "/set speculation draft-mtp",
        ],
    )
    def test_what_the_load_does_not_allow(self, conversation: Conversation, line: str) -> None:
        with pytest.raises(UsageError):
            Commands(conversation).run(line)

    def test_show(self, conversation: Conversation, capfd: pytest.CaptureFixture[str]) -> None:
        Commands(conversation).run("/show")
        shown = dict(line.split(maxsplit=1) for line in capfd.readouterr().err.splitlines())
        assert shown["speculation"] == "ngram-simple,draft-mtp"
        assert shown["draft_tokens"] == "4"
        assert shown["draft_model"] == "geniex/tiny-chat-draft:Q8_0"

    def test_a_model_loaded_without_it(
        self, runtime: FakeRuntime, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        with open_model("tiny", Settings(data_dir=tmp_path)) as model:
            commands = Commands(Conversation(model, Output(), AnswerOptions()))
            with pytest.raises(UsageError, match="without speculation"):
                commands.run("/set draft_tokens 2")
            commands.run("/show")
        assert "draft" not in capfd.readouterr().err
