"""Formats of strings that a schema may ask for, as regular expressions.

They match less than the formats allow, so that a model does not go on for ever.
"""

_DATE = (
    r"[1-9]\d{3}-((0[13578]|1[02])-(0[1-9]|[12]\d|3[01])"
    r"|(0[469]|11)-(0[1-9]|[12]\d|30)|02-(0[1-9]|1\d|2[0-8]))"
)
_TIME = r"([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)"
_BYTE = r"(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_WORD = "[a-z0-9]{1,20}"
_HOST = rf"{_WORD}(-{_WORD}){{0,2}}(\.{_WORD}(-{_WORD}){{0,2}}){{0,3}}\.[a-z]{{2,12}}"

FORMATS = {
    "date": f"^{_DATE}$",
    "time": f"^{_TIME}$",
    "date-time": f"^{_DATE}T{_TIME}$",
    "uuid": r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$",
    "email": rf"^{_WORD}([._+-]{_WORD}){{0,3}}@{_WORD}(-{_WORD}){{0,2}}(\.[a-z]{{2,12}}){{1,3}}$",
    "uri": rf"^https?://{_HOST}(:[1-9]\d{{1,3}})?(/[A-Za-z0-9._~-]{{0,40}}){{0,8}}$",
    "duration": r"^(P\d{1,3}D(T\d{1,2}H)?|PT(\d{1,3}H)?\d{1,2}M|PT\d{1,5}S)$",
    "ipv4": rf"^{_BYTE}(\.{_BYTE}){{3}}$",
}
