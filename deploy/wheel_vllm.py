#!/usr/bin/env python3
"""Stands for the program vllm in the check of the wheel: `wheel_vllm.py serve MODEL --port N ...`.

Answers every second seed with 3, and the others with 4.
"""
import argparse
import http.server
import json
import sys


class Server(http.server.BaseHTTPRequestHandler):
    model = ""

    def reply(self, answer):
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        models = [{"id": self.model, "owned_by": "vllm", "max_model_len": 64}]
        self.reply({"data": models} if self.path == "/v1/models" else {})

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert asked["model"] == self.model and asked["prompt"], asked
        self.reply({
            "choices": [{
                "text": "34"[asked["seed"] % 2],
                "finish_reason": "stop",
                "logprobs": {"token_logprobs": [-0.5]},
            }],
            "usage": {"completion_tokens": 1},
        })

    def log_message(self, *_):
        pass


def main():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("serve", choices=["serve"])
    parser.add_argument("model")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--served-model-name", required=True)
    flags, _ = parser.parse_known_args()
    Server.model = flags.served_model_name
    http.server.ThreadingHTTPServer.request_queue_size = 128
    server = http.server.ThreadingHTTPServer(("127.0.0.1", flags.port), Server)
    print("serving", flags.model, file=sys.stderr)
    server.serve_forever()


if __name__ == "__main__":
    main()
