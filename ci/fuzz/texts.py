"""Targets that read text: names, reasoning, tool calls, schemas, events."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ci.fuzz.target import Check, Target, always, expect
from geniex.chat.reasoning import FORMATS, ReasoningSplitter
from geniex.chat.tool_calls.families import FAMILIES
from geniex.chat.tool_calls.reader import CallReader
from geniex.chat.tools import Tool
from geniex_catalogue import names
from geniex_catalogue.errors import GenieXError
from geniex_catalogue.store import Store

_SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "minLength": 1, "maxLength": 9, "pattern": "^[A-Z][a-z]+$"},
        "when": {"type": "string", "format": "date-time"},
        "days": {"type": "integer", "minimum": -3, "exclusiveMaximum": 14},
        "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}, "maxItems": 3},
        "any": {"anyOf": [{"const": None}, {"enum": ["a", 1, {"b": []}]}, {"type": "number"}]},
        "all": {"allOf": [{"type": "object", "required": ["x"]}, {"properties": {"x": {}}}]},
    },
    "required": ["city", "days"],
    "additionalProperties": {"type": ["boolean", "null"]},
    "$defs": {"tag": {"oneOf": [{"type": "string"}, {"$ref": "#"}]}},
}


def _name(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    names.local_path(text)
    try:
        ref = names.parse(text, {"tiny": "geniex/tiny-chat"})
    except GenieXError as exc:
        expect(len(exc.message) < 5000, "a message without end")
        return
    expect(names.parse(str(ref)) == ref, f"{ref} is not what it reads as")
    root = Path("/store")
    folder = Store(root).folder(ref)
    expect(folder.resolve().is_relative_to(root / "models"), f"{folder} is outside")
    expect(folder != root / "models", "it is all models")


def _pieces(text: str, key: int) -> list[str]:
    """The text in pieces of lengths that depend on its own bytes."""
    pieces, at = [], 0
    while at < len(text):
        length = 1 + (ord(text[at]) * 7 + key) % 9
        pieces.append(text[at : at + length])
        at += length
    return pieces


def _reasoning(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    for opened in (False, True):
        whole = _split([text], opened)
        for key in (1, 5):
            expect(_split(_pieces(text, key), opened) == whole, "cutting changes it")


def _split(pieces: list[str], opened: bool) -> list[tuple[str, str]]:
    splitter = ReasoningSplitter(opened, FORMATS)
    parts = [part for piece in pieces for part in splitter.feed(piece)] + splitter.finish()
    joined: list[tuple[str, str]] = []
    for part in parts:
        expect(bool(part.text), "an empty part")
        if joined and joined[-1][0] == part.kind:
            joined[-1] = (part.kind, joined[-1][1] + part.text)
        else:
            joined.append((part.kind, part.text))
    return joined


_TOOLS = [Tool("weather", parameters=_SCHEMA), Tool("now")]


def _calls(data: bytes) -> None:
    from geniex.chat.reasoning import Part
    from geniex.chat.tools import ToolCallPart

    text = data.decode("utf-8", "replace")

    def read(pieces: list[str], required: bool) -> tuple[str, list[list[str]]]:
        reader = CallReader(_TOOLS, FAMILIES, parallel=True, required=required)
        content, calls, at = "", [], 0
        out: list[Part | ToolCallPart] = []
        for piece in pieces:
            out += reader.feed(Part("content", piece, at=at))
            at += len(piece)
        for part in out + reader.finish():
            if isinstance(part, Part):
                content += part.text
            elif part.id is not None:
                calls.append([part.name or "", part.arguments])
            else:
                calls[-1][1] += part.arguments
        return content, calls

    for required in (False, True):
        whole = read([text], required)
        expect(read(_pieces(text, 3), required) == whole, "cutting changes it")
        expect(all(name for name, _ in whole[1]), "a call of nothing")


def _schema(data: bytes) -> None:
    from geniex.chat.json_schema import schema_grammar

    try:
        schema = json.loads(data)
    except (ValueError, RecursionError):
        return
    try:
        grammar = schema_grammar(schema)
    except GenieXError as exc:
        expect(len(exc.message) < 5000, "a message without end")
        return
    expect(grammar.startswith("root ::="), grammar[:50])
    expect(len(grammar) < 2_000_000, "a grammar without end")


@contextmanager
def _open_events() -> Iterator[Check]:
    import httpx2

    from geniex.address import Address
    from geniex.client.server import Server, Stream

    def read(server: Server, data: bytes, step: int) -> tuple[list[object], str]:
        response = httpx2.Response(
            200,
            headers={"content-type": "text/event-stream"},
            content=(data[at : at + step] for at in range(0, len(data), step)),
            request=httpx2.Request("POST", "http://server/"),
        )
        found: list[object] = []
        try:
            found.extend(Stream(response, server._translated))
        except GenieXError as exc:
            return found, type(exc).__name__
        return found, ""

    with Server(Address()) as server:

        def check(data: bytes) -> None:
            """The first byte says how the rest is cut."""
            step, rest = 1 + (data[0] if data else 0) % 40, data[1:]
            whole = read(server, rest, max(1, len(rest)))
            expect(repr(read(server, rest, step)) == repr(whole), "cutting changes it")

        yield check


_EVENT = b'data: {"choices": [{"delta": {"content": "Hi"}}]}\n\n'
_MARKS = tuple(
    text.encode() for form in FORMATS for text in (*form.opens, *form.closes, *form.drops)
)
_CALL_MARKS = (
    *(b"<tool_call>", b"</tool_call>", b"<|tool_call>call:weather{", b"<tool_call|>", b'<|"|>'),
    *(b"[TOOL_CALLS]", b"[ARGS]", b"<function=weather>", b"<parameter=city>", b"</parameter>"),
    *(b"</function>", b"<|python_tag|>", b"weather", b"now", b'{"name": "weather", ', b"```json\n"),
    *(b'"arguments": {"city": "Paris"}}', b'"parameters": {}', b"<|channel|>commentary to="),
    *(b"functions.weather", b"<|message|>", b"<|call|>", b"<|constrain|>json", b"[", b"]", b"}"),
    *(b"{", b'"', b"\\", b"\\u00", b"\xc3", b"weather(city=", b"call:now{}", b"\n\n", b"null"),
)
TEXTS = (
    Target(
        "names",
        always(_name),
        lambda: [
            *(b"geniex/tiny-chat:Q8_0", b"tiny", b"org/repo:file.gguf", b"hf.co/org/repo:Q4_K_M"),
            *(
                b"https://huggingface.co/org/repo/blob/main/a.gguf",
                b"./model.gguf",
                b"C:\\a\\b.gguf",
            ),
            *(b"docker.io/ai/smollm2:360M-Q4_0", b"~/x/y.gguf", b"org/repo@main", b"local/x"),
        ],
        (b"/", b"..", b":", b"\\", b"@", b"con", b"NUL.gguf", b"hf.co/", b"%2e%2e", b"\xff", b"~"),
        form="text",
    ),
    Target(
        "reasoning",
        always(_reasoning),
        lambda: [b"<think>\nwhy\n</think>\n\nBecause.", *(mark + b" a " for mark in _MARKS)],
        _MARKS,
        form="text",
    ),
    Target(
        "tool_calls",
        always(_calls),
        lambda: [
            b'<tool_call>\n{"name": "weather", "arguments": {"city": "Paris"}}\n</tool_call>',
            b'<|tool_call>call:weather{city:<|"|>Paris<|"|>,days:3}<tool_call|>',
            b'[TOOL_CALLS][{"name": "weather", "arguments": {"city": "Paris"}}]',
            b'[TOOL_CALLS]weather[ARGS]{"city": "Paris"}',
            b"<function=weather>\n<parameter=city>\nParis\n</parameter>\n</function>",
            b'{"name": "weather", "parameters": {"city": "Paris"}}',
            b'<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{"city":"P"}',
            *_CALL_MARKS,
        ],
        _CALL_MARKS,
        form="text",
    ),
    Target(
        "schemas",
        always(_schema),
        lambda: [json.dumps(_SCHEMA).encode(), b'{"type": "string"}', b"true", b"{}"],
        (
            *(b'"$ref": "#"', b'"not": {}', b'"pattern": "(a*)*$"', b'"minItems": 99999', b"[0-9"),
            *(b'"enum": []', b'"const": 1e400', b'"prefixItems": [{}]', b"\\u0000", b"{1,9999}"),
        ),
        form="json",
    ),
    Target(
        "events",
        _open_events,
        lambda: [
            b"\x05" + _EVENT * 2 + b"data: [DONE]\n\n",
            b"\x01: ping\n\n" + _EVENT.replace(b"\n", b"\r\n") + b"data: [DONE]\r\n\r\n",
            b'\x11event: error\ndata: {"error": {"message": "no", "code": 1}}\n\n',
            b"\x11id: 1\nretry: x\ndata: {\ndata: }\n\ndata: [DONE]\n\n",
        ],
        (b"data: ", b"\n\n", b"\r", b":", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"\x85", b"[DONE]"),
        form="text",
    ),
)
