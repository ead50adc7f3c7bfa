"""`geniex pull` before the first byte, and `geniex info` of what is not here."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from geniex_runtimes.fake import FakeRuntime
from tests.cliharness import Cli
from tests.geniex_catalogue.pull.models import gguf
from tests.hubserver import COMMIT, Fault, HubServer

Install = Callable[[FakeRuntime], FakeRuntime]


@pytest.fixture(autouse=True)
def _here(data_dir: Path, scripted: Install) -> None:
    scripted(FakeRuntime(name="llama_cpp"))


@pytest.fixture
def repo(hub: HubServer, tiny_chat: Path) -> HubServer:
    """A repository with two precisions of the built-in model, and its projector."""
    files = {f"m-{label}.gguf": tiny_chat.read_bytes() for label in ("Q8_0", "Q4_0")}
    files["mmproj-F16.gguf"] = gguf(21, general__architecture="clip")
    hub.add("org/repo", files)
    return hub


class TestPlan:
    def test_as_json(self, cli: Cli, repo: HubServer, data_dir: Path) -> None:
        result = cli("pull", "org/repo", "--dry-run", "--json")
        plan, size = result.json, len(repo.repos["org/repo"].files["m-Q4_0.gguf"])
        assert (plan["name"], plan["hub"], plan["revision"]) == (
            "org/repo:Q4_0",
            "huggingface",
            COMMIT,
        )
        assert (plan["total"], plan["remaining"], plan["present"]) == (size, size, False)
        assert plan["free"] > 0 and plan["target"] == str(data_dir / "models" / "org" / "repo")
        [file] = plan["files"]
        assert (file["name"], file["size"], file["present"]) == ("m-Q4_0.gguf", size, 0)
        assert plan["draft"] is None
        assert not (data_dir / "models").exists()

    def test_a_hub_that_is_asked_again_is_told(self, cli: Cli, repo: HubServer) -> None:
        repo.faults["cdn"] = [Fault(204)]
        result = cli("pull", "org/repo", "--dry-run")
        place = repo.cdn.removeprefix("http://")
        assert f"m-Q4_0.gguf: `{place}` answered 204; asking again in 1 s" in result.err

    def test_in_words(self, cli: Cli, repo: HubServer) -> None:
        result = cli("pull", "org/repo:Q8_0", "--dry-run")
        assert "m-Q8_0.gguf" in result.out and "to fetch: 3.3 MiB" in result.out
        cli("pull", "org/repo:Q8_0", "-q")
        assert "here already" in cli("pull", "org/repo", "--dry-run").out
        assert cli("pull", "org/repo", "--dry-run", "--json").json["present"] is True

    def test_sizes_that_nobody_knows(self, cli: Cli, repo: HubServer) -> None:
        repo.repos["org/repo"].facts = False
        plan = cli(
            "pull",
            "org/repo",
            "--file",
            "mmproj-F16.gguf",
            "--precision",
            "q8_0",
            "--dry-run",
            "--json",
        ).json
        assert plan["name"] == "org/repo:Q8_0"
        sizes = {file["name"]: file["size"] for file in plan["files"]}
        assert sizes["mmproj-F16.gguf"] is None or sizes["mmproj-F16.gguf"] > 0
        assert (plan["total"] is None) == (None in sizes.values())

    def test_too_little_room(
        self, cli: Cli, repo: HubServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        usage = shutil.disk_usage("/")
        monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1_000_000))
        result = cli("pull", "org/repo")
        assert result.code == 5
        assert "1000000 bytes" in result.err and "bytes), free" in result.err
        assert repo.served < 2_000_000
        for words in ((), ("--json",)):
            shown = cli("pull", "org/repo", "--dry-run", *words)
            assert shown.code == 5 and "bytes), free" in shown.err
            if words:
                assert (shown.json["needed"], shown.json["free"]) == (shown.json["total"], 1000000)
            else:
                assert "needed: 3.3 MiB, free: 976.6 KiB" in shown.out


class TestChoice:
    def test_is_said_in_one_line(self, cli: Cli, repo: HubServer) -> None:
        result = cli("pull", "org/repo")
        assert "precision Q4_0, of Q4_0, Q8_0: the first choice on the CPU\n" in result.err
        assert "precision" not in cli("pull", "org/repo:Q8_0", "--dry-run").err

    @pytest.mark.parametrize("answer", ["q8_0\n", "nonsense\nQ8_0\n"])
    def test_is_asked_for_at_a_terminal(
        self, cli: Cli, repo: HubServer, monkeypatch: pytest.MonkeyPatch, answer: str
    ) -> None:
        monkeypatch.setattr("geniex.cli.fetching.can_ask", lambda: True)
        result = cli("pull", "org/repo", stdin=answer.encode())
        assert result.out == ""
        assert result.code == 0 and "Precision: Q8_0" in result.err
        assert "the first choice on the CPU" in result.err
        assert ("is none of them" in result.err) == answer.startswith("nonsense")

    @pytest.mark.parametrize("flag", ["--yes", "--quiet", "--json", "--dry-run"])
    def test_is_not_asked_for_with(
        self, cli: Cli, repo: HubServer, monkeypatch: pytest.MonkeyPatch, flag: str
    ) -> None:
        monkeypatch.setattr("geniex.cli.fetching.can_ask", lambda: True)
        monkeypatch.setattr("geniex.cli.fetching.read_line", lambda text: pytest.fail("asked"))
        assert cli("pull", "org/repo", flag).code == 0


class TestOutcome:
    def test_as_json(self, cli: Cli, repo: HubServer) -> None:
        result = cli("pull", "org/repo", "--json", "--no-progress", "--max-workers", "2")
        model = result.json
        assert (model["name"], model["precisions"], model["status"]) == (
            "org/repo",
            ["Q4_0"],
            "ready",
        )
        assert "%" not in result.err

    def test_a_file_beside_a_precision(self, cli: Cli, repo: HubServer) -> None:
        assert cli("pull", "org/repo", "--file", "mmproj-F16.gguf").code == 2
        assert cli("pull", "org/repo:Q8_0", "--file", "mmproj-F16.gguf").code == 0
        names = [path.name for path in repo_files(cli)]
        assert {"m-Q8_0.gguf", "mmproj-F16.gguf"} <= set(names)

    def test_a_draft(self, cli: Cli, repo: HubServer, data_dir: Path) -> None:
        draft = gguf(20, general__architecture="gemma4-assistant")
        repo.repos["org/repo"].files["mtp-m-Q8_0.gguf"] = draft
        words = ("pull", "org/repo:Q8_0", "--with-draft")
        plan = cli(*words, "--dry-run", "--json").json
        assert [file["name"] for file in plan["files"]] == ["m-Q8_0.gguf", "mtp-m-Q8_0.gguf"]
        assert cli(*words).code == 0
        assert (data_dir / "models/org/repo/mtp-m-Q8_0.gguf").read_bytes() == draft
        assert cli(*words, "--dry-run", "--json").json["present"] is True

    def test_no_draft(self, cli: Cli, repo: HubServer) -> None:
        result = cli("pull", "org/repo", "--with-draft")
        assert result.code == 2 and "no draft" in result.err

    @pytest.mark.parametrize(
        "words", [("--precision", "Q4_0"), ("--dry-run",), ("--with-draft",), ("--file", "x.gguf")]
    )
    def test_what_is_no_part_of_an_import(
        self, cli: Cli, tiny_chat: Path, words: tuple[str, ...]
    ) -> None:
        result = cli("pull", "local/x", "--local-path", str(tiny_chat), *words)
        assert result.code in ((0, 3) if words[0] == "--precision" else (2,))


def repo_files(cli: Cli) -> list[Path]:
    [model] = [m for m in cli("list", "--json").json if not m["builtin"]]
    return list(Path(model["location"]).iterdir())


class TestOffline:
    @pytest.mark.parametrize("how", ["--offline", "GENIEX_OFFLINE", "HF_HUB_OFFLINE"])
    def test_what_is_here_needs_no_network(
        self, cli: Cli, repo: HubServer, monkeypatch: pytest.MonkeyPatch, how: str
    ) -> None:
        cli("pull", "org/repo:Q8_0", "-q")
        repo.seen.clear()
        flag = [how] if how.startswith("-") else []
        if not flag:
            monkeypatch.setenv(how, "1")
        assert cli("infer", "org/repo", "-p", "hi", "-q", *flag).out == "Hello, world!\n"
        for words in ("pull org/repo", "info org/repo", "list", "verify"):
            assert cli(*words.split(), *flag).code == 0
        needing = ("pull org/repo:Q4_0", "info org/x", "infer org/x -p hi", "update org/repo")
        for words in needing:
            result = cli(*words.split(), *flag)
            assert result.code == 4 and how in result.err and "hint: " in result.err
        assert repo.seen == []


class TestRemoteInfo:
    def test_of_what_is_not_here(self, cli: Cli, repo: HubServer, data_dir: Path) -> None:
        result = cli("info", "org/repo", "--json")
        facts = result.json
        assert (facts["name"], facts["here"], facts["hub"]) == (
            "org/repo:Q4_0",
            False,
            "huggingface",
        )
        assert [row["precision"] for row in facts["precisions"]] == ["Q4_0", "Q8_0"]
        assert all(row["size"] > 0 for row in facts["precisions"])
        assert facts["architecture"] == "gemma4" and facts["context_length"] == 4096
        assert facts["chat_template"] is True and facts["runs_here"] is True
        assert facts["memory_needed"] > 0 and facts["projectors"] == ["mmproj-F16.gguf"]
        assert not (data_dir / "models").exists()
        text = cli("info", "org/repo:Q8_0").out
        assert "Q4_0 (3.3 MiB), Q8_0 (3.3 MiB)" in text
        assert cli("info", "tiny", "--json").json["here"] is True

    def test_of_what_is_nowhere(self, cli: Cli, repo: HubServer) -> None:
        assert cli("info", "org/none").code == 3
        assert cli("info", "local/none").code == 3
        assert cli("info", "org/repo:F16").code == 3
