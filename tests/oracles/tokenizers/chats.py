"""Compares `buttress tokenize` on messages with transformers' `apply_chat_template`."""

import json
import pathlib
import tempfile

from conversations import CONVERSATIONS, OTHER_CONVERSATIONS, TOOLS
from transformers import PreTrainedTokenizerFast

FOLDER = pathlib.Path(__file__).parents[2] / "golden" / "chat_template"

# The tokenizer of a template, and its first and last token.
TEMPLATES = {
    "qwen2": ("qwen", None, "<|im_end|>"), "qwen2_5": ("qwen", None, "<|im_end|>"),
    "qwen3": ("qwen", None, "<|im_end|>"), "qwen_xml": ("qwen", None, "<|im_end|>"),
    "llama3": ("llama3", "<|begin_of_text|>", "<|eot_id|>"), "mistral": ("mistral", "<s>", "</s>"),
    "gemma": ("gemma", "<bos>", "<eos>"),
}


def cases(template, texts):
    """Lists of messages with the tools and the other variables that they have in common."""
    qwen = template.startswith("qwen")
    for messages, variables in CONVERSATIONS if qwen else OTHER_CONVERSATIONS:
        variables = dict(variables)
        tools = variables.pop("tools", None)
        yield [messages], tools, variables
    chats = [[{"role": "user", "content": text}] for text in texts]
    date = {} if qwen else {"date_string": "26 Jul 2024"}
    yield chats, None, {**date, "enable_thinking": True}
    yield chats, TOOLS, {**date, "enable_thinking": False}


def compare_template(template, theirs, model, texts, tokenize):
    """Counts the chats, and those whose tokens differ."""
    count = wrong = 0
    for chats, tools, variables in cases(template, texts):
        for prompt in (False, True):
            flags = [] if prompt else ["--no-generation-prompt"]
            for name, value in variables.items():
                text = value if isinstance(value, str) else json.dumps(value)
                flags += ["--template-argument", f"{name}={text}"]
            rows = [{"messages": messages, **({"tools": tools} if tools else {})}
                    for messages in chats]
            for row, found in zip(rows, tokenize(model, rows, *flags), strict=True):
                expected = theirs.apply_chat_template(row["messages"], tools=tools, tokenize=True,
                                                      add_generation_prompt=prompt,
                                                      return_dict=False, **variables)
                count += 1
                if found["token_ids"] != expected:
                    wrong += 1
                    if wrong == 1:
                        print(f"{template}: {row!r} {flags}\n  expected {expected}\n"
                              f"  actual   {found['token_ids']}")
    return count, wrong


def compare_chats(family, tokenizer, texts, tokenize):
    """Prints and counts the differences of the templates of this tokenizer.
    `tokenize(model, rows, *flags)` returns the objects that `buttress tokenize` prints."""
    total = 0
    for template, (owner, bos, eos) in TEMPLATES.items():
        if owner != family:
            continue
        theirs = PreTrainedTokenizerFast(
            tokenizer_object=tokenizer, bos_token=bos, eos_token=eos,
            chat_template=(FOLDER / f"{template}.jinja").read_text(encoding="utf-8"))
        with tempfile.TemporaryDirectory() as model:
            theirs.save_pretrained(model)
            count, wrong = compare_template(template, theirs, model, texts, tokenize)
        print(f"{family:<10} {count:>8} chats with the template {template}  {wrong} wrong",
              flush=True)
        total += wrong
    return total
