"""vLLM's CPU build as a peer: started on a model folder, asked over HTTP."""

import http.client
import json
import os
import pathlib
import random
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

SETUP = pathlib.Path(__file__).resolve().parents[1] / "tests/oracles/vllm/setup.sh"
ORACLES = pathlib.Path(
    os.environ.get("BUTTRESS_ORACLES",
                   pathlib.Path.home() / ".cache/buttress/oracles"))
PROMPT_TOKENS = 64
READY_SECONDS = 300


def installed():
    return any(ORACLES.glob("vllm-*/.complete"))


def environment():
    """Where vLLM is; installs it if it is not there."""
    return pathlib.Path(
        subprocess.run([SETUP], stdout=subprocess.PIPE, text=True, check=True).stdout.strip())


class Server:
    def __init__(self, model, dtype, _):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        command = [
            environment() / "bin/vllm", "serve", model, "--host", "127.0.0.1", "--port",
            str(self.port), "--dtype", dtype, "--max-model-len", "1024", "--served-model-name",
            "policy", "--enforce-eager", "--generation-config", "vllm", "--logprobs-mode",
            "processed_logprobs",
        ]
        settings = dict(os.environ,
                        VLLM_CPU_KVCACHE_SPACE="2",
                        VLLM_NO_USAGE_STATS="1",
                        DO_NOT_TRACK="1")
        self.process = subprocess.Popen(command,
                                        env=settings,
                                        stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        until = time.monotonic() + READY_SECONDS
        while not self.ready():
            if self.process.poll() is not None or time.monotonic() > until:
                self.process.kill()
                raise SystemExit("the vLLM server does not start; see " +
                                 " ".join(map(str, command)))
            time.sleep(1)

    def ready(self):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=2)
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        except OSError:
            return False

    def complete(self, tokens):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        body = {
            "model": "policy", "prompt": [random.randrange(3, 1000) for _ in range(PROMPT_TOKENS)],
            "max_tokens": tokens, "temperature": 1.0, "logprobs": 0, "return_token_ids": True,
            "ignore_eos": True,
        }
        connection.request("POST", "/v1/completions", json.dumps(body),
                           {"Content-Type": "application/json"})
        reply = json.loads(connection.getresponse().read())
        return len(reply["choices"][0]["token_ids"])

    def seconds(self, completions, tokens):
        with ThreadPoolExecutor(completions) as pool:
            begin = time.perf_counter()
            made = sum(pool.map(self.complete, [tokens] * completions))
            seconds = time.perf_counter() - begin
        if made != completions * tokens:
            raise SystemExit(f"vLLM made {made} tokens of {completions * tokens}")
        return seconds

    def close(self):
        self.process.terminate()
        self.process.wait()
