"""The two models of the benches: random weights, a byte-level BPE of our own making, no
end-of-sequence token in config.json (so that every completion has all its tokens, here and in the
peer). `tiny`: 4 layers, width 256, 3.4 M parameters, float32. `half`: Qwen2.5-0.5B's shape,
bfloat16."""

import json
import os
import pathlib
import random
import shutil
import subprocess

from report import progress

ROOT = pathlib.Path(__file__).resolve().parents[1]
BIN = ROOT / "build/release/bin"
CACHE = pathlib.Path(os.environ["BUTTRESS_BENCH_CACHE"])
PROMPT_TOKENS = 64
DTYPES = {"tiny": "float32", "half": "bfloat16"}
SHAPES = {
    "tiny": dict(tokens=1024,
                 vocab=1024,
                 layers=4,
                 hidden=256,
                 heads=4,
                 kv_heads=2,
                 intermediate=768,
                 max_positions=2048,
                 rope_theta=10000,
                ), "half": dict(tokens=8192,
                                vocab=151936,
                                layers=24,
                                hidden=896,
                                heads=14,
                                kv_heads=2,
                                intermediate=4864,
                                max_positions=32768,
                                rope_theta=1000000,
                               ),
}


def paragraphs():
    """The repository's own prose and comments: text that is there wherever the bench runs."""
    for path in sorted([
            *ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("lib/**/*.h"),
            *ROOT.glob("learner/*.cc"),
    ]):
        for part in path.read_text().split("\n\n"):
            yield part


def new_model(out, name, with_end=False):
    """`buttress new-model` of the shape, with a tokenizer trained on our own text, with or without
    an end-of-sequence token."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    text = out / "text.jsonl"
    text.write_text("".join(json.dumps({"text": p}) + "\n" for p in paragraphs()))
    options = [f"--{key.replace('_', '-')}={value}" for key, value in SHAPES[name].items()]
    subprocess.run(
        [BIN / "buttress", "new-model", "--out", out, "--text", text, "--tied", *options],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    if with_end:
        return
    for file in ("config.json", "generation_config.json"):
        fields = json.loads((out / file).read_text())
        fields.pop("eos_token_id")
        (out / file).write_text(json.dumps(fields, indent=2))


def tokenizer_folder(name):
    """The model's folder for those who do not look at its weights; needs neither torch nor
    transformers."""
    out = CACHE / "models" / f"{name}-tokenizer"
    if not (out / "whole").exists():
        new_model(out, name)
        (out / "whole").touch()
    return out


def trained_folder(name):
    """The model, with an end-of-sequence token, after a few steps of `buttress sft` on our own
    text; needs neither torch nor transformers."""
    base, out = CACHE / "models" / f"{name}-new", CACHE / "models" / f"{name}-trained"
    if (out / "whole").exists():
        return out
    new_model(base, name, with_end=True)
    rows = base / "rows.jsonl"
    rows.write_text("".join(
        json.dumps({"prompt": part[:200], "response": part[200:400]}) + "\n"
        for part in paragraphs() if len(part) > 300))
    progress(f"training the model {name} in {out}")
    command = [BIN / "buttress", "sft", f"--model={base}", f"--data={rows}", f"--out={out}"]
    subprocess.run([*command, "--steps=40", "--batch=16", "--over-long=drop"],
                   check=True,
                   stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    (out / "whole").touch()
    return out


def folder(name):
    """Makes the model's Hugging Face folder if it is not there."""
    import torch
    from safetensors.torch import save_file
    from transformers import AutoModelForCausalLM, Qwen2Config

    out = CACHE / "models" / name
    if (out / "whole").exists():
        return out
    progress(f"making the model {name} in {out}")
    new_model(out, name)
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(Qwen2Config.from_pretrained(out)).to(
        getattr(torch, DTYPES[name]))
    state = {k: v.contiguous() for k, v in model.state_dict().items() if k != "lm_head.weight"}
    save_file(state, out / "model.safetensors", metadata={"format": "pt"})
    (out / "whole").touch()
    return out


def prompts(model, count):
    """`count` texts that are PROMPT_TOKENS tokens each, here and in the peer."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    ids = tokenizer.encode("\n\n".join(paragraphs())).ids
    texts, rng = [], random.Random(1)
    while len(texts) < count:
        begin = rng.randrange(len(ids) - PROMPT_TOKENS)
        text = tokenizer.decode(ids[begin:begin + PROMPT_TOKENS], skip_special_tokens=False)
        if len(tokenizer.encode(text).ids) == PROMPT_TOKENS and "\ufffd" not in text:
            texts.append(text)
    return texts
