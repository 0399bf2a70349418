"""Calls `buttress serve` as others do: the openai package, lm_eval, and a run of Buttress."""

import json
import pathlib
import shutil
import subprocess
import sys

import openai

OUT = pathlib.Path("runs/with-serve").resolve()
BIN = pathlib.Path("build/release/bin")
SUMS = OUT / "sums"
CHAT = [{"role": "user", "content": "Add 1 and 2."},
        {"role": "assistant", "content":
         '<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": 2}}\n</tool_call>'}]
ADD = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}


def buttress(*command):
    done = subprocess.run([BIN / "buttress", *command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"serve: {command[0]} failed: {done.stderr[-2000:]}")
    return done.stdout


def need(what, holds):
    if not holds:
        sys.exit(f"serve: not so: {what}")


def check(what, holds):
    need(what, holds)
    print(f"  {what}")


class Server:
    def __init__(self, model, *flags):
        self.process = subprocess.Popen(
            [BIN / "buttress", "serve", "--model", model, "--served-model-name", "policy",
             "--listen", "127.0.0.1:0", "--threads", "1", *flags],
            stdout=subprocess.PIPE, stderr=(OUT / "serve.log").open("a"), text=True)
        line = self.process.stdout.readline()
        self.url = line.rsplit(" ", 1)[1].strip() if line else sys.exit("serve: no server")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(60)


def refused(kind, call, **fields):
    try:
        call(**fields)
    except kind as error:
        return str(error)
    return ""


def compare_openai():
    """A chat model that has learned one answer, a tool call."""
    rows = OUT / "chat.jsonl"
    rows.write_text(json.dumps({"messages": CHAT}) + "\n")
    buttress("new-model", "--out", OUT / "chat-new", "--text", rows, "--tokens", "330", "--layers",
             "2", "--hidden", "64", "--heads", "2", "--intermediate", "128")
    buttress("sft", "--model", OUT / "chat-new", "--data", rows, "--out", OUT / "chat", "--batch",
             "1", "--steps", "60", "--lr", "1e-2")
    keys = OUT / "keys"
    keys.write_text("the-key-of-the-test\n")
    keys.chmod(0o600)
    with Server(OUT / "chat", "--api-key-file", keys) as server:
        client = openai.OpenAI(base_url=server.url + "/v1", api_key="the-key-of-the-test",
                               max_retries=0)
        call_chat(client)
        call_completions(client)
        stranger = openai.OpenAI(base_url=server.url + "/v1", api_key="another", max_retries=0)
        check("a wrong key is an AuthenticationError",
              refused(openai.AuthenticationError, stranger.models.list))
        check("a wrong model is a NotFoundError",
              refused(openai.NotFoundError, client.completions.create, model="x", prompt="a"))
        error = refused(openai.BadRequestError, client.completions.create, model="policy",
                        prompt="a", logit_bias={"5": 1})
        check("a field that is not supported is a BadRequestError with its name",
              "logit_bias" in error)
        error = refused(openai.BadRequestError, client.chat.completions.create, model="policy",
                        messages=CHAT[:1], response_format={"type": "json_object"})
        check("so is a format that answers are not held to", "response_format" in error)


def call_chat(client):
    fields = {"model": "policy", "messages": CHAT[:1], "temperature": 0}
    plain = client.chat.completions.create(**fields, logprobs=True, top_logprobs=20)
    check("a chat has its answer", plain.choices[0].message.content == CHAT[1]["content"])
    tokens = plain.choices[0].logprobs.content
    check("each token is the first of the 20 most probable", all(
        len(token.top_logprobs) == 20 and token.top_logprobs[0].logprob == token.logprob
        for token in tokens))
    check("each token has its bytes", bytes(b for token in tokens for b in token.bytes).decode()
          .startswith(CHAT[1]["content"]))
    called = client.chat.completions.create(**fields, tools=[ADD]).choices[0]
    for choice in "required", {"type": "function", "function": {"name": "add"}}:
        forced = client.chat.completions.create(**fields, tools=[ADD], tool_choice=choice)
        check(f"tool_choice = {choice} is a call", forced.choices[0].message.tool_calls[0]
              .function.name == "add")
    check("a tool call is read", called.finish_reason == "tool_calls" and json.loads(
        called.message.tool_calls[0].function.arguments) == {"a": 1, "b": 2})
    text, usage = "", None
    for event in client.chat.completions.create(**fields, stream=True,
                                                stream_options={"include_usage": True}):
        text += event.choices[0].delta.content or "" if event.choices else ""
        usage = event.usage or usage
    check("a stream is the same answer", text == CHAT[1]["content"])
    check("and ends with the usage", usage == plain.usage)
    with client.chat.completions.stream(**fields, tools=[ADD]) as stream:
        final = stream.get_final_completion().choices[0].message
    check("a stream has the tool call", final.tool_calls[0].function.name == "add")


def call_completions(client):
    fields = {"model": client.models.list().data[0].id, "prompt": ["Add", "1"], "max_tokens": 9,
              "seed": 4, "n": 2}
    one, two = (client.completions.create(**fields, logprobs=0).choices for _ in range(2))
    check("a seed repeats", one == two)
    check("n choices of each prompt have their indices", [c.index for c in one] == [0, 1, 2, 3])
    check("they differ", one[0].text != one[1].text)
    prompt = CHAT[0]["content"]
    echo = client.completions.create(model="policy", prompt=prompt, max_tokens=0, echo=True,
                                     logprobs=2, presence_penalty=1).choices[0]
    check("an echo is the prompt with its log-probs", echo.text == prompt and
          echo.logprobs.token_logprobs[0] is None and max(echo.logprobs.token_logprobs[1:]) <= 0)
    texts = [""] * 4
    for event in client.completions.create(**fields, stream=True):
        texts[event.choices[0].index] += event.choices[0].text
    check("a stream has the same texts", texts == [choice.text for choice in one])


def compare_lm_eval():
    """Answers to held-out sums, and the score, by way of the server and by transformers."""
    buttress("task", "arithmetic", "--out", SUMS, "--digits", "1", "--train", "10", "--held-out",
             "20", "--sft", "8000", "--solution-share", "0.8", "--held-out-share", "0.2")
    buttress("new-model", "--out", SUMS / "new", "--characters", "0123456789+-=:>", "--layers", "2",
             "--hidden", "64", "--heads", "2", "--intermediate", "128")
    buttress("sft", "--model", SUMS / "new", "--data", SUMS / "sft.jsonl", "--out", SUMS / "model",
             "--steps", "300", "--batch", "64", "--lr", "3e-3")
    tasks = OUT / "tasks"
    tasks.mkdir()
    data = {"dataset_path": "json", "test_split": "test", "doc_to_text": "{{prompt}}",
            "dataset_kwargs": {"data_files": {"test": str(SUMS / "held_out.jsonl")}},
            "doc_to_target": "{{answer}}", "target_delimiter": ""}
    (tasks / "sums.yaml").write_text(json.dumps({
        **data, "task": "sums", "output_type": "generate_until",
        "metric_list": [{"metric": "exact_match"}],
        "generation_kwargs": {"until": [">"], "max_gen_toks": 6, "do_sample": False},
    }))
    (tasks / "choices.yaml").write_text(json.dumps({
        **data, "task": "choices", "output_type": "multiple_choice",
        "doc_to_choice": [str(sum) for sum in range(19)], "metric_list": [{"metric": "acc"}],
    }))
    with Server(SUMS / "model") as server:
        ours = scores("local-completions", f"model=policy,base_url={server.url}/v1/completions,"
                      f"tokenizer={SUMS / 'model'},num_concurrent=4")
    theirs = scores("hf", f"pretrained={SUMS / 'model'},dtype=float32")
    for task, metric in (("sums", "exact_match,none"), ("choices", "acc,none")):
        score = ours[task][0][metric]
        check(f"{task}: the score of {len(ours[task][1])} documents is that of transformers, "
              f"{score:.3f}", score == theirs[task][0][metric] and 0 < score < 1)
    check("each answer is that of transformers", ours["sums"][1] == theirs["sums"][1])
    worst = 0
    for document, likelihoods in ours["choices"][1].items():
        for (own, greedy), (other, theirs_greedy) in zip(
                likelihoods, theirs["choices"][1][document], strict=True):
            worst = max(worst, abs(float(own) - float(other)))
            need("a choice is the greedy one for both", str(greedy) == str(theirs_greedy))
    check(f"each log-likelihood is that of transformers, {worst:.1e} nats apart at most",
          worst < 1e-3)


def scores(model, arguments):
    """Returns by task the scores, and the responses by document."""
    out = OUT / model
    with (OUT / f"{model}.log").open("w") as log:
        done = subprocess.run(
            [sys.executable, "-m", "lm_eval", "--model", model, "--model_args", arguments,
             "--include_path", OUT / "tasks", "--tasks", "sums,choices", "--batch_size", "1",
             "--device", "cpu", "--output_path", out, "--log_samples"], stdout=log, stderr=log)
    if done.returncode != 0:
        sys.exit(f"serve: lm_eval ended with {done.returncode}; see {log.name}")
    results = json.loads(next(out.rglob("results_*.json")).read_text())["results"]
    responses = {
        task: {sample["doc_id"]: [response[0] for response in sample["resps"]]
               for sample in map(json.loads, next(out.rglob(f"samples_{task}_*.jsonl"))
                                 .read_text().splitlines())}
        for task in results}
    return {task: (results[task], responses[task]) for task in results}


def compare_run():
    """A run whose worker takes the server for one of vLLM."""
    task = OUT / "countdown"
    buttress("task", "countdown", "--out", task, "--numbers", "4", "--operators", "+-", "--use-all",
             "--format", "compact", "--train", "2000", "--held-out", "200", "--sft", "4000")
    buttress("new-model", "--out", task / "new", "--characters", "0123456789+-:>", "--layers", "2",
             "--hidden", "64", "--heads", "2", "--intermediate", "128")
    buttress("sft", "--model", task / "new", "--data", task / "sft.jsonl", "--out", task / "model",
             "--steps", "200", "--batch", "64", "--lr", "3e-3", "--warmup", "5")
    with Server(task / "model", "--weight-updates") as server:
        settings = {
            "run": {"name": "served", "steps": 600,
                    "data": {"prompts": str(task / "train.jsonl"),
                             "held_out": str(task / "held_out.jsonl")},
                    "model": {"path": str(task / "model")},
                    "sampling": {"group_size": 8, "max_tokens": 10},
                    "batch": {"prompts": 16, "max_age": 1},
                    "reward": {"verifier": "countdown", "use_all": True}, "optim": {"lr": 3e-4}},
            "local": {"out": str(OUT / "run"),
                      "worker": {"engine": "vllm", "vllm": {"servers": [server.url]}},
                      "learner": {"collective": "local"},
                      "launch": {"workers": 1, "learner_ranks": 1}},
        }
        (OUT / "run.yaml").write_text(json.dumps(settings))
        shown = buttress("launch", OUT / "run.yaml")
    print(shown[shown.index("did it learn?"):])
    check("a run that samples from the server learns", "did it learn? yes" in shown)


PARTS = {"openai": compare_openai, "lm_eval": compare_lm_eval, "run": compare_run}
shutil.rmtree(OUT, ignore_errors=True)
OUT.mkdir(parents=True)
for part in sys.argv[1:] or PARTS:
    print(f"{part}:", flush=True)
    PARTS[part]()
