"""A bundle at the terminal: what was ignored is said once, the simulator by its name."""

from pathlib import Path

import pytest

import geniex
from geniex.answering import AnswerOptions
from geniex.cli.commands import Commands
from geniex.cli.conversation import Conversation
from geniex.cli.output import Output
from geniex.config import Settings
from geniex.session import open_model
from geniex.speculation import check_before_pull
from geniex.speculation_wish import read_wish
from geniex_catalogue.errors import UsageError
from geniex_catalogue.names import parse
from geniex_runtimes.errors import ContextLengthError, SpeculativeError
from geniex_runtimes.fake import FakeRuntime
from geniex_runtimes.options import SIMULATOR
from tests.cliharness import Cli
from tests.geniex.scripted_bundle import CONTEXT, install_qairt, write_bundle

IGNORED = {
    "speculative decoding is only supported by llama_cpp; ignoring for runtime qairt": (
        *("--spec-type", "draft-mtp", "--draft-model", "org/nowhere"),
    ),
    "qairt plugin only supports NPU inference; ignoring device='gpu' and running on NPU": (
        *("--compute", "gpu"),
    ),
    f"`--nctx 4096` is ignored: the context of this bundle is fixed at {CONTEXT} tokens": (
        *("--nctx", "4096"),
    ),
    "`--ngl 3` is ignored: all layers of a bundle are on the NPU": ("--ngl", "3"),
    "`--threads 2` is ignored: a bundle computes on the NPU": ("--threads", "2"),
}


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> FakeRuntime:
    return install_qairt(monkeypatch)


@pytest.fixture
def bundle(tmp_path: Path) -> str:
    return str(write_bundle(tmp_path / "bundle"))


def test_what_is_ignored_is_said_once(
    cli: Cli, runtime: FakeRuntime, bundle: str, data_dir: Path
) -> None:
    flags = [flag for some in IGNORED.values() for flag in some]
    result = cli("infer", bundle, "-p", "hi", "-p", "and", *flags)
    assert (result.code, result.out) == (0, "Hello, world!\nHello, world!\n")
    for text in IGNORED:
        assert result.err.count(f"Warning: {text}\n") == 1
    assert result.err.count("Warning: ") == len(IGNORED)
    [options] = runtime.loads
    assert (options.compute, options.devices, options.context_length) == (
        "npu",
        (SIMULATOR,),
        CONTEXT,
    )
    assert options.speculative.types == () and options.draft is None


def test_the_simulator_is_named(
    cli: Cli, runtime: FakeRuntime, bundle: str, data_dir: Path
) -> None:
    result = cli("infer", bundle, "-p", "hi", "--verbose")
    assert f"runtime=qairt compute=npu devices={SIMULATOR} nctx={CONTEXT}\n" in result.err
    assert f"\ndevice:         {SIMULATOR}\n" in result.err
    assert "Warning" not in result.err
    told = cli("infer", bundle, "-p", "hi", "--json").json
    assert told["plan"]["devices"] == [SIMULATOR] and told["warnings"] == []
    assert SIMULATOR in cli("devices").out


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        pytest.param(("--require", "npu"), "the HTP simulator is not an NPU", id="npu"),
        pytest.param(("--require", "cpu"), "a bundle runs on the NPU alone", id="cpu"),
        pytest.param(("--runtime", "llama_cpp"), "llama_cpp: it runs gguf models", id="runtime"),
        pytest.param(
            ("--spec-type", "auto", "--require-spec"),
            "only supported by llama_cpp, not by runtime qairt",
            id="speculation",
        ),
        pytest.param(("--compute", "HTP7"), "unknown compute `HTP7`", id="compute"),
    ],
)
def test_what_is_refused(
    cli: Cli,
    runtime: FakeRuntime,
    bundle: str,
    data_dir: Path,
    flags: tuple[str, ...],
    says: str,
) -> None:
    result = cli("infer", bundle, "-p", "hi", *flags)
    assert result.code != 0 and says in result.err
    assert not runtime.loads


