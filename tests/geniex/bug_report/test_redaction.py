"""What a report must not tell, planted and looked for."""

from pathlib import Path

import pytest

from geniex.bug_report import redaction
from geniex.bug_report.redaction import Redactor, redactor_of

PLAIN = Redactor([])


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        pytest.param("token hf_AbCdEfGhIjKlMnOpQrStUv is bad", "AbCdEf", id="hub token"),
        pytest.param("sk-proj-1234567890abcdef", "1234567890", id="openai key"),
        pytest.param("ghp_0123456789abcdefghij", "0123456789", id="github token"),
        pytest.param("github_pat_11AAAAAAA0aaaaaaaaaaaa", "aaaaaaaa", id="github fine"),
        pytest.param("glpat-0123456789abcdefghij", "0123456789", id="gitlab"),
        pytest.param("AKIAIOSFODNN7EXAMPLE", "IOSFODNN", id="cloud key"),
        pytest.param("eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJ", "SflKx", id="jwt"),
        pytest.param("Authorization: Bearer abcd1234", "abcd1234", id="bearer"),
        pytest.param("authorization: basic dXNlcjpwYXNz", "dXNl", id="basic"),
        pytest.param("https://me:pass@hub.example/x", "pass", id="userinfo"),
        pytest.param("https://me:p@ss@hub.example/x", "ss@", id="userinfo with its own sign"),
        pytest.param("http://tok3n@hub.example/x", "tok3n", id="user alone"),
        pytest.param("https://x.example/a?token=abc123&b=1", "abc123", id="query"),
        pytest.param('{"api_key": "abc123"}', "abc123", id="json"),
        pytest.param("geniex serve --api-key abc123 --port 1", "abc123", id="command line"),
        pytest.param("password = hunter22", "hunter22", id="password"),
        pytest.param("mail someone.else@example.org now", "someone.else", id="mail"),
        pytest.param("/home/somebody/models/x.gguf", "somebody", id="home of another"),
        pytest.param("C:\\Users\\Somebody\\models", "Somebody", id="home on Windows"),
        pytest.param("C:\\\\Users\\\\Somebody\\\\models", "Somebody", id="home in JSON"),
        pytest.param("/Users/Somebody/models", "Somebody", id="home on a Mac"),
    ],
)
def test_what_looks_like_a_secret(text: str, secret: str) -> None:
    assert secret not in PLAIN.text(text)


@pytest.mark.parametrize(
    "text",
    [
        "geniex/tiny-chat:Q8_0 (llama_cpp, 512 tokens)",
        "prompt_tokens 12, cached_tokens 4",
        "token 42 of 100",
        "sha256:0a30ef8f5322a4173720ae6712dc9a5e58f5a19868f3f167b4b5778db066c2b5",
        "http://127.0.0.1:18181/v1/models",
        "onnxruntime-qnn==2.7.0",
        "CPU : SSE3 = 1 | AVX2 = 1",
    ],
)
def test_what_is_none_stays(text: str) -> None:
    assert PLAIN.text(text) == text


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The surroundings of somebody with secrets in variables and files."""
    home = tmp_path / "alexandra"
    token = home / ".cache" / "huggingface" / "token"
    token.parent.mkdir(parents=True)
    token.write_text("plainlookingtoken\n")
    keys = tmp_path / "keys.txt"
    keys.write_text("first-key\nsecond-key\n")
    monkeypatch.setattr("socket.gethostname", lambda: "alex-laptop.corp.example")
    return {
        "HOME": str(home),
        "USERPROFILE": str(home),
        "USER": "alexandra",
        "GENIEX_APIKEY": "an api key",
        "GENIEX_APIKEY_FILE": str(keys),
        "MY_OWN_SECRET": "correcthorse",
        "OTEL_EXPORTER_OTLP_HEADERS": "x-auth=collectorpass,other=1",
    }


@pytest.mark.parametrize(
    "secret",
    [
        *("plainlookingtoken", "first-key", "second-key", "an api key", "correcthorse"),
        *("collectorpass", "alexandra", "Alexandra", "alex-laptop"),
    ],
)
def test_what_is_known_of_this_machine(person: dict[str, str], secret: str) -> None:
    redactor = redactor_of(person)
    for text in (f"it is {secret}.", f"a/{secret}/b", f"[{secret}]"):
        assert secret not in redactor.text(text)


def test_the_home_folder_is_a_tilde(person: dict[str, str]) -> None:
    said = redactor_of(person).text(f"models in {Path(person['HOME']) / 'models'}")
    assert said == f"models in {Path('~') / 'models'}"


@pytest.mark.parametrize("name", ["root", "runner", "user"])
def test_names_of_nobody_stay_in_words(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_host", lambda: iter(()))
    text = f"{name} runs; the {name} of it"
    assert redactor_of({"USER": name, "HOME": "/"}).text(text) == text


def test_a_short_name_is_not_found_within_words() -> None:
    redactor = Redactor([])
    redactor.hide_user("max")
    assert redactor.text("max has n_max and maximum 3") == "<USER> has n_<USER> and maximum 3"


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("GENIEX_APIKEY", "x", "<REDACTED>"),
        ("HF_TOKEN", "", "(empty)"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "a=b", "<REDACTED>"),
        ("GENIEX_HOST", "127.0.0.1:80", "127.0.0.1:80"),
        ("HTTPS_PROXY", "http://a:b@proxy:3128", "http://<REDACTED>@proxy:3128"),
        ("GENIEX_APIKEY_FILE", "/etc/geniex/keys", "/etc/geniex/keys"),
    ],
)
def test_variables(name: str, value: str, shown: str) -> None:
    assert PLAIN.variable(name, value) == shown
