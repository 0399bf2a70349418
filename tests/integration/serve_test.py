"""`buttress serve` as a real process, called as clients of the OpenAI API call it.

    serve_test.py BUTTRESS
"""

import http.client
import itertools
import json
import math
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

BUTTRESS = sys.argv.pop(1)
PATIENCE = 60
CHAT = [{"role": "user", "content": "How many apples are in 3 boxes of 4? Größe 中文"},
        {"role": "assistant", "content": "There are 12 apples, Grüße 中文."}]
TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
CALL = [{"role": "user", "content": "Add 1 and 2."},
        {"role": "assistant", "content":
         'I add.\n<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": 2}}\n</tool_call>'}]
LONG = {"prompt": "How many", "max_tokens": 12000, "ignore_eos": True}


def setUpModule():
    global FOLDER, MODEL, directory
    directory = tempfile.TemporaryDirectory()
    FOLDER = pathlib.Path(directory.name)
    MODEL = str(FOLDER / "model")
    text = FOLDER / "text.jsonl"
    text.write_text(json.dumps({"messages": CHAT}) + "\n")
    run("new-model", "--out", FOLDER / "new", "--text", text, "--tokens", "350", "--layers", "2",
        "--hidden", "64", "--heads", "2", "--intermediate", "128", "--max-positions", "16384")
    train(MODEL, CHAT, "--steps", "2")


def tearDownModule():
    directory.cleanup()


def train(out, messages, *flags, start="new"):
    """Trains a model on one conversation."""
    data = FOLDER / "data.jsonl"
    data.write_text(json.dumps({"messages": messages}) + "\n")
    run("sft", "--model", FOLDER / start, "--data", data, "--out", out, "--batch", "1", *flags)


def run(*command):
    subprocess.run([BUTTRESS, *command], check=True, capture_output=True, timeout=PATIENCE)


def buttress(command, rows, *flags):
    """Returns the objects that a command prints for rows."""
    file = FOLDER / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = subprocess.run([BUTTRESS, command, "--model", MODEL, file, "--json", *flags], check=True,
                          capture_output=True, text=True, timeout=PATIENCE)
    return [json.loads(line) for line in done.stdout.splitlines()]


