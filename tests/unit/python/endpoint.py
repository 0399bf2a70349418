"""Stands in for the endpoint of an episode: answers chat completions by a function."""
import http.server
import json
import threading


class Endpoint:
    """Serves until `close`. `policy(messages)` returns the content of an answer. A ValueError that
    it raises is an error 400; an EOFError says that the episode has ended. Keeps what was posted.
    """

    def __init__(self, policy):
        self.policy, self.requests, self.rewards, self.keys = policy, [], [], []
        endpoint = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                code, answer = endpoint.answer(self.path, body)
                endpoint.keys.append(self.headers["Authorization"])
                data = json.dumps(answer).encode()
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.base_url = f"http://127.0.0.1:{self.server.server_port}/episodes/k/v1"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, path, body):
        if path == "/episodes/k/v1/reward":
            self.rewards.append(body)
            return 200, {}
        if path != "/episodes/k/v1/chat/completions":
            return 404, {"error": {"message": f"no {path}"}}
        self.requests.append(body)
        try:
            content = self.policy(body["messages"])
        except ValueError as refused:
            return 400, {"error": {"message": str(refused)}}
        except EOFError as ended:
            return 400, {"error": {"message": str(ended), "code": "episode_ended"}}
        message = {"role": "assistant", "content": content}
        return 200, {"id": "1", "object": "chat.completion", "created": 0, "model": body["model"],
                     "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                     "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}

    def environment(self, task):
        """What run.env.kind exec gives a program."""
        return {"OPENAI_BASE_URL": self.base_url, "OPENAI_API_KEY": "k",
                "BUTTRESS_TASK": json.dumps(task)}

    def close(self):
        self.server.shutdown()
        self.server.server_close()
