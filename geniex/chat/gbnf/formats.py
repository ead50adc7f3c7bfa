"""Formats of strings that a schema may ask for, as regular expressions."""

_DATE = (
    r"[1-9]\d{3}-((0[13578]|1[02])-(0[1-9]|[12]\d|3[01])"
    r"|(0[469]|11)-(0[1-9]|[12]\d|30)|02-(0[1-9]|1\d|2[0-8]))"
)
_TIME = r"([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)"
_BYTE = r"(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_WORD = "[a-z0-9]{1,20}"

FORMATS = {
    "date": f"^{_DATE}$",
    "time": f"^{_TIME}$",
    "date-time": f"^{_DATE}T{_TIME}$",
    "uuid": r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$",
    "email": rf"^{_WORD}([._+-]{_WORD}){{0,3}}@{_WORD}(-{_WORD}){{0,2}}(\.[a-z]{{2,12}}){{1,3}}$",
    "ipv4": rf"^{_BYTE}(\.{_BYTE}){{3}}$",
}