class Server:
    """The process, and its calls."""

    def __init__(self, *flags, model=None):
        self.process = subprocess.Popen(
            [BUTTRESS, "serve", "--model", model or MODEL, "--served-model-name", "tiny",
             "--listen", "127.0.0.1:0", "--threads", "1", *flags],
            stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        assert line.startswith("serving tiny on http://127.0.0.1:"), line
        self.port = int(line.rsplit(":", 1)[1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def send(self, method, path, body=None, **headers):
        """Returns the connection and the reply, of which the head is read."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        text = body if body is None or isinstance(body, (str, bytes)) else json.dumps(body)
        connection.request(method, path, text, headers)
        return connection, connection.getresponse()

    def call(self, method, path, body=None, **headers):
        """Returns the code and the body, parsed if it is JSON."""
        connection, reply = self.send(method, path, body, **headers)
        text = reply.read().decode()
        connection.close()
        return reply.status, json.loads(text) if text.startswith("{") else text

    def post(self, path, **body):
        code, answer = self.call("POST", path, body)
        assert code == 200, answer
        return answer

    def events(self, path, **body):
        connection, reply = self.send("POST", path, {**body, "stream": True})
        assert reply.getheader("Content-Type") == "text/event-stream", reply.read()
        lines = [line for line in reply.read().decode().split("\n\n") if line]
        connection.close()
        assert lines.pop() == "data: [DONE]"
        return [json.loads(line.removeprefix("data: ")) for line in lines]

    def metric(self, series):
        for line in self.call("GET", "/metrics")[1].splitlines():
            if line.startswith(series + " "):
                return float(line.rsplit(" ", 1)[1])
        return 0

    def wait_for(self, ready):
        end = time.monotonic() + PATIENCE
        while not ready():
            assert time.monotonic() < end
            time.sleep(0.02)


class ServeTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.server = Server("--weight-updates")

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()

    def completion(self, **body):
        return self.server.post("/v1/completions", **{"prompt": "How many", "seed": 7, **body})

    def refused(self, code, path, body):
        got, answer = self.server.call("POST", path, body)
        self.assertEqual(got, code, answer)
        return answer["error"]["message"]

    def test_models_health_and_version(self):
        self.assertEqual(self.server.call("GET", "/health")[0], 200)
        self.assertIn("version", self.server.call("GET", "/version")[1])
        model = self.server.call("GET", "/v1/models")[1]["data"][0]
        self.assertEqual((model["id"], model["max_model_len"]), ("tiny", 16384))

    def test_a_seed_repeats_and_choices_differ(self):
        one = self.completion(model="tiny", max_tokens=20, n=3)
        self.assertEqual(one["choices"], self.completion(max_tokens=20, n=3)["choices"])
        self.assertEqual(len({choice["text"] for choice in one["choices"]}), 3)
        self.assertEqual(self.completion(max_tokens=20)["choices"][0], one["choices"][0])
        self.assertNotEqual(self.completion(max_tokens=20, seed=8)["choices"], one["choices"])
        self.assertNotEqual(self.completion(max_tokens=20, seed=None)["choices"],
                            self.completion(max_tokens=20, seed=None)["choices"])
        self.assertEqual(one["usage"]["total_tokens"],
                         one["usage"]["prompt_tokens"] + one["usage"]["completion_tokens"])

    def test_completions_equal_those_of_generate(self):
        rows = [{"text": "How many", "seed": 7, "max_tokens": 30, "temperature": 0.8, "top_k": 50}]
        expected = buttress("generate", rows)[0]
        got = self.completion(max_tokens=30, temperature=0.8, top_k=50, return_token_ids=True,
                              logprobs=0)["choices"][0]
        self.assertEqual(got["token_ids"], expected["token_ids"])
        self.assertEqual(got["text"], expected["text"])
        for a, b in zip(got["logprobs"]["token_logprobs"], expected["logprobs"], strict=True):
            self.assertAlmostEqual(a, b, places=5)

    def test_log_probs_equal_those_of_logprobs(self):
        got = self.completion(prompt=[[5, 6, 7], [8, 9]], max_tokens=12, logprobs=0,
                              return_token_ids=True)["choices"]
        rows = [{"token_ids": choice["prompt_token_ids"] + choice["token_ids"]} for choice in got]
        for choice, row in zip(got, buttress("logprobs", rows), strict=True):
            own = choice["logprobs"]["token_logprobs"]
            for a, b in zip(own, row["logprobs"][-len(own):], strict=True):
                self.assertAlmostEqual(a, b, places=4)

    def test_the_log_probs_of_an_echo_equal_those_of_logprobs(self):
        tokens = [5, 6, 7, 8, 9, 5, 6]
        fields = {"prompt": [tokens, tokens[:1]], "echo": True, "logprobs": 3, "temperature": 0.5,
                  "return_tokens_as_token_ids": True}
        expected = buttress("logprobs", [{"token_ids": tokens}])[0]["logprobs"]
        for max_tokens in (0, 3):
            whole, single = self.completion(max_tokens=max_tokens, **fields)["choices"]
            logprobs = whole["logprobs"]
            self.assertEqual(len(logprobs["tokens"]), len(tokens) + max_tokens)
            self.assertEqual(logprobs["tokens"][:len(tokens)], [f"token_id:{t}" for t in tokens])
            self.assertIsNone(logprobs["token_logprobs"][0])
            self.assertIsNone(logprobs["top_logprobs"][0])
            self.check_offsets(logprobs, 0)
            for own, other, top, token in zip(
                    logprobs["token_logprobs"][1:len(tokens)], expected,
                    logprobs["top_logprobs"][1:], logprobs["tokens"][1:], strict=False):
                self.assertAlmostEqual(own, other, places=4)
                self.assertEqual(top[token], own)
                self.assertIn(len(top), (3, 4))
            self.assertEqual(len(single["logprobs"]["tokens"]), 1 + max_tokens)
            self.assertEqual(whole["finish_reason"], "length")
        text = self.completion(prompt="How many", echo=True, max_tokens=0)
        self.assertEqual(text["choices"][0]["text"], "How many")
        self.assertEqual(text["usage"]["completion_tokens"], 0)
        shown = self.completion(prompt=tokens, prompt_logprobs=0, max_tokens=1)["choices"][0]
        for entry, token, other in zip(shown["prompt_logprobs"][1:], tokens[1:], expected,
                                       strict=True):
            self.assertAlmostEqual(entry[str(token)]["logprob"], other, places=4)

    def check_offsets(self, logprobs, begin):
        ends = itertools.accumulate(map(len, logprobs["tokens"]), initial=begin)
        self.assertEqual(logprobs["text_offset"], list(ends)[:-1])

    def test_offsets_are_those_of_the_text(self):
        fields = {"prompt": "How many", "max_tokens": 40, "seed": 2, "logprobs": 0}
        whole = self.completion(**fields, echo=True)["choices"][0]
        self.check_offsets(whole["logprobs"], 0)
        at = dict(zip(whole["logprobs"]["text_offset"], whole["logprobs"]["tokens"], strict=True))
        for offset, token in at.items():
            if offset < len("How many"):
                self.assertTrue(whole["text"][offset:].startswith(token), (offset, token))
        shown = ""
        for event in self.server.events("/v1/completions", **fields):
            choice = event["choices"][0]
            if choice["logprobs"]["tokens"]:
                self.check_offsets(choice["logprobs"], len(shown))
            shown += choice["text"]
        self.assertEqual("How many" + shown, whole["text"])

    def test_the_most_probable_tokens_are_of_the_distribution_that_is_sampled(self):
        fields = {"messages": CHAT[:1], "max_tokens": 12, "seed": 3, "logprobs": True}
        path = "/v1/chat/completions"
        ids = self.server.post(path, **fields, return_tokens_as_token_ids=True)["choices"][0]
        for more, most in (({}, 20), ({"top_k": 3}, 3), ({"temperature": 0}, 20)):
            choice = self.server.post(path, **fields, **more, top_logprobs=20)["choices"][0]
            for token in choice["logprobs"]["content"]:
                top = token["top_logprobs"]
                self.assertEqual(len(top), most)
                logprobs = [one["logprob"] for one in top]
                self.assertEqual(logprobs, sorted(logprobs, reverse=True))
                if "top_k" in more:
                    self.assertAlmostEqual(sum(map(math.exp, logprobs)), 1, places=4)
                if "temperature" in more:
                    self.assertEqual(top[0]["logprob"], token["logprob"])
        events = self.server.events(path, **fields, top_logprobs=2,
                                    return_tokens_as_token_ids=True)
        streamed = [token for event in events
                    for token in (event["choices"][0]["logprobs"] or {"content": []})["content"]]
        self.assertEqual([token["logprob"] for token in streamed],
                         [token["logprob"] for token in ids["logprobs"]["content"]])
        self.assertEqual({len(token["top_logprobs"]) for token in streamed}, {2})

    def test_penalties_change_what_is_sampled(self):
        fields = {"max_tokens": 60, "temperature": 0, "return_token_ids": True, "ignore_eos": True}
        distinct = lambda **more: len(set(
            self.completion(**fields, **more)["choices"][0]["token_ids"]))
        plain = distinct(presence_penalty=0, frequency_penalty=0, repetition_penalty=1)
        for penalty in ({"presence_penalty": 2}, {"frequency_penalty": 2},
                        {"repetition_penalty": 2}):
            self.assertGreater(distinct(**penalty), plain, penalty)

    def test_a_chat_is_the_completion_of_its_template(self):
        tokens = self.server.post("/tokenize", messages=CHAT[:1])["tokens"]
        chat = self.server.post("/v1/chat/completions", messages=CHAT[:1], max_tokens=25, seed=3,
                                logprobs=True)
        text = self.completion(prompt=tokens, max_tokens=25, seed=3, logprobs=0)
        message = chat["choices"][0]["message"]
        self.assertEqual(message, {"role": "assistant", "content": text["choices"][0]["text"]})
        self.assertEqual([token["logprob"] for token in chat["choices"][0]["logprobs"]["content"]],
                         text["choices"][0]["logprobs"]["token_logprobs"])

    def test_a_stream_is_the_whole_in_pieces(self):
        fields = {"messages": CHAT[:1], "max_tokens": 3000, "seed": 5, "n": 2, "ignore_eos": True}
        whole = self.server.post("/v1/chat/completions", **fields)
        events = self.server.events("/v1/chat/completions", **fields,
                                    stream_options={"include_usage": True})
        self.assertEqual(events.pop()["usage"], whole["usage"])
        self.assertGreater(len(events), 6)
        for choice in whole["choices"]:
            own = [event["choices"][0] for event in events
                   if event["choices"][0]["index"] == choice["index"]]
            self.assertEqual(own[0]["delta"]["role"], "assistant")
            self.assertEqual("".join(event["delta"].get("content", "") for event in own),
                             choice["message"]["content"])
            self.assertEqual([event["finish_reason"] for event in own][-2:], [None, "length"])

    def test_stops_end_a_text_and_are_left_out(self):
        text = self.completion(max_tokens=60)["choices"][0]["text"]
        stop = re.search("[ -~]{3}", text[10:])[0]
        for stream in (False, True):
            fields = {"prompt": "How many", "seed": 7, "max_tokens": 60, "stop": stop}
            if stream:
                choices = [e["choices"][0] for e in self.server.events("/v1/completions", **fields)]
            else:
                choices = self.completion(**fields)["choices"]
            self.assertEqual("".join(choice["text"] for choice in choices), text[:text.find(stop)])
            self.assertEqual(choices[-1]["finish_reason"], "stop")

    def test_tokens_and_texts(self):
        text = "Größe 中文, boxes"
        tokens = self.server.post("/tokenize", model="tiny", prompt=text)
        self.assertEqual(tokens["count"], len(tokens["tokens"]))
        self.assertEqual(self.server.post("/detokenize", tokens=tokens["tokens"])["prompt"], text)
        self.refused(400, "/detokenize", {"tokens": [999999]})

    def test_wrong_requests(self):
        paths = "/v1/completions", "/v1/chat/completions"
        for path in paths:
            self.assertIn("not JSON", self.refused(400, path, "{"))
            self.assertIn("is not a field", self.refused(400, path, {"grammar": "x"}))
        self.assertIn("expected 'tiny'", self.refused(404, paths[0], {"model": "x", "prompt": "a"}))
        self.assertIn("maximum context length is 16384",
                      self.refused(400, paths[0], {"prompt": "a", "max_tokens": 16384}))
        self.assertIn("is not a token", self.refused(400, paths[0], {"prompt": [1000]}))
        self.assertIn("is empty", self.refused(400, paths[0], {"prompt": ""}))
        self.assertIn("images", self.refused(400, paths[1], {"messages": [
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}))
        self.assertEqual(self.server.call("GET", "/nothing")[0], 404)
        self.assertEqual(self.server.call("GET", paths[0])[0], 405)
        self.assertEqual(self.server.call("POST", paths[0], b"x" * (17 << 20))[0], 413)

    def test_metrics_count_answers_and_tokens(self):
        answers = 'buttress_serve_answers_total{code="200",path="/v1/completions"}'
        before = self.server.metric(answers)
        tokens = self.server.metric("buttress_serve_completion_tokens_total")
        used = self.completion(max_tokens=11)["usage"]["completion_tokens"]
        self.assertEqual(self.server.metric(answers), before + 1)
        self.assertEqual(self.server.metric("buttress_serve_completion_tokens_total"),
                         tokens + used)

    def test_a_pause_ends_completions_with_their_tokens_and_holds_others(self):
        post = lambda path: self.assertEqual(self.server.call("POST", path)[0], 200)
        connection, reply = self.server.send("POST", "/v1/completions", {**LONG, "stream": True})
        reply.readline()
        post("/pause?mode=abort&clear_cache=true")
        self.assertIn('"finish_reason":"abort"', reply.read().decode())
        connection.close()
        self.assertEqual(self.server.call("POST", "/pause?mode=keep")[0], 400)
        held = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=1)
        held.request("POST", "/v1/completions", json.dumps({"prompt": "a"}))
        with self.assertRaises(TimeoutError):
            held.getresponse()
        held.close()
        post("/resume")
        self.completion()

    def test_weights_of_a_folder_are_loaded_and_tagged(self):
        other = str(FOLDER / "other")
        train(other, CHAT, "--steps", "20", "--lr", "1e-2")
        load = lambda folder: self.server.call("POST", "/collective_rpc", {
            "method": "reload_weights", "kwargs": {"weights_path": folder}})
        before = self.completion(temperature=0)
        self.assertEqual(load(other)[0], 200)
        self.server.post("/update_weight_version", new_version="1:20")
        self.assertEqual(self.server.call("GET", "/weight_info")[1], {"weight_version": "1:20"})
        self.assertNotEqual(self.completion(temperature=0)["choices"], before["choices"])
        self.assertGreaterEqual(load("/nonexistent")[0], 400)
        self.assertEqual(load(MODEL)[0], 200)
        self.assertEqual(self.completion(temperature=0)["choices"], before["choices"])
        self.assertEqual(self.server.call("POST", "/collective_rpc", {"method": "x"})[0], 400)


class ToolsTest(unittest.TestCase):

    def test_the_calls_of_a_policy_that_learned_to_make_them(self):
        model = str(FOLDER / "tools")
        train(model, CALL, "--steps", "60", "--lr", "1e-2")
        fields = {"messages": CALL[:1], "temperature": 0, "max_tokens": 200}
        path = "/v1/chat/completions"
        with Server(model=model) as server:
            plain = server.post(path, **fields)["choices"][0]
            self.assertEqual(plain["message"]["content"], CALL[1]["content"])
            self.assertEqual(plain["finish_reason"], "stop")
            choice = server.post(path, tools=[TOOL], **fields)["choices"][0]
            self.assertEqual(choice["finish_reason"], "tool_calls")
            self.assertEqual(choice["message"]["content"].strip(), "I add.")
            call = choice["message"]["tool_calls"][0]
            self.assertEqual(call["function"],
                             {"name": "add", "arguments": '{"a":1,"b":2}'})
            deltas = [event["choices"][0]["delta"]
                      for event in server.events(path, tools=[TOOL], **fields)]
            self.assertEqual(deltas[-1]["tool_calls"][0]["function"], call["function"])
            none = server.post(path, tools=[TOOL], tool_choice="none", **fields)["choices"][0]
            self.assertEqual(none, plain)
            answer = {**choice["message"], "content": None}
            after = [CALL[0], answer, {"role": "tool", "tool_call_id": call["id"], "content": "3"}]
            server.post(path, messages=after, tools=[TOOL], max_tokens=2)

    def test_a_call_that_the_request_asks_for(self):
        model = str(FOLDER / "calls")
        call = CALL[1]["content"].removeprefix("I add.\n")
        train(model, [CALL[0], {"role": "assistant", "content": call}], "--steps", "60", "--lr",
              "1e-2")
        fields = {"messages": CALL[:1], "temperature": 0, "max_tokens": 200}
        path = "/v1/chat/completions"
        with Server(model=model) as server:
            for chosen in ("required", {"type": "function", "function": {"name": "add"}}):
                choice = server.post(path, tools=[TOOL], tool_choice=chosen, **fields)["choices"][0]
                self.assertEqual(choice["finish_reason"], "tool_calls")
                self.assertIsNone(choice["message"]["content"])
                self.assertEqual([one["function"] for one in choice["message"]["tool_calls"]],
                                 [{"name": "add", "arguments": '{"a":1,"b":2}'}])
            other = {"type": "function", "function": {"name": "other"}}
            code, answer = server.call("POST", path, {**fields, "tools": [other],
                                                      "tool_choice": "required"})
            self.assertEqual(code, 500, answer)
            self.assertIn("tool_choice", answer["error"]["message"])


class AdapterTest(unittest.TestCase):

    def test_completions_equal_those_of_generate_with_the_adapters(self):
        adapter = str(FOLDER / "adapter")
        train(adapter, CHAT, "--steps", "10", "--lr", "1e-1", "--lora-rank", "2",
              start="model")
        row = {"text": "How many", "max_tokens": 20, "temperature": 0}
        expected = buttress("generate", [row], "--adapter", adapter)[0]["token_ids"]
        self.assertNotEqual(buttress("generate", [row])[0]["token_ids"], expected)
        with Server("--adapter", adapter) as server:
            got = server.post("/v1/completions", prompt=row["text"], max_tokens=20, temperature=0,
                              return_token_ids=True)["choices"][0]
        self.assertEqual(got["token_ids"], expected)


class AdmissionTest(unittest.TestCase):

    def test_keys(self):
        keys = FOLDER / "keys"
        keys.write_text("first-key\nsecond-key\n")
        keys.chmod(0o600)
        with Server("--api-key-file", keys) as server:
            for header, code in ((None, 401), ("Bearer wrong", 401), ("first-key", 401),
                                 ("Bearer first-key", 200), ("bearer second-key", 200)):
                headers = {"Authorization": header} if header else {}
                got, answer = server.call("GET", "/v1/models", **headers)
                self.assertEqual(got, code, header)
            self.assertEqual(server.call("POST", "/v1/completions", {"prompt": "a"})[0], 401)
            self.assertEqual(server.call("POST", "/tokenize", {"prompt": "a"})[0], 401)
            self.assertEqual(server.call("GET", "/health")[0], 200)
            self.assertEqual(server.call("POST", "/pause")[0], 404)

    def test_a_full_queue_is_a_429_and_a_client_that_leaves_makes_room(self):
        with Server("--max-running", "1", "--max-queued", "1") as server:
            streams = []
            for _ in range(2):
                streams.append(http.client.HTTPConnection("127.0.0.1", server.port))
                streams[-1].request("POST", "/v1/completions", json.dumps({**LONG, "stream": True}))
            server.wait_for(lambda: server.metric("buttress_serve_running") +
                            server.metric("buttress_serve_waiting") == 2)
            connection, reply = server.send("POST", "/v1/completions", {"prompt": "a"})
            self.assertEqual((reply.status, reply.getheader("Retry-After")), (429, "1"))
            self.assertEqual(json.loads(reply.read())["error"]["code"], "rate_limit_exceeded")
            connection.close()
            self.assertEqual(
                server.call("POST", "/v1/completions", {"prompt": "a", "n": 3})[0], 400)
            for stream in streams:
                stream.close()
            gone = 'buttress_serve_answers_total{code="499",path="/v1/completions"}'
            server.wait_for(lambda: server.metric(gone) == 2)
            # A completion keeps its place until the engine has reported its end.
            server.wait_for(
                lambda: server.call("POST", "/v1/completions", {"prompt": "a"})[0] == 200)

    def test_open_completions_end_after_sigterm_and_others_are_refused(self):
        # Longer than the four choices take on a machine that is busy with other tests.
        with Server("--drain-s", str(10 * PATIENCE)) as server:
            # 10 MB: more than the kernel keeps of what this client has not read (tcp_wmem, 4 MB)
            # when the last token comes.
            body = {**LONG, "stream": True, "max_tokens": 6000, "n": 4, "logprobs": 20}
            connection, reply = server.send("POST", "/v1/completions", body)
            server.process.send_signal(signal.SIGTERM)
            server.wait_for(lambda: server.call("GET", "/health")[0] == 503)
            self.assertEqual(server.call("POST", "/v1/completions", {"prompt": "a"})[0], 503)
            server.wait_for(lambda: server.metric("buttress_serve_running") == 0)
            self.assertTrue(reply.read().endswith(b"data: [DONE]\n\n"))
            connection.close()
            self.assertEqual(server.process.wait(PATIENCE), 0)

    def test_the_time_to_drain_is_bounded(self):
        with Server("--drain-s", "0") as server:
            connection, reply = server.send("POST", "/v1/completions", {**LONG, "stream": True})
            server.process.send_signal(signal.SIGTERM)
            with self.assertRaises((http.client.IncompleteRead, OSError)):
                reply.read()
            connection.close()
            self.assertEqual(server.process.wait(PATIENCE), 0)

    def test_wrong_flags(self):
        for flags in (["--model", "/nonexistent"], ["--model", MODEL, "--listen", "nowhere"],
                      ["--model", MODEL, "--max-running", "2", "--max-queued", "7"],
                      ["--model", MODEL, "--tool-format", "x"],
                      ["--model", MODEL, "--api-key-file", os.devnull]):
            done = subprocess.run([BUTTRESS, "serve", *flags], capture_output=True, text=True,
                                  timeout=PATIENCE)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertTrue(done.stderr)


if __name__ == "__main__":
    unittest.main()
