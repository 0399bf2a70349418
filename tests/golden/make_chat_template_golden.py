"""Writes tests/golden/chat_template/renders.json: what transformers' Jinja environment makes of chat templates.

Run with an environment that has transformers 5 and jinja2 3.1: python tests/golden/make_chat_template_golden.py
Every text comes from transformers.utils.chat_template_utils.render_jinja_template or, for templates without messages, its environment.
"""

import json
import pathlib

from transformers.utils import chat_template_utils

FOLDER = pathlib.Path(__file__).parent / "chat_template"

SYSTEM = {"role": "system", "content": "Be brief."}
USER = {"role": "user", "content": "What is 12 + 30?"}
TALK = [SYSTEM, USER, {"role": "assistant", "content": "<think>\nadd\n</think>\n\n42"}, {"role": "user", "content": " And \n\u00e9\u4f60\U0001f600 'q' \"d\"?\n"}]
TOOLS = [
    {
        "function": {
            "description": "Weather <now> & \"later\" \u00e9",
            "name": "weather",
            "parameters": {
                "properties": {"city": {"enum": ["Bern", "Z\u00fcrich"], "type": "string"}, "days": {"default": 1.5, "minimum": -3, "type": "number"}},
                "required": ["city"],
                "strict": True,
                "type": "object",
            },
        },
        "type": "function",
    },
    {"function": {"description": "", "name": "nothing", "parameters": {"properties": {}, "type": "object"}}, "type": "function"},
]
CALLS = [
    USER,
    {
        "role": "assistant",
        "content": "I look.",
        "tool_calls": [
            {"function": {"arguments": {"city": "Z\u00fcrich", "days": 2}, "name": "weather"}, "type": "function"},
            {"arguments": {}, "name": "nothing"},
        ],
    },
    {"role": "tool", "content": "sunny"},
    {"role": "tool", "content": "{\"a\": 1}"},
    {"role": "assistant", "content": "Fine.", "reasoning_content": "\nso\n"},
    {"role": "user", "content": "Thanks"},
    {"role": "assistant", "content": "", "tool_calls": [{"function": {"arguments": "{}", "name": "nothing"}}]},
    {"role": "tool", "content": "done"},
]
CONVERSATIONS = [
    ([USER], {}),
    ([SYSTEM, USER], {}),
    (TALK, {}),
    (TALK, {"tools": TOOLS}),
    ([USER], {"tools": TOOLS[1:], "enable_thinking": False}),
    ([USER], {"enable_thinking": True}),
    (CALLS[:2] + CALLS[2:6], {"tools": TOOLS}),
    (CALLS, {"tools": TOOLS}),
    ([USER, {"role": "user", "content": "<tool_response>x</tool_response>"}, {"role": "assistant", "content": "y"}], {}),
]

