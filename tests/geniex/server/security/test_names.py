"""Where a request names a model, a draft or a grammar: only names of the store, and nothing else.

Nothing of what is named is looked at, not even whether it is there.
"""

import json
import os
from urllib.parse import quote

import pytest

from geniex.server.security.head import MAX_TARGET
from tests.geniex.server.security.conftest import MODEL, Watched
from tests.geniex.server.security.wire import Reply, as_json, head, post, send

CHAT = [{"role": "user", "content": "Hi"}]
HERE, GONE = (400, "invalid_value"), (404, "model_not_found")

# what is named, and how a `model` in a body is refused
NAMES: dict[str, tuple[str, tuple[int, str]]] = {
    "a model by its path": ("{dir}/canary.gguf", HERE),
    "a folder": ("{dir}", HERE),
    "a folder with a slash": ("{dir}/", HERE),
    "a secret": ("{dir}/secret.txt", HERE),
    "a pipe": ("{dir}/pipe", HERE),
    "a pipe that is called so": ("{dir}/pipe.gguf", HERE),
    "an address of a file": ("file://{dir}/canary.gguf", HERE),
    "in capitals": ("FILE://{dir}/canary.gguf", HERE),
    "on this host": ("file://localhost{dir}/canary.gguf", HERE),
    "one slash": ("file:{dir}/canary.gguf", GONE),
    "the current folder": ("./canary.gguf", HERE),
    "a file there": ("canary.gguf", HERE),
    "a folder there": ("canary-org/repo", GONE),
    "a file below it": ("canary-org/repo/canary.gguf", HERE),
    "a file of a model that is a folder there": ("canary-org/repo:canary.gguf", GONE),
    "the folder above": ("../canary/canary.gguf", HERE),
    "above alone": ("..", HERE),
    "far above": ("../" * 20 + "etc/passwd", HERE),
    "home": ("~/canary.gguf", HERE),
    "home of another": ("~root/canary.gguf", HERE),
    "a variable": ("$HOME/canary.gguf", HERE),
    "a drive": ("C:\\canary\\canary.gguf", HERE),
    "a drive with slashes": ("C:/canary/canary.gguf", HERE),
    "a share": ("\\\\127.0.0.1\\canary\\canary.gguf", HERE),
    "a share with slashes": ("//127.0.0.1/canary/canary.gguf", HERE),
    "a long path of Windows": ("\\\\?\\C:\\canary.gguf", HERE),
    "a device of Windows": ("\\\\.\\pipe\\canary", HERE),
    "a reserved name": ("canary/nul", HERE),
    "backslashes": ("..\\..\\canary.gguf", HERE),
    "a stream of NTFS": ("canary-org/repo::$DATA", HERE),
    "a device": ("/dev/zero", HERE),
    "a process": ("/proc/self/environ", HERE),
    "percent": ("%2e%2e%2f%2e%2e%2fcanary.gguf", HERE),
    "twice percent": ("%252e%252e%252fcanary.gguf", HERE),
    "a NUL": ("geniex/tiny-chat\x00canary", HERE),
    "a NUL in a path": ("{dir}/canary.gguf\x00", HERE),
    "a line break": ("geniex/tiny-chat\r\nX-Canary: 1", HERE),
    "half a character": ("\ud800canary/x", HERE),
    "wide dots": ("\uff0e\uff0e\uff0fcanary", HERE),
    "a slash by another name": ("canary\u2215..\u2215etc", HERE),
    "from right to left": ("\u202efugg.yranac/x", HERE),
    "combining": ("ge\u0301niex/tiny-chat", HERE),
    "another alphabet": ("g\u0435niex/tiny-chat", HERE),
    "very long": ("a" * 100_000, HERE),
    "many parts": ("a/" * 5000, HERE),
    "dots in a part": ("geniex/..", HERE),
    "dots before": ("../geniex/tiny-chat", HERE),
    "a flag": ("--canary/x", HERE),
    "a file of a stored model": ("geniex/tiny-chat:../../canary.gguf", HERE),
    "an absolute file of one": ("geniex/tiny-chat:{dir}/canary.gguf", GONE),
    "a link into the net": ("{site}/canary.gguf", HERE),
    "metadata of a cloud": ("http://169.254.169.254/latest/meta-data", HERE),
    "another scheme": ("gopher://127.0.0.1:70/canary", HERE),
    "a directory of names": ("ldap://127.0.0.1/canary", HERE),
    "inline": ("data:text/plain,canary", GONE),
    "a model of a hub": ("https://huggingface.co/canary/x", GONE),
    "by its short scheme": ("hf://canary/x", GONE),
    "of another hub": ("docker.io/canary/x", GONE),
    "a command": ("$(touch canary)/x", HERE),
    "a template": ("{{7*7}}/canary", HERE),
    "SQL": ("geniex/tiny-chat' OR '1'='1", HERE),
    "a star": ("canary-org/*", HERE),
    "a blank": (" ", HERE),
}
_PATHS = [name for name, (text, _) in NAMES.items() if "{dir}" in text or "canary" in text]


