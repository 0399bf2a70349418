"""Serves an agent over HTTP (run.env.kind: http):

    python -m buttress.agents.service module:function [--listen 127.0.0.1:8100] [--at-once 64]

The module is imported once, from the current folder or an installed package. Each POST of a worker
is an episode, which runs in a thread of its own; the answer has the reward that the function
returned. Set run.env.url to the address, as http://127.0.0.1:8100/. Only trusted machines may
reach it.
"""
import argparse
import http.server
import importlib
import json
import os
import sys
import threading
import traceback

from . import Agent, Episode, play

LARGEST = 64 << 20  # bytes of a task
SECONDS = 60.0  # in which a request has arrived


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple, agent: Agent, at_once: int):
        super().__init__(address, Handler)
        self.agent = agent
        self.free = threading.BoundedSemaphore(at_once)


class Handler(http.server.BaseHTTPRequestHandler):
    timeout = SECONDS

    def do_GET(self):  # whether the service is up
        self.answer(200, {})

    def do_POST(self):
        try:
            size = int(self.headers.get("Content-Length", ""))
            if not 0 <= size <= LARGEST:
                raise ValueError
            request = json.loads(self.rfile.read(size))
            episode = Episode(request["base_url"], request["api_key"], request["task"])
        except (ValueError, KeyError, TypeError):
            self.answer(400, error='expected JSON of at most 64 MiB, with its Content-Length: '
                        '{"base_url": ..., "api_key": ..., "task": {...}}')
            return
        if not self.server.free.acquire(blocking=False):
            self.answer(503, error="all episodes of --at-once are taken; raise it")
            return
        try:
            reward = play(self.server.agent, episode)
            self.answer(200, {} if reward is None else {"reward": float(reward)})
        except Exception as failure:  # the episode fails, not the service
            traceback.print_exc()
            self.answer(500, error=f"{type(failure).__name__}: {failure}")
        finally:
            self.server.free.release()

    def answer(self, code, body=None, error=""):
        data = json.dumps({"error": {"message": error}} if error else body).encode()
        try:
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
        except OSError:
            pass  # the worker has given up

    def log_message(self, *_):
        pass


def find(name: str) -> Agent:
    """Returns the function of "module:function". Raises ValueError where there is none."""
    module, _, function = name.partition(":")
    if not module or not function:
        raise ValueError(f"'{name}': expected module:function")
    found = getattr(importlib.import_module(module), function, None)
    if not callable(found):
        raise ValueError(f"{module} has no function '{function}'")
    return found


def serve(agent: Agent, listen: str, at_once: int = 64) -> None:
    """Serves until it is interrupted, and prints the address first; port 0 picks a free one."""
    host, _, port = listen.rpartition(":")
    if not host or not port.isdigit():
        raise ValueError(f"'{listen}': expected HOST:PORT")
    with Server((host, int(port)), agent, at_once) as server:
        print(f"serving episodes at http://{host}:{server.server_port}/", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            pass


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m buttress.agents.service",
                                     description="Serves an agent over HTTP (run.env.kind: http).")
    parser.add_argument("agent", help="module:function")
    parser.add_argument("--listen", default="127.0.0.1:8100", help="HOST:PORT; port 0: any")
    parser.add_argument("--at-once", type=int, default=64, help="episodes at once")
    arguments = parser.parse_args()
    sys.path.insert(0, os.getcwd())
    try:
        serve(find(arguments.agent), arguments.listen, arguments.at_once)
    except (ImportError, ValueError, OSError) as error:
        sys.exit(f"buttress.agents.service: {error}")


if __name__ == "__main__":
    main()
