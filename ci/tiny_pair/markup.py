"""Special tokens and chat template of the tiny pair, in the style of Gemma 4."""

import re

CONTROL, NORMAL, UNKNOWN, USER, BYTE = 3, 1, 2, 4, 6  # token types of GGUF
SPECIALS = [
    ("<pad>", CONTROL),
    ("<eos>", CONTROL),
    ("<bos>", CONTROL),
    ("<unk>", UNKNOWN),
    ("<mask>", CONTROL),
    ("<|tool>", CONTROL),
    ("<tool|>", CONTROL),
    ("<|tool_call>", USER),
    ("<tool_call|>", USER),
    ("<|tool_response>", USER),
    ("<tool_response|>", USER),
    ('<|"|>', USER),
    ("<|think|>", CONTROL),
    ("<|channel>", USER),
    ("<channel|>", USER),
    ("<|turn>", CONTROL),
    ("<turn|>", CONTROL),
]
SPECIAL_ID = {text: number for number, (text, _) in enumerate(SPECIALS)}
PAD, EOS, BOS, UNK, MASK = 0, 1, 2, 3, 4
TURN_END = SPECIAL_ID["<turn|>"]
_LONGEST_FIRST = sorted(SPECIAL_ID, key=len, reverse=True)
SPECIAL_TEXT = re.compile("(" + "|".join(re.escape(text) for text in _LONGEST_FIRST) + ")")

NO_THOUGHT = "<|channel>thought\n<channel|>"

CHAT_TEMPLATE = r"""{#- OpenAI Chat Completions: small template in the style of Gemma 4 (text only). -#}
{%- macro render_text(content) -%}
    {%- if content is string -%}
        {{- content | trim -}}
    {%- elif content is sequence -%}
        {%- for item in content -%}
            {%- if item['type'] == 'text' -%}{{- item['text'] | trim -}}{%- endif -%}
        {%- endfor -%}
    {%- endif -%}
{%- endmacro -%}
{%- set thinking = enable_thinking is defined and enable_thinking -%}
{%- set loop_messages = messages -%}
{{- bos_token -}}
{%- if thinking or messages[0]['role'] in ['system', 'developer'] -%}
    {{- '<|turn>system\n' -}}
    {%- if thinking -%}
        {{- '<|think|>\n' -}}
    {%- endif -%}
    {%- if messages[0]['role'] in ['system', 'developer'] -%}
        {{- render_text(messages[0]['content']) -}}
        {%- set loop_messages = messages[1:] -%}
    {%- endif -%}
    {{- '<turn|>\n' -}}
{%- endif -%}
{%- for message in loop_messages -%}
    {%- set role = 'model' if message['role'] == 'assistant' else message['role'] -%}
    {{- '<|turn>' + role + '\n' -}}
    {%- if message['tool_calls'] -%}
        {%- for tool_call in message['tool_calls'] -%}
            {{- '<|tool_call>call:' + tool_call['function']['name'] + '{}<tool_call|>' -}}
        {%- endfor -%}
    {%- endif -%}
    {{- render_text(message['content']) -}}
    {{- '<turn|>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{- '<|turn>model\n' -}}
    {%- if not thinking -%}
        {{- '<|channel>thought\n<channel|>' -}}
    {%- endif -%}
{%- endif -%}
"""  # noqa: E501