def check(watched: Watched, reply: Reply, name: str) -> None:
    """It is refused in our words, nothing was turned to, and no place of this machine is told."""
    error = json.loads(reply.body)["error"]
    assert error["type"] == "invalid_request_error"
    assert watched.turned_to() == []
    # what the request said may be said again, but not more
    told = error["message"].replace(name[:200], "")
    for secret in (str(watched.server.data_dir), "root:x", "Traceback", os.sep + "home"):
        assert secret not in told
    watched.answers()


@pytest.mark.parametrize(("name", "expected"), NAMES.values(), ids=NAMES.keys())
def test_a_model(watched: Watched, name: str, expected: tuple[int, str]) -> None:
    name = watched.filled(name)
    reply = send(watched.url, post("/v1/chat/completions", as_json(model=name, messages=CHAT)))
    assert (reply.status, reply.code) == expected
    check(watched, reply, name)


@pytest.mark.parametrize("name", [NAMES[name][0] for name in _PATHS], ids=_PATHS)
@pytest.mark.parametrize("kind", ["draft-mtp", "auto"])
def test_a_draft(watched: Watched, name: str, kind: str) -> None:
    name = watched.filled(name)
    fields = {"model": MODEL, "messages": CHAT, "spec_type": kind, "spec_draft_model": name}
    reply = send(watched.url, post("/v1/chat/completions", as_json(**fields)))
    assert reply.status == 400
    assert reply.code in ("invalid_value", "draft_model_not_found")
    assert json.loads(reply.body)["error"]["param"] == "spec_draft_model"
    check(watched, reply, name)


@pytest.mark.parametrize("name", [text for text, _ in NAMES.values()], ids=NAMES.keys())
@pytest.mark.parametrize("raw", [False, True], ids=["encoded", "as it is"])
def test_a_model_in_an_address(watched: Watched, name: str, raw: bool) -> None:
    name = watched.filled(name)
    plain = name.isascii() and name.isprintable() and " " not in name and len(name) < 5000
    shown = name if raw else quote(name, safe="", errors="surrogatepass")
    if not name.strip() or (raw and ("?" in name or not plain)):
        pytest.skip("this is another address, or none")
    expected = {414} if len(shown) > MAX_TARGET else {400, 404}
    for target, method in ((f"/v1/models/{shown}", "GET"), (f"/v1/models/{shown}/unload", "POST")):
        length = [("Content-Length", "0")] if method == "POST" else []
        reply = send(watched.url, head(target, length, method=method, host="localhost"))
        assert reply.status in expected, reply
        check(watched, reply, name)


@pytest.mark.parametrize(
    ("target", "fields"),
    [
        ("/v1/completions", {"prompt": "Hi"}),
        ("/v1/responses", {"input": "Hi"}),
        ("/v1/embeddings", {"input": "Hi"}),
        ("/v1/tokenize", {"content": "Hi"}),
        ("/v1/detokenize", {"tokens": [1]}),
        ("/v1/models/geniex/tiny-chat/load", {"spec_type": "auto"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.parametrize(
    "name", ["{dir}/canary.gguf", "file://{dir}/pipe", "canary.gguf", "\\\\127.0.0.1\\canary\\x"]
)
def test_the_other_routes(
    watched: Watched, target: str, fields: dict[str, object], name: str
) -> None:
    name = watched.filled(name)
    field = "spec_draft_model" if "load" in target else "model"
    reply = send(watched.url, post(target, as_json(**{**fields, field: name})))
    assert (reply.status, reply.code) == HERE
    check(watched, reply, name)


@pytest.mark.parametrize("name", [text for text, _ in NAMES.values()], ids=NAMES.keys())
def test_a_grammar_where_there_is_no_folder_for_them(watched: Watched, name: str) -> None:
    name = watched.filled(name.replace("canary.gguf", "words.gbnf"))
    fields = {"model": MODEL, "messages": CHAT, "grammar_path": name}
    reply = send(watched.url, post("/v1/chat/completions", as_json(**fields)))
    assert (reply.status, reply.code) == HERE
    assert json.loads(reply.body)["error"]["param"] == "grammar_path"
    check(watched, reply, name)
