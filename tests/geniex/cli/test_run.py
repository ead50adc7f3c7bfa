"""`geniex run`: what is asked of the server, what goes where, and what a failing server means."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cliharness import Cli, Result
from tests.geniex.servedby import ScriptedServer, chunks, scripted_server

PROFILE = """\
total time:     2.400000s
ttft:           0.500000s
prompt time:    0.400000s
prompt tokens:  9 token(s)
prompt speed:   12.500000 tok/s
decode time:    2.000000s
decode tokens:  5 token(s)
decode speed:   2.000000 tok/s
stop reason:    eos"""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, data_dir: Path) -> Iterator[ScriptedServer]:
    with scripted_server() as made:
        monkeypatch.setenv("GENIEX_HOST", made.host)
        yield made


class TestStreams:
    def test_stdout_has_the_answer_alone(self, cli: Cli, server: ScriptedServer) -> None:
        result = cli("run", "org/repo", "-p", "hi")
        assert result.code == 0 and result.out == "Hello, wörld!\n"
        assert PROFILE in result.err

    def test_reasoning_goes_to_stderr(self, cli: Cli, server: ScriptedServer) -> None:
        server.scripts = [chunks({"reasoning_content": "hm"}, {"content": "yes"})]
        result = cli("run", "org/repo", "-p", "hi")
        assert result.out == "yes\n" and "<think>\nhm\n</think>" in result.err

    def test_quiet(self, cli: Cli, server: ScriptedServer) -> None:
        result = cli("run", "org/repo", "-q", "-p", "hi")
        assert result.out == "Hello, wörld!\n" and result.err == ""

    def test_json(self, cli: Cli, server: ScriptedServer) -> None:
        speculation = {"state": "on", "proposed": 4, "accepted": 3, "steps": 2}
        server.scripts = [
            chunks({"reasoning_content": "hm"}, {"content": "yes"}, speculation=speculation)
        ]
        report = cli("run", "org/repo", "--json", "-p", "hi").json
        assert report["model"] == "org/repo:Q4_0" and report["answer"] == "yes"
        assert report["reasoning"] == "hm" and report["finish_reason"] == "stop"
        assert report["usage"] == {
            "prompt_tokens": 9,
            "cached_tokens": 4,
            "prefilled_tokens": 5,
            "completion_tokens": 5,
        }
        assert report["timings"]["ttft"] == 0.5 and report["speculation"] == speculation
        assert report["server"] == f"http://{server.host}" and report["context_length"] == 4096
        assert [turn["prompt"] for turn in report["turns"]] == ["hi"] and report["error"] is None

    def test_drafts_are_told(self, cli: Cli, server: ScriptedServer) -> None:
        drafting = {"state": "on", "proposed": 75, "accepted": 14, "steps": 25}
        server.scripts = [chunks({"content": "yes"}, speculation=drafting)]
        assert "draft accept:   14/75 (18.7%)" in cli("run", "org/repo", "-p", "hi").err

    def test_warnings_are_told_once(self, cli: Cli, server: ScriptedServer) -> None:
        server.loaded["warnings"] = ["the npu is not there"]
        server.scripts = [
            chunks({"content": "yes"}, warnings=["the npu is not there", "an image was left out"])
        ]
        result = cli("run", "org/repo", "-p", "one", "-p", "two")
        assert result.err.count("Warning: the npu is not there") == 1
        assert result.err.count("Warning: an image was left out") == 1

    def test_a_cut_answer_is_said_so(self, cli: Cli, server: ScriptedServer) -> None:
        server.scripts = [chunks({"content": "yes"}, reason="length", stop_reason="length")]
        result = cli("run", "org/repo", "-p", "hi", "--max-tokens", "5")
        assert "the answer is cut: it has the 5 tokens" in result.err


class TestRequests:
    def test_as_little_as_possible_is_asked(self, cli: Cli, server: ScriptedServer) -> None:
        cli("run", "org/repo", "-p", "hi")
        path, _, body = server.seen[0]
        assert path == "/v1/models/org%2Frepo/load" and body == {}
        assert server.bodies == [
            {
                "model": "org/repo:Q4_0",
                "messages": [{"role": "user", "content": "hi"}],
                "max_completion_tokens": 2048,
                "stream": True,
                "stream_options": {"include_usage": True},
            }
        ]

    @pytest.mark.parametrize(
        ("flags", "fields"),
        [
            (("--temperature", "0"), {"temperature": 0.0}),
            (("--top-p", "0.5", "--top-k", "7"), {"top_p": 0.5, "top_k": 7}),
            (("--min-p", "0", "--seed", "3"), {"min_p": 0.0, "seed": 3}),
            (("--repetition-penalty", "1.1"), {"repetition_penalty": 1.1}),
            (("--presence-penalty", "1"), {"presence_penalty": 1.0}),
            (("--frequency-penalty", "-1"), {"frequency_penalty": -1.0}),
            (("--grammar-string", 'root ::= "a"'), {"grammar_string": 'root ::= "a"'}),
            (("--enable-json",), {"response_format": {"type": "json_object"}}),
            (("--max-tokens", "7"), {"max_completion_tokens": 7}),
            (("--stop", "a", "--stop", "b"), {"stop": ["a", "b"]}),
            (("--think",), {"enable_think": True}),
            (("--think=false",), {"enable_think": False}),
            (("-s", "Be brief."), {"messages": [
                {"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}
            ]}),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
    )  # fmt: skip
    def test_flags_are_fields(
        self, cli: Cli, server: ScriptedServer, flags: tuple[str, ...], fields: dict[str, Any]
    ) -> None:
        assert cli("run", "org/repo", *flags, "-p", "hi").code == 0
        body = server.bodies[-1]
        assert {name: body.get(name) for name in fields} == fields

    def test_without_a_limit_none_is_sent(self, cli: Cli, server: ScriptedServer) -> None:
        cli("run", "org/repo", "--max-tokens", "-1", "-p", "hi")
        assert "max_completion_tokens" not in server.bodies[-1]

    def test_loading_is_a_part_of_each_request(self, cli: Cli, server: ScriptedServer) -> None:
        flags = ("--nctx", "512", "--ngl", "0", "-c", "CPU", "--spec-type", "draft-mtp")
        draft = (
            "--kv-type",
            "Q8_0",
            "--draft-model",
            "org/draft:Q4_0",
            "--draft-tokens",
            "2",
            "--draft-min",
            "1",
        )
        cli("run", "org/repo", *flags, *draft, "--draft-p-min", "0.5", "--require-spec", "-p", "hi")
        fields = {
            "nctx": 512,
            "kv_type": "q8_0",
            "ngl": 0,
            "compute": "cpu",
            "spec_type": "draft-mtp",
            "spec_draft_model": "org/draft:Q4_0",
            "spec_n_max": 2,
            "spec_n_min": 1,
            "spec_p_min": 0.5,
            "require_spec": True,
        }
        assert server.seen[0][2] == fields
        assert {name: server.bodies[-1][name] for name in fields} == fields

    def test_turns_are_a_chat(self, cli: Cli, server: ScriptedServer, tmp_path: Path) -> None:
        file = tmp_path / "first.txt"
        file.write_text("first\n", encoding="utf-8")
        server.scripts = [chunks({"reasoning_content": "hm"}, {"content": "one"}), chunks()]
        cli("run", "org/repo", "-i", str(file), "-p", "second")
        assert server.bodies[-1]["messages"] == [
            {"role": "user", "content": "first"},
            {"role": "assistant", "content": "one", "reasoning_content": "hm"},
            {"role": "user", "content": "second"},
        ]

    def test_stdin_is_a_prompt(self, cli: Cli, server: ScriptedServer) -> None:
        cli("run", "org/repo", stdin=b"piped\n")
        assert server.bodies[-1]["messages"][0]["content"] == "piped"
        cli("run", "org/repo", "-p", "Review:", stdin=b"text\n")
        assert server.bodies[-1]["messages"][0]["content"] == "Review:\n\ntext"

    def test_tokens_are_a_raw_turn(self, cli: Cli, server: ScriptedServer, tmp_path: Path) -> None:
        file = tmp_path / "tokens"
        file.write_text("1 2 3", encoding="utf-8")
        server.scripts = [
            [
                {"choices": [{"index": 0, "text": "a"}]},
                {"choices": [{"index": 0, "text": "b", "finish_reason": "stop"}]},
            ]
        ]
        result = cli("run", "org/repo", "-t", str(file), "--max-tokens", "-1")
        assert result.out == "ab\n"
        assert server.seen[-1][0] == "/v1/completions"
        assert server.bodies[-1]["prompt"] == [1, 2, 3]
        assert server.bodies[-1]["max_tokens"] == -1

    def test_the_key_is_sent(
        self, cli: Cli, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        cli("run", "org/repo", "-p", "hi")
        assert not any("Bearer" in str(headers) for _, headers, _ in server.seen)
        monkeypatch.setenv("GENIEX_APIKEY", "from-variable")
        cli("run", "org/repo", "-p", "hi")
        assert "Bearer from-variable" in str(server.seen[-1][1])
        cli("run", "org/repo", "--api-key", "from-flag", "-p", "hi")
        assert "Bearer from-flag" in str(server.seen[-1][1])

    def test_the_flag_says_where_and_no_proxy_is_asked(
        self, cli: Cli, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, "http://127.0.0.1:9")
        monkeypatch.setenv("GENIEX_HOST", "127.0.0.1:1")
        result = cli("run", "org/repo", "--host", f"http://{server.host}/", "-p", "hi")
        assert result.code == 0 and result.out == "Hello, wörld!\n"


class TestFailures:
    @pytest.mark.parametrize(
        "command", [("run", "org/repo", "-p", "hi"), ("ps",)], ids=["run", "ps"]
    )
    def test_no_server(self, cli: Cli, data_dir: Path, command: tuple[str, ...]) -> None:
        result = cli(*command, "--host", "127.0.0.1:1")
        assert result.code == 4 and result.out == ""
        first, second = result.err.splitlines()
        assert first.startswith("Error: no server answers at http://127.0.0.1:1 ")
        assert second.startswith("hint: ") and "`geniex serve`" in second

    @pytest.mark.parametrize(
        ("place", "status", "error", "code", "told"),
        [
            ("/load", 404, {"code": "model_not_found"}, 3, "Error: it says no"),
            ("/load", 400, {"code": "draft_model_not_found"}, 3, "Error: it says no"),
            ("/load", 401, {"code": "invalid_api_key"}, 1, "--api-key"),
            ("/load", 503, {"code": "server_busy"}, 1, "try again"),
            ("/load", 500, {"type": "server_error"}, 1, "Error: it says no"),
            ("/completions", 400, {"code": "invalid_value"}, 2, "Error: it says no"),
            ("/completions", 400, {"code": "context_length_exceeded"}, 1, "`--nctx`"),
            (
                *("/load", 400),
                {"code": "no_runtime", "message": "no. Leave `require npu` or `kv_type` out"},
                *(1, "Leave `--require npu` or `--kv-type` out"),
            ),
            (
                *("/completions", 400),
                {"code": "context_length_exceeded", "message": "the context of a bundle is fixed"},
                *(1, "hint: shorten the prompt\n"),
            ),
        ],
    )
    def test_a_refusal(
        self,
        cli: Cli,
        server: ScriptedServer,
        place: str,
        status: int,
        error: dict[str, str],
        code: int,
        told: str,
    ) -> None:
        detail = {"message": "it says no", "type": "invalid_request_error", "param": None, **error}
        server.refusals[place] = (status, {"error": detail}, {"retry-after": "3"})
        result = cli("run", "org/repo", "-p", "hi")
        assert (result.code, result.out) == (code, "") and told in result.err

    @pytest.mark.parametrize(
        ("message", "error", "hint"),
        [
            pytest.param(
                "model `a. b` not found. Did you mean `a/b`? If not, run `geniex pull a/c` first",
                "model `a. b` not found",
                "did you mean `a/b`? If not, run `geniex pull a/c` first",
                id="a step",
            ),
            pytest.param(
                "`a/b` has no precision `Q2_K`; available: Q8_0. `GET /v1/models` lists them",
                "`a/b` has no precision `Q2_K`; available: Q8_0",
                "`geniex list` on the server lists them",
                id="a route",
            ),
            pytest.param(
                "`a/b/c` is no name. A name looks like `org/repo`",
                "`a/b/c` is no name",
                "a name looks like `org/repo`",
                id="a name",
            ),
            pytest.param(
                "the draft is the target itself. Leave `spec_draft_model` out",
                "the draft is the target itself",
                "leave `--draft-model` out",
                id="a field",
            ),
            pytest.param(
                "it says no",
                "it says no",
                "a server pulls nothing: pull where it runs",
                id="no step",
            ),
        ],
    )
    def test_a_model_that_the_server_lacks(
        self, cli: Cli, server: ScriptedServer, message: str, error: str, hint: str
    ) -> None:
        detail = {"message": message, "type": "invalid_request_error", "code": "model_not_found"}
        server.refusals["/load"] = (404, {"error": detail}, {})
        result = cli("run", "org/repo", "-p", "hi")
        assert (result.code, result.out) == (3, "")
        assert result.err.splitlines() == [f"Error: {error}", f"hint: {hint}"]

    def test_what_is_no_geniex_server(self, cli: Cli, server: ScriptedServer) -> None:
        server.scripts = [["data: <html>\n\n"]]
        assert_failed(cli("run", "org/repo", "-p", "hi"), "no JSON")
        server.refusals["/load"] = (404, "Not Found", {})
        assert_failed(cli("run", "org/repo", "-p", "hi"), "is not a geniex server")

    @pytest.mark.parametrize(
        ("script", "told"),
        [
            pytest.param([*chunks({"content": "a"})[:1], "CUT"], "before the end", id="cut"),
            pytest.param(chunks({"content": "a"})[:1], "without a reason", id="no-reason"),
            pytest.param(
                [*chunks({"content": "a"})[:1], {"error": {"message": "it broke"}}],
                "it broke",
                id="error-event",
            ),
        ],
    )
    def test_an_answer_that_is_not_whole(
        self, cli: Cli, server: ScriptedServer, script: list[Any], told: str
    ) -> None:
        server.scripts = [script]
        result = cli("run", "org/repo", "-p", "hi")
        assert result.out == "a\n"
        assert_failed(result, told)

    def test_answers_before_a_failed_turn_are_not_lost(
        self, cli: Cli, server: ScriptedServer
    ) -> None:
        server.scripts = [chunks({"content": "one"}), [{"error": {"message": "it broke"}}]]
        result = cli("run", "org/repo", "--json", "-p", "a", "-p", "b")
        assert result.code == 1 and result.json["error"] == "it broke"
        assert [turn["answer"] for turn in result.json["turns"]] == ["one"]

    @pytest.mark.parametrize("host", ["ftp://x", "a b", "http://x:99999"])
    def test_what_is_no_address(self, cli: Cli, data_dir: Path, host: str) -> None:
        assert cli("run", "org/repo", "-p", "hi", "--host", host).code == 2

    @pytest.mark.parametrize("flag", ["--threads=1", "--runtime=llama_cpp", "--no-draft-adapt"])
    def test_what_a_request_cannot_carry_is_no_flag(
        self, cli: Cli, data_dir: Path, flag: str
    ) -> None:
        result = cli("run", "org/repo", "-p", "hi", flag)
        assert result.code == 2 and flag.partition("=")[0] in result.err


def assert_failed(result: Result, told: str) -> None:
    assert result.code == 1 and told in result.err