# Templates that use one construct each, with names n, f, s, t, l, d, e, nested, none besides messages.
NAMES = {
    "n": 7,
    "f": 2.5,
    "s": "  Hello World, h\u00e9llo  ",
    "t": "a-b-c",
    "l": [3, 1, 2],
    "d": {"a": 1, "b": "two", "items": "key"},
    "e": [],
    "nested": [{"k": {"v": 1}, "name": "x", "on": True}, {"k": {"v": 2}, "name": "y", "on": False}, {"k": {"v": 3}, "name": "z", "on": True}],
    "none": None,
    "big": 1e16,
    "tiny": 1.5e-7,
    "quotes": "it's \"so\"\t\\ \n\u00a0\u0001",
}
SNIPPETS = r"""
{{ n }} {{ f }} {{ s }} {{ none }} {{ true }} {{ False }} {{ missing }}|{{ l }} {{ d }} {{ e }} {{ big }} {{ tiny }} {{ 100.0 }} {{ 1e300 }} {{ 0.0001 }} {{ 0.1 + 0.2 }}
{{ [quotes, 'plain', "it's", none, [1.0, true]] }} {{ (1,) }} {{ (1, 2) }} {{ () }} {{ {'a': {'b': []}} }} {{ 1, 2 }}
{{ n + 1 }} {{ n - 10 }} {{ n * 2 }} {{ n / 2 }} {{ n // 2 }} {{ -n // 2 }} {{ n % 3 }} {{ -n % 3 }} {{ n % -3 }} {{ f * 2 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ -n }} {{ +n }} {{ - 2 + 3 * 4 }} {{ true + 1 }} {{ 8 / 2 }}
{{ 'ab' * 3 }} {{ 'a' + 'b' ~ 1 + 2 if false else 'x' }} {{ 'a' ~ 1 ~ none ~ missing ~ 2.0 ~ [1] }} {{ [1] + [2] }} {{ (1,) + (2,) }} {{ 'a' 'b' "c" }}
{{ 1 < 2 }} {{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 'a' < 'b' }} {{ 1 == 1.0 }} {{ 1 == true }} {{ 'a' != 'b' }} {{ [1, 2] == [1, 2] }} {{ (1,) == [1] }} {{ {'a': 1} == {'a': 1} }} {{ none == false }} {{ missing == none }} {{ 2 >= 2 }} {{ 'é' > 'z' }}
{{ 1 in l }} {{ 'ell' in s }} {{ 'a' in d }} {{ 'z' not in d }} {{ not 1 in l }} {{ 'a' in missing }} {{ 5 not in l }} {{ '' in 'a' }}
{{ 1 and 0 }} {{ 0 or 'x' }} {{ not e }} {{ '' or none or [] }} {{ 1 and 'y' and l }} {{ not not n }} {{ n and not e or false }}
{{ 'yes' if n > 5 else 'no' }} {{ 'yes' if n > 9 }}| {{ 1 if 0 else 2 if 0 else 3 }} {{ (1 if true else 2) + 1 }}
{{ l[0] }} {{ l[-1] }} {{ l[9] }}| {{ l.0 }} {{ nested.0.k.v }} {{ d.a }} {{ d['b'] }} {{ d.zz }}| {{ d['zz'] }}| {{ s[2] }} {{ 'héé'[1] }} {{ 'abc'[-1] }} {{ nested[1]['k']['v'] }} {{ d['items'] }}
{{ l[1:] }} {{ l[:-1] }} {{ l[::-1] }} {{ l[::2] }} {{ 'héllo'[1:3] }} {{ 'héllo'[::-1] }} {{ l[5:] }} {{ l[-2:] }} {{ l[-9:9] }} {{ l[2:0:-1] }} {{ (1,2,3)[1:] }} {{ l[:] }} {{ l[none:2] }} {{ 'abcdef'[-2:-5:-2] }}
{{ s.strip() }}|{{ s.lstrip() }}|{{ s.rstrip() }}|{{ 'xxaxx'.strip('x') }}|{{ 'abcba'.lstrip('ab') }}|{{ 'éaé'.strip('é') }}|{{ '\n a \t'.strip() }}|{{ '\u00a0a\u3000'.strip() }}
{{ t.split('-') }} {{ ' a  b '.split() }} {{ t.split('-', 1) }} {{ 'a  b  c'.split(none, 1) }} {{ ''.split() }} {{ ''.split('x') }} {{ 'a--b'.split('-') }} {{ 'abc'.split('</think>')[-1] }} {{ 'a\nb\r\nc'.splitlines() }} {{ 'a b'.split(maxsplit=0) }}
{{ t.startswith('a') }} {{ t.endswith('-c') }} {{ t.startswith(('x', 'a-')) }} {{ t.replace('-', '+') }} {{ t.replace('-', '+', 1) }} {{ 'ab'.replace('', '.') }} {{ ', '.join(['a', 'b']) }}
{{ s.upper() }} {{ s.lower() }} {{ 'hello wORLD it\'s 3rd'.title() }} {{ 'hELLO'.capitalize() }} {{ 'éÀ'.upper() }} {{ 'ÉÀЖ'.lower() }}
{{ d.items() | list }} {{ d.keys() | list }} {{ d.values() | list }} {{ d.get('a') }} {{ d.get('zz') }} {{ d.get('zz', 5) }} {% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for k in d %}{{ k }}{% endfor %}
{{ s | trim }}|{{ s | length }}|{{ l | length }}|{{ d | count }}|{{ s | upper }}|{{ s | lower }}|{{ 'ab cd' | capitalize }}|{{ n | string + '!' }}|{{ missing | length }}|{{ 'xax' | trim('x') }}|{{ 5 | trim }}|{{ 'héé' | length }}
{{ missing | default('m') }} {{ none | default('m') }} {{ '' | default('m', true) }} {{ 0 | d(4, boolean=true) }} {{ missing | default }}| {{ n | default('m') }}
{{ l | join(', ') }} {{ e | join(',') }} {{ l | join }} {{ nested | join('/', attribute='name') }} {{ 'abc' | join('.') }} {{ ['a', 1, none, 2.5] | join('-') }}
{{ l | first }} {{ l | last }} {{ e | first }}| {{ e | last }}| {{ 'xyz' | first }} {{ d | first }} {{ l | reverse | list }} {{ 'abc' | reverse }} {{ 'abc' | list }} {{ d | list }}
{{ 'aXbX' | replace('X', 'y') }} {{ 'aXbX' | replace('X', 'y', 1) }} {{ 12321 | replace(2, 'z') }} {{ d | items | list }} {{ missing | items | list }}
{{ nested | map(attribute='name') | list }} {{ nested | map(attribute='k.v') | list }} {{ ['a', 'b'] | map('upper') | join }} {{ nested | map(attribute='zz', default='-') | list }} {{ l | map('string') | list }} {{ l | map('default', 3) | list }}
{{ nested | selectattr('on') | map(attribute='name') | join }} {{ nested | rejectattr('on') | map(attribute='name') | join }} {{ nested | selectattr('name', 'equalto', 'y') | list | length }} {{ nested | selectattr('k.v', 'in', [1, 3]) | map(attribute='name') | list }} {{ [1, 0, none, 'a'] | select | list }} {{ [1, 'a', none] | select('string') | list }} {{ [1, 'a'] | reject('number') | list }} {{ nested | selectattr('zz', 'defined') | list }}
{{ d | tojson }} {{ [1, 2.0, none, true, 'é\n"\\/<&>\u0001\u007f'] | tojson }} {{ nested | tojson(indent=2) }} {{ e | tojson(indent=4) }} {{ {'b': 1, 'a': [{}]} | tojson(indent=1, sort_keys=true) }} {{ 'é😀' | tojson(ensure_ascii=true) }} {{ l | tojson(separators=(',', ':')) }} {{ {} | tojson }} {{ d | tojson | safe }} {{ (1, 'a') | tojson }}
{{ 'a\nb\n\nc' | indent }}|{{ 'a\nb' | indent(2) }}|{{ 'a\nb\n\nc' | indent(2, true) }}|{{ 'a\n\nb' | indent(2, blank=true) }}|{{ 'a\nb\n' | indent(1) }}|{{ 'a\nb' | indent('> ', first=true) }}
{{ n is defined }} {{ missing is defined }} {{ missing is undefined }} {{ none is none }} {{ missing is none }} {{ s is string }} {{ n is string }} {{ d is mapping }} {{ l is mapping }} {{ l is sequence }} {{ d is sequence }} {{ n is sequence }} {{ missing is sequence }} {{ l is iterable }} {{ n is iterable }} {{ missing is iterable }} {{ 'a' is iterable }}
{{ n is number }} {{ f is number }} {{ true is number }} {{ n is integer }} {{ f is integer }} {{ true is integer }} {{ f is float }} {{ true is boolean }} {{ n is boolean }} {{ true is true }} {{ 1 is true }} {{ false is false }} {{ none is false }} {{ n is equalto 7 }} {{ n is eq(7) }} {{ 1 is in l }} {{ n is not none }} {{ not n is none }} {{ n is ne 8 }} {{ n is not defined or true }}
{% if n == 7 %}seven{% elif n == 8 %}eight{% else %}other{% endif %} {% if missing %}a{% elif none %}b{% else %}c{% endif %} {% if n > 1 and l %}yes{% endif %}
{% for x in l %}{{ loop.index }}/{{ loop.index0 }}/{{ loop.revindex }}/{{ loop.revindex0 }}/{{ loop.length }} {{ loop.first }} {{ loop.last }} {{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {{ loop.depth }};{% endfor %}
{% for x in l if x > 1 %}{{ x }}:{{ loop.index }}/{{ loop.length }} {% else %}none{% endfor %}{% for x in e %}x{% else %}empty{% endfor %}{% for x in l if x > 9 %}x{% else %}none{% endfor %}{% for x in missing %}x{% else %}missing{% endfor %}
{% for a in [1, 2] %}{% for b in 'xy' %}{{ a }}{{ b }}{{ loop.depth }}{{ loop.index }} {% endfor %}{{ loop.index }}{% endfor %}{% for x in range(5) %}{% if x == 1 %}{% continue %}{% endif %}{% if x == 3 %}{% break %}{% endif %}{{ x }}{% else %}none{% endfor %}
{{ range(3) | list }} {{ range(1, 4) | list }} {{ range(5, 0, -2) | list }} {% for k, v in [[1, 2], (3, 4)] %}{{ k }}{{ v }}{% endfor %}{% for (k, v) in [[1, 2]] %}{{ k }}{{ v }}{% endfor %}
{% set x = 1 %}{% for i in l %}{{ x }}{% set x = i %}{{ x }}{% endfor %}{{ x }}{% if true %}{% set x = 9 %}{% endif %}{{ x }}{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set c = 1, 2 %}{{ c }}
{% set ns = namespace(count=0, last='') %}{% for i in l %}{% set ns.count = ns.count + i %}{% set ns.last = i %}{% endfor %}{{ ns.count }} {{ ns.last }} {{ ns.zz }}| {{ ns['count'] }} {{ namespace({'q': 1}).q }} {{ dict(a=1, b=2) }} {{ dict({'z': 1}, a=2) }}
{% set block %}[{{ n }}{% set inner = 5 %}]{% endset %}{{ block }}{{ inner }}{{ block | length }}{% set empty %}{% endset %}{{ empty == '' }}
{% macro greet(name, mark='!', times=1) %}Hi {{ name }}{{ mark * times }}{% if times > 1 %}{{ greet(name, times=times - 1) }}{% endif %}{% endmacro %}{{ greet('A') }} {{ greet('B', '?') }} {{ greet('C', times=3) }} {{ greet() }} {{ greet(name='D') | upper }}
{% macro outer() %}{{ late }}{{ n }}{% set n = 1 %}{{ n }}{% endmacro %}{% set late = 'L' %}{{ outer() }}{{ n }}{% macro render(x) %}{% for y in x %}{{ y if y is not iterable else render(y) }},{% endfor %}{% endmacro %}{{ render([1, [2, [3]], 4]) }}
a{# comment #}b{#- strip -#} c {#+ keep #} d{% raw %}{{ x }} {% if %}{# #}{% endraw %}e {%- raw -%}  f  {%- endraw -%}  g {{- 1 -}} h {%- if true -%} i {%- endif -%} j
{{ '\n\t\\\'\"\x41\u00e9\U0001F600\q' }} {{ "a\
b" }} {{ 'a
b' }} {{ {'k': {'n': [1, {'z': 2}]}}['k']['n'][1]['z'] }} {{ {'a': '}}'}['a'] }} {{ "{%" }} {{ {} }}{{ {'a':{}} }}
{% generation %}in{% set q = 1 %}{{ q }}{% endgeneration %}{{ q }} {{ messages | length }} {{ add_generation_prompt }} {{ tools }} {{ documents is none }}
{{ 1 if messages is defined and messages | selectattr('role', 'equalto', 'user') | list | length > 0 else 2 }} {{ messages[-1]['content'] | trim }} {{ messages[0].get('role') }} {{ messages | map(attribute='role') | join(' ') }}
{{ bos_token }}{{ eos_token }} {{ 1.5e3 }} {{ 2e-1 }} {{ 10 | string | length }} {{ (n | string)[0] }} {{ [n, f] | map('string') | join }} {{ -n | string }} {{ l | length - 1 }} {{ l | length is equalto 3 }} {{ n is defined and n is number }}
""".strip().split("\n")

