"""Writes tests/golden/chat_template/renders.json: what transformers' Jinja environment makes of
chat templates.

Run with an environment that has transformers 5 and jinja2 3.1: python
tests/golden/make_chat_template_golden.py Every text comes from
transformers.utils.chat_template_utils.render_jinja_template or, for templates without messages, its
environment. """

import json
import pathlib

from conversations import CONVERSATIONS, OTHER_CONVERSATIONS, TALK
from transformers.utils import chat_template_utils

FOLDER = pathlib.Path(__file__).parent / "chat_template"

# Templates that use one construct each, with names n, f, s, t, l, d, e, nested, none besides
# messages.
NAMES = {
    "n": 7, "f": 2.5, "s": "  Hello World, h\u00e9llo  ", "t": "a-b-c", "l": [3, 1, 2],
    "d": {"a": 1, "b": "two", "items": "key"}, "e": [],
    "nested": [{"k": {"v": 1}, "name": "x", "on": True}, {"k": {"v": 2}, "name": "y", "on": False},
               {"k": {"v": 3}, "name": "z", "on": True},], "none": None, "big": 1e16,
    "tiny": 1.5e-7, "quotes": "it's \"so\"\t\\ \n\u00a0\u0001",
}
SNIPPETS = (FOLDER / "snippets.txt").read_text().strip().split("\n")

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
    "  {# a #}\n  {#- b #}\n  c\n{# d -#}\n  e {# f #}\ng\n{# h #}  \ni", "{{ n }}\n{{ n }}\n",
    "\n\n{% if n %}\n\na\n{% endif %}\n\n",
    "{% raw %}\n  {{ a }}\n{% endraw %}\nb\n  {% raw -%}  c  {%- endraw %}\nd", "no tags at all\n",
    "", "{ {n} } {% if n %}%}{% endif %} }} %} #} {",
]

# Templates that fail, in Jinja too.
FAILURES = [
    "{{ raise_exception('roles must alternate: ' ~ n) }}", "{{ missing.attribute }}",
    "{{ missing + 1 }}", "{{ 'a' + 1 }}", "{{ none | length }}", "{{ d.update({'a': 2}) }}",
    "{{ l.append(1) }}", "{{ missing() }}", "{{ 1 / 0 }}", "{{ missing | tojson }}",
    "{{ 1 < 'a' }}", "{% for x in 5 %}{% endfor %}", "{% set d.x = 1 %}", "{{ n() }}",
    "{% for a, b in [[1, 2, 3]] %}{% endfor %}", "{% if n %}", "{{ n ", "{% endif %}",
    "{{ n | nofilter }}", "{{ n is notest }}", "{% frobnicate %}", "{{ (1 }}", "{{ 'a }}",
    "{# open", "{% raw %} open", "{{ }}", "{{ 1 2 }}", "{% for x l %}{% endfor %}",
    "{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", "{{ l[::0] }}", "{{ ''.split('') }}",
]


def render(template, messages, add_generation_prompt, variables):
    compiled = chat_template_utils._compile_jinja_template(template)
    variables = {"tools": None, "documents": None, **variables}
    return compiled.render(messages=messages,
                           add_generation_prompt=add_generation_prompt,
                           **variables)


def sorted_keys(value):
    """Objects come to the tests through nlohmann::json, which sorts keys."""
    return json.loads(json.dumps(value, sort_keys=True))


def main():
    chats = []
    for name in ("qwen2", "qwen2_5", "qwen3", "qwen_xml", "glm_xml"):
        template = (FOLDER / (name + ".jinja")).read_text(encoding="utf-8")
        for messages, variables in sorted_keys(CONVERSATIONS):
            for prompt in (False, True):
                text = render(template, messages, prompt, variables)
                chats.append({
                    "template": name, "messages": messages, "variables": variables,
                    "prompt": prompt, "text": text,
                })
    for name in ("llama3", "mistral", "gemma"):
        template = (FOLDER / (name + ".jinja")).read_text(encoding="utf-8")
        for messages, variables in sorted_keys(OTHER_CONVERSATIONS):
            variables = {"bos_token": "<bos>", "eos_token": "</s>", **variables}
            text = render(template, messages, True, variables)
            chats.append({
                "template": name, "messages": messages, "variables": variables, "prompt": True,
                "text": text,
            })
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
    golden = {
        "chats": chats, "messages": TALK, "names": names, "snippets": snippets,
        "failures": failures,
    }
    (FOLDER / "renders.json").write_text(json.dumps(golden, indent=0) + "\n", encoding="utf-8")


main()