@pytest.mark.parametrize(
    ("flags", "engine"),
    [((), None), (("--qairt-engine", "ort"), "ort"), (("--qairt-engine", "Genie"), "genie")],
    ids=["default", "ort", "genie"],
)
def test_the_engine_is_chosen(
    cli: Cli,
    runtime: FakeRuntime,
    bundle: str,
    data_dir: Path,
    flags: tuple[str, ...],
    engine: str | None,
) -> None:
    result = cli("infer", bundle, "-p", "hi", "--sliding-window", *flags)
    assert result.code == 0 and runtime.loads[-1].qairt_engine == engine
    assert runtime.loads[-1].sliding_window


def test_an_engine_of_bundles_does_nothing_elsewhere(cli: Cli, scripted: object) -> None:
    scripted(FakeRuntime(name="llama_cpp"))  # type: ignore[operator]
    result = cli("infer", "tiny", "-p", "hi", "--qairt-engine", "ort", "--sliding-window")
    assert "Warning: `--qairt-engine` does nothing" in result.err
    assert "Warning: `--sliding-window` does nothing" in result.err
    assert cli("infer", "tiny", "-p", "hi", "--qairt-engine", "best").code == 2


def test_a_full_context_is_no_matter_of_a_flag(
    cli: Cli, runtime: FakeRuntime, bundle: str, data_dir: Path
) -> None:
    result = cli("infer", bundle, "-p", "x" * 2 * CONTEXT)
    assert result.code == 1 and "the context of a bundle is fixed" in result.err


def test_a_chat_cannot_switch_speculation_on(
    runtime: FakeRuntime, bundle: str, tmp_path: Path
) -> None:
    with open_model(bundle, Settings(data_dir=tmp_path / "data")) as model:
        commands = Commands(Conversation(model, Output(), AnswerOptions()))
        with pytest.raises(UsageError, match="only supported by llama_cpp"):
            commands.run("/set speculation on")


def test_nothing_of_it_is_asked_for_before_a_bundle_is_pulled() -> None:
    wish = read_wish("draft-simple")
    check_before_pull(wish, parse("ai-hub-models/Qwen3-4B"))
    with pytest.raises(UsageError, match="needs a draft model"):
        check_before_pull(wish, parse("org/model"))


def test_python_is_told_the_same(
    runtime: FakeRuntime, bundle: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    how = {"spec_type": "draft-mtp", "draft_model": "org/nowhere"}
    with geniex.load(bundle, data_dir=tmp_path / "data", compute="gpu", nctx=4096, **how) as model:  # type: ignore[arg-type]
        said = [text.replace("`--nctx 4096`", "`nctx=4096`") for text in list(IGNORED)[:3]]
        assert set(model.warnings) == set(said)
        logged = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
        assert sorted(text.rpartition("bundle: ")[2] for text in logged) == sorted(said)
        answer = model.chat("hi")
        assert str(answer) == "Hello, world!"
        assert (answer.profile.spec_state, answer.profile.spec_reason) == ("off", said[0])
        with pytest.raises(ContextLengthError) as caught:
            model.chat("x" * 2 * CONTEXT)
        assert "--" not in str(caught.value.hint)
    with geniex.load(bundle, data_dir=tmp_path / "data") as plain:
        profile = plain.chat("hi").profile
        assert (profile.spec_state, profile.spec_reason) == (None, "")
    with pytest.raises(SpeculativeError):
        geniex.load(bundle, data_dir=tmp_path / "data", spec_type="auto", require_spec=True)
    with geniex.AutoModelForCausalLM.from_pretrained(
        bundle, data_dir=tmp_path / "data", spec_type="draft-mtp", spec_draft_model="org/nowhere"
    ) as auto:
        assert auto.warnings == (next(iter(IGNORED)),)