LAYOUTS = [
    "a\n  {% if n %}\n    b\n  {% endif %}\nc\n",
    "  {% set x = 1 %}\n  {{ x }}\n\n  {# note #}\n  {{ x }} {% if x %} y {% endif %}\n",
    "{% for x in l %}\n{{ x }}\n{% endfor %}\n\n\n",
    "{% for x in l -%}\n   {{ x }}\n{%- endfor +%}\n  end",
    "\t{%+ if n %}\n  z\n\t{%+ endif %} \n  q {% if n %}  \n{% endif %}",
    "line\r\n  {% if n %}\r\n  dos\r\n  {% endif %}\r\nend\r\n\r\n",
    "x {%- if n %}\n\n  y\n{% endif -%}\n\n  z  {{- n }}  \n {{ n -}}  \n w",
    "{% if n %}{% if f %}  \n  {% endif %}  {% endif %}\n{#- c -#}\n  t",
    "{%- for m in messages -%}\n  {{- m.role -}}\n  : {{ m.content }}\n{% endfor -%}\n",
    "  {# a #}\n  {#- b #}\n  c\n{# d -#}\n  e {# f #}\ng\n{# h #}  \ni",
    "{{ n }}\n{{ n }}\n",
    "\n\n{% if n %}\n\na\n{% endif %}\n\n",
    "{% raw %}\n  {{ a }}\n{% endraw %}\nb\n  {% raw -%}  c  {%- endraw %}\nd",
    "no tags at all\n",
    "",
    "{ {n} } {% if n %}%}{% endif %} }} %} #} {",
]

