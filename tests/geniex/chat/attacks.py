"""What a stranger's template may try: each is to be an error, or to come to nothing."""

LOOP = "{% for i in range(99999) %}"
END = "{% endfor %}"
DOUBLING = "{% set ns = namespace(x='ab') %}{% for i in range(60) %}{% set ns.x = "
LAUGHS = "{% set ns = namespace(x=['lol']) %}{% for i in range(40) %}{% set ns.x = [ns.x, ns.x] %}"
TWO_LAUGHS = (
    "{% set ns = namespace(x=['l'], y=['l']) %}{% for i in range(60) %}"
    "{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{% endfor %}"
)

ATTACKS = {
    # time
    "nested loops": LOOP * 3 + END * 3,
    "nested loops over text": "{% set t = 'x' * 9999 %}"
    + "".join(f"{{% for {c} in t %}}" for c in "abc")
    + END * 3,
    "endless recursion": "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "branching recursion": "{% macro m(n) %}{% if n %}{{ m(n-1) }}{{ m(n-1) }}{% endif %}"
    "{% endmacro %}{{ m(60) }}",
    "recursive loop": "{% for a in [[[1]]] recursive %}{{ loop([a, a]) }}{% endfor %}",
    "self block": "{% block b %}{{ self.b() }}{% endblock %}",
    "huge power": "{{ (messages | length + 8) ** (9 ** 9) }}",
    "power in a constant": "{{ 9 ** (9 ** 9) }}",
    "deep comparison": TWO_LAUGHS + "{{ ns.x == ns.y }}",
    "deep sort": TWO_LAUGHS + "{{ [ns.x, ns.y] | sort }}",
    "deep hash": "{% set ns = namespace(x=(1,)) %}{% for i in range(60) %}"
    "{% set ns.x = (ns.x, ns.x) %}{% endfor %}{{ {ns.x: 1} }}",
    "quadratic sum": LOOP + "{% set x = range(99999) | map('string') | list | join %}" + END,
    "number to text": "{{ (10 ** 999999) | string | length }}",
    # memory
    "big constant": "{{ 'a' * 10 ** 9 }}",
    "big text": "{{ messages[0].content * 10 ** 9 }}",
    "big list": "{{ (messages * 10 ** 9) | length }}",
    "doubling by plus": DOUBLING + "ns.x + ns.x %}{% endfor %}{{ ns.x | length }}",
    "doubling by tilde": DOUBLING + "ns.x ~ ns.x %}{% endfor %}{{ ns.x | length }}",
    "doubling by join": DOUBLING + "[ns.x, ns.x] | join %}{% endfor %}{{ ns.x | length }}",
    "doubling by replace": DOUBLING + "ns.x.replace('a', 'aa') * 2 %}{% endfor %}{{ ns.x|length }}",
    "doubling by set block": DOUBLING.replace("ns.x = ", "z = 1")
    + " %}{% set y %}{{ ns.x }}{{ ns.x }}{% endset %}{% set ns.x = y %}{% endfor %}",
    "percent format": "{{ ('%999999999d' % 1) | length }}",
    "format filter": "{{ ('%999999999d' | format(1)) | length }}",
    "brace format": "{{ '{:>999999999}'.format(1) | length }}",
    "center": "{{ 'a' | center(10 ** 9) | length }}",
    "ljust": "{{ 'a'.ljust(10 ** 9) | length }}",
    "zfill": "{{ 'a'.zfill(10 ** 9) | length }}",
    "expandtabs": "{{ '\\t'.expandtabs(10 ** 9) | length }}",
    "indent": "{{ 'a\\nb' | indent(10 ** 9) | length }}",
    "translate": "{{ ('a' * 99999).translate({97: 'b' * 99999}) | length }}",
    "tojson indent": "{{ messages | tojson(indent=10 ** 9) | length }}",
    "laughs as text": LAUGHS + END + "{{ ns.x }}",
    "laughs as json": LAUGHS + END + "{{ ns.x | tojson | length }}",
    "laughs pretty": LAUGHS + END + "{{ ns.x | pprint | length }}",
    "lorem ipsum": "{{ lipsum(n=10 ** 7) | length }}",
    "self-made loop": "{% set c = cycler(1, 2) %}" + LOOP * 3 + "{% set x = c.next() %}" + END * 3,
    "a macro's caller": "{% macro m() %}{{ caller() }}{% endmacro %}"
    + "{% call m() %}" * 400
    + LOOP * 3
    + END * 3
    + "{% endcall %}" * 400,
    "sum of lists": "{{ ([[1] * 9999] * 9999) | sum(start=[]) | length }}",
    "regex of urlize": "{{ ('<' * 99999 ~ 'www.a.b' * 99999) | urlize | length }}" * 20,
    "regex of striptags": "{{ ('<!-' * 999999) | striptags | length }}" * 99,
    "word wrap": "{{ ('a ' * 4999999) | wordwrap(1) | length }}",
    "unique of deep lists": TWO_LAUGHS + "{{ [ns.x, ns.y] | unique | list | length }}",
    "huge slice": "{{ range(9) | slice(10 ** 9) | list | length }}",
    "wide tojson": "{{ messages | tojson(separators=('x' * 10 ** 9, 'y')) | length }}",
    "batch": "{{ [1] | batch(10 ** 9, 'x') | list | length }}",
    "huge range": "{{ range(10 ** 12) | list | length }}",
    # output
    "flood": LOOP + "{{ 'x' * 1000 }}" + END,
    "one big piece": "{{ 'x' * 9000000 }}",
    "slow flood": LOOP + LOOP + "x" + END + END,
    # ways out
    "mro": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "globals of strftime": "{{ strftime_now.__globals__['datetime'] }}",
    "globals of lipsum": "{{ lipsum.__globals__['os'].popen('id').read() }}",
    "cycler": "{{ cycler.__init__.__globals__ }}",
    "namespace": "{{ namespace.__init__.__globals__ }}",
    "append": "{{ messages.append(1) }}",
    "update": "{{ messages[0].update({'role': 'system'}) }}",
    "set item": "{{ messages[0].__setitem__('role', 'x') }}",
    "pop": "{{ messages.pop() }}",
    "clear": "{{ messages[0].clear() }}",
    "sort in place": "{{ messages.sort() }}",
    "update by filter": "{{ messages[0] | attr('update')({'role': 'x'}) }}",
    "mro by map": "{{ [''] | map(attribute='__class__.__mro__') | list | first | length }}",
    "code of a macro": "{% macro m() %}{% endmacro %}{{ m._func.__globals__['os'].system('id') }}",
    "the environment": "{{ self._TemplateReference__context.environment.from_string('x') }}",
    "include": "{% include '/etc/passwd' %}",
    "import": "{% import 'os' as os %}",
    "extends": "{% extends '/etc/passwd' %}",
    # the compiler
    "syntax": "{% if %}",
    "unknown tag": "{% exec 'x' %}",
    "unknown filter": "{{ messages | system }}",
    "open block": "{% for m in messages %}",
    "deep parentheses": "{{ " + "(" * 50_000 + "1" + ")" * 50_000 + " }}",
    "deep lists": "{{ " + "[" * 50_000 + "]" * 50_000 + " }}",
    "deep ifs": "{% if 1 %}" * 3000 + "{% endif %}" * 3000,
    "deep loops": "{% for a in [1] %}" * 3000 + END * 3000,
    "raise": "{{ raise_exception('no \\x1b[31m\\nthanks') }}",
    "raise much": "{{ raise_exception('x' * 10 ** 7) }}",
}

# what Jinja answers with nothing: the source, and all that it may give
HARMLESS = {
    "round": ("{{ 1.5 | round(10 ** 9) }}", "1.5"),
    "date format": ("{{ strftime_now('%1000000000Y') | length }}", "0"),
    "class": ("{{ ''.__class__ }}", ""),
    "attr filter": ("{{ '' | attr('__class__') }}", ""),
    "format attribute": ("{{ '{0.__class__}'.format(messages) }}", ""),
    "format map": ("{{ '{x.__class__}'.format_map({'x': 1}) }}", ""),
    "globals of a function": ("{{ raise_exception.__globals__ }}", ""),
    "map attribute": ("{{ [''] | map(attribute='__class__') | list }}", "[Undefined]"),
    "frame of a generator": ("{{ (messages | map('string')).gi_frame }}", ""),
}
