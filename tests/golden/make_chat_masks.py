"""Writes tests/golden/chat_template/masks.json: which tokens of conversations are the assistant's.

Run with an environment that has transformers 5: python tests/golden/make_chat_masks.py
The masks come from apply_chat_template(return_assistant_tokens_mask=True), for which copies of the
templates get {% generation %} around what the assistant writes. Each turn is taken from the
conversation up to it, and "whole" from all of it where the template writes past turns unchanged.
"""

import json
import pathlib

from conversations import CALLS, TALK, TOOLS
from transformers import PreTrainedTokenizerFast

FOLDER = pathlib.Path(__file__).parent
LONG = TALK + [
    {"role": "assistant", "content": "\n\nIt's \u00e9.\n"}, {"role": "user", "content": "Again?"},
    {"role": "assistant", "content": "  No \U0001f600"},
]
SHORT = [{"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "2"}]
ENDED = CALLS + [{"role": "assistant", "content": "Over."}]

TURN = "{{- '<|im_start|>' + message.role + '\\n"
TAGS = {
    "qwen2": [(
        "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}",
        "{{'<|im_start|>' + message['role'] + '\n'}}{% if message['role'] == 'assistant' %}"
        "{% generation %}{{ message['content'] + '<|im_end|>' }}{% endgeneration %}{% else %}"
        "{{ message['content'] + '<|im_end|>' }}{% endif %}{{ '\n' }}",
    )],
    "llama3": [(
        "'<|end_header_id|>\\n\\n' + message['content'] | trim + '<|eot_id|>' }}",
        "'<|end_header_id|>\\n\\n' }}{%- if message.role == 'assistant' %}{%- generation %}"
        "{{- message['content'] | trim + '<|eot_id|>' }}{%- endgeneration %}{%- else %}"
        "{{- message['content'] | trim + '<|eot_id|>' }}{%- endif %}",
    )],
    "qwen3": [(
        "        {%- if loop.index0 > ns.last_query_index %}",
        TURN + "' }}{%- generation %}{%- if loop.index0 > ns.last_query_index %}",
    ), (TURN + "<think>", "{{- '<think>"), (TURN + "' + content }}", "{{- content }}"),
              ("        {{- '<|im_end|>\\n' }}\n    {%- elif message.role == \"tool\" %}",
               "{{- '<|im_end|>' }}{%- endgeneration %}{{- '\\n' }}"
               "{%- elif message.role == \"tool\" %}")],
}
CASES = [("qwen2", SHORT, {}, True), ("qwen2", LONG, {}, True), ("llama3", SHORT, {}, True),
         ("llama3", LONG, {}, True), ("qwen3", SHORT, {}, True), ("qwen3", LONG, {}, False),
         ("qwen3", ENDED, {"tools": TOOLS}, False)]


def tagged(name, template):
    for old, new in TAGS[name]:
        assert old in template, (name, old)
        template = template.replace(old, new)
    return template


def masked(tokenizer, template, messages, variables):
    out = tokenizer.apply_chat_template(messages, chat_template=template, tokenize=True,
                                        return_dict=True, return_assistant_tokens_mask=True,
                                        **variables)
    return list(out["input_ids"]), list(out["assistant_masks"])


def spans(mask):
    found = []
    for at, trained in enumerate(mask):
        if trained and (at == 0 or not mask[at - 1]):
            found.append([at, at])
        if trained:
            found[-1][1] = at + 1
    return found


def main():
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(FOLDER / "tokenizer/tokenizer.json"))
    cases = []
    for name, messages, variables, whole in CASES:
        plain = (FOLDER / "chat_template" / (name + ".jinja")).read_text(encoding="utf-8")
        template = tagged(name, plain)
        variables = {"bos_token": "", "date_string": "26 Jul 2024", **variables}
        turns = []
        for i, message in enumerate(messages):
            if message["role"] != "assistant":
                continue
            upto = messages[:i + 1]
            texts = [tokenizer.apply_chat_template(upto, chat_template=t, tokenize=False,
                                                   **variables) for t in (plain, template)]
            assert texts[0] == texts[1], texts
            tokens, mask = masked(tokenizer, template, upto, variables)
            begin, end = spans(mask)[-1]
            turns.append({"context": tokens[:begin], "trained": tokens[begin:end]})
        case = {"template": name, "messages": messages, "variables": variables, "turns": turns}
        if whole:
            tokens, mask = masked(tokenizer, template, messages, variables)
            case["whole"] = {"tokens": tokens, "spans": spans(mask)}
        cases.append(case)
    path = FOLDER / "chat_template" / "masks.json"
    path.write_text(json.dumps(cases) + "\n", encoding="utf-8")


main()