# Templates that fail, in Jinja too.
FAILURES = [
    "{{ raise_exception('roles must alternate: ' ~ n) }}",
    "{{ missing.attribute }}",
    "{{ missing + 1 }}",
    "{{ 'a' + 1 }}",
    "{{ none | length }}",
    "{{ d.update({'a': 2}) }}",
    "{{ l.append(1) }}",
    "{{ missing() }}",
    "{{ 1 / 0 }}",
    "{{ missing | tojson }}",
    "{{ 1 < 'a' }}",
    "{% for x in 5 %}{% endfor %}",
    "{% set d.x = 1 %}",
    "{{ n() }}",
    "{% for a, b in [[1, 2, 3]] %}{% endfor %}",
    "{% if n %}",
    "{{ n ",
    "{% endif %}",
    "{{ n | nofilter }}",
    "{{ n is notest }}",
    "{% frobnicate %}",
    "{{ (1 }}",
    "{{ 'a }}",
    "{# open",
    "{% raw %} open",
    "{{ }}",
    "{{ 1 2 }}",
    "{% for x l %}{% endfor %}",
    "{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}",
    "{{ l[::0] }}",
    "{{ ''.split('') }}",
]


def render(template, messages, add_generation_prompt, variables):
    compiled = chat_template_utils._compile_jinja_template(template)
    variables = {"tools": None, "documents": None, **variables}
    return compiled.render(messages=messages, add_generation_prompt=add_generation_prompt, **variables)


