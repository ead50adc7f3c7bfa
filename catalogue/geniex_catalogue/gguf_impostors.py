"""What a file is that carries the name of a GGUF without being one, and what to do about it."""

_AGAIN = "download it again"
# (first bytes, what it is, what to do)
_KNOWN: tuple[tuple[bytes, str, str], ...] = (
    (
        b"version https://git-lfs.github.com/spec/",
        "it is a Git LFS pointer, not the file itself",
        "fetch the file with `git lfs pull`, or pull the model with `geniex pull`",
    ),
    (
        b"# xet version",
        "it is a Xet pointer, not the file itself",
        "pull the model with `geniex pull`",
    ),
    (
        b"/annex/objects/",
        "it is a git-annex pointer, not the file itself",
        "fetch the file with `git annex get`",
    ),
    (b"PK\x03\x04", "it is a zip archive", "import it with `geniex pull NAME --local-path FILE`"),
    (b"\x1f\x8b", "it is a gzip archive", "unpack it first"),
    (b"\x28\xb5\x2f\xfd", "it is a zstd archive", "unpack it first"),
    (b"7z\xbc\xaf\x27\x1c", "it is a 7z archive", "unpack it first"),
    (b"lmgg", "it is a GGML file, the format before GGUF", "get the model as GGUF"),
    (b"tjgg", "it is a GGJT file, the format before GGUF", "get the model as GGUF"),
    (b"fmgg", "it is a GGMF file, the format before GGUF", "get the model as GGUF"),
    (b"algg", "it is a GGLA adapter, the format before GGUF", "get the model as GGUF"),
)


def explain_magic(head: bytes, size: int | None) -> tuple[str, str]:
    """Reason and next step for a file that begins with `head` (up to 512 bytes) instead of GGUF."""
    if not head or size == 0:
        return "it is empty (0 bytes)", _AGAIN
    for magic, what, hint in _KNOWN:
        if head.startswith(magic):
            return what, hint
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if text.startswith((b"<!doctype html", b"<html", b"<head", b"<!--")):
        return (
            "it is an HTML page, not a model",
            "download the file itself (the `resolve` address, not the page), or use `geniex pull`",
        )
    if text.startswith((b"<?xml", b"<error")):
        return "it is an XML answer of a server, not a model", _AGAIN
    if head[8:9] == b"{" and int.from_bytes(head[:8], "little") < 1 << 32:
        return "it is a safetensors file", "get the model as GGUF, or convert it with llama.cpp"
    if text.startswith((b'{"', b"{ ", b"{\n")):
        return "it is a JSON text (often a server's error), not a model", _AGAIN
    if b"GGUF".startswith(head):
        return f"it ends after {len(head)} bytes", _AGAIN
    if not head.strip(b"\0"):
        return "it begins with zeros: its download did not finish", _AGAIN
    shown = head[:4].decode("ascii", "replace")
    return f"it begins with {shown!a} instead of 'GGUF'", "download it again, or check the file"