def sorted_keys(value):
    """Objects come to the tests through nlohmann::json, which sorts keys."""
    return json.loads(json.dumps(value, sort_keys=True))


def main():
    chats = []
    for name in ("qwen2", "qwen2_5", "qwen3"):
        template = (FOLDER / (name + ".jinja")).read_text(encoding="utf-8")
        for messages, variables in sorted_keys(CONVERSATIONS):
            for prompt in (False, True):
                text = render(template, messages, prompt, variables)
                chats.append({"template": name, "messages": messages, "variables": variables, "prompt": prompt, "text": text})
    snippets = []
    names = sorted_keys({**NAMES, "bos_token": "<s>", "eos_token": "</s>"})
    texts = []
    for line in SNIPPETS:  # a tag may span lines
        if texts and (texts[-1].count("{{") > texts[-1].count("}}")):
            texts[-1] += "\n" + line
        else:
            texts.append(line)
    for template in texts + LAYOUTS:
        snippets.append([template, render(template, TALK, True, names)])
    failures = []
    for template in FAILURES:
        try:
            render(template, TALK, True, names)
        except Exception as error:  # every kind of failure counts
            failures.append([template, type(error).__name__ + ": " + str(error)])
        else:
            raise AssertionError(f"{template} does not fail")
    golden = {"chats": chats, "messages": TALK, "names": names, "snippets": snippets, "failures": failures}
    (FOLDER / "renders.json").write_text(json.dumps(golden, indent=0) + "\n", encoding="utf-8")


main()
