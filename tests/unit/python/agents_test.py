"""buttress.agents against a stand-in for the endpoint of an episode."""
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest
import urllib.error
import urllib.request

import endpoint

from buttress.agents import Episode, EpisodeError

TASK = {"prompt_id": "p", "source": "s", "prompt": "2+2", "answer": "4", "row": {"seed": 3}}
AGENT = """
    import buttress.agents

    def play(episode):
        answer = episode.chat(episode.messages, temperature=0.5)
        episode.turn_reward(0.25)
        return float(answer["content"] == episode.answer)

    def judged(episode):
        episode.chat(episode.messages)

    if __name__ == "__main__":
        buttress.agents.main(play)
"""
# Counts down from the seed; a right answer is the number.
GYMNASIUM = """
    class Env:
        def reset(self, seed):
            self.left = seed
            return f"say {self.left}", {}

        def step(self, action):
            reward = 0.5 if action == str(self.left) else 0.0
            self.left -= 1
            return f"say {self.left}", reward, self.left == 1, False, {}

        def close(self):
            pass

    def make(name, disable_env_checker):
        assert name == "Count-v0" and disable_env_checker
        return Env()
"""


def last_word(messages):
    return messages[-1]["content"].split()[-1]


class AgentsTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (self.folder / "agent.py").write_text(textwrap.dedent(AGENT))

    def until_turn(self, turn, messages):
        if sum(m["role"] == "assistant" for m in messages) + 1 == turn:
            raise EOFError("the episode has had its turns")
        return last_word(messages)

    def start(self, policy):
        started = endpoint.Endpoint(policy)
        self.addCleanup(started.close)
        return started

    def run_program(self, *arguments, **environment):
        path = os.pathsep.join([os.environ["PYTHONPATH"], str(self.folder)])
        return subprocess.run([sys.executable, "-B", *arguments], cwd=self.folder, timeout=60,
                              env=os.environ | {"PYTHONPATH": path} | environment,
                              capture_output=True, text=True, check=False)

    @contextlib.contextmanager
    def served(self, *arguments):
        """The address of a service, which ends with the block."""
        with subprocess.Popen([sys.executable, "-B", "-m", "buttress.agents.service", *arguments,
                               "--listen", "127.0.0.1:0"], cwd=self.folder, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as service:
            try:
                yield service.stdout.readline().split()[-1]
            finally:
                service.terminate()

    def post(self, url, body):
        try:
            with urllib.request.urlopen(url, json.dumps(body).encode(), timeout=60) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def test_a_program_asks_the_policy_and_posts_its_reward(self):
        policy = self.start(lambda messages: "4")
        ended = self.run_program("agent.py", **policy.environment(TASK))
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))
        self.assertEqual(policy.requests, [{"model": "policy", "temperature": 0.5,
                                            "messages": [{"role": "user", "content": "2+2"}]}])
        self.assertEqual(policy.rewards, [{"turn_reward": 0.25}, {"reward": 1.0}])
        self.assertEqual(set(policy.keys), {"Bearer k"})

    def test_messages_are_those_of_the_dataset(self):
        prompt = [{"role": "system", "content": "a"}, {"role": "user", "content": "b"}]
        episode = Episode("http://127.0.0.1:1", "k", TASK | {"prompt": prompt, "answer": None})
        self.assertEqual((episode.messages, episode.answer), (prompt, ""))
        with self.assertRaisesRegex(EpisodeError, "refused"):
            episode.reward(1)

    def test_a_refusal_says_why_and_ends_the_program(self):
        def refuse(messages):
            raise ValueError("temperature is not 1")

        policy = self.start(refuse)
        ended = self.run_program("agent.py", **policy.environment(TASK))
        self.assertEqual(ended.returncode, 1)
        self.assertIn("/chat/completions: temperature is not 1", ended.stderr.splitlines()[-1])
        self.assertEqual(policy.rewards, [])
        outside = self.run_program("agent.py", OPENAI_BASE_URL=policy.base_url)
        self.assertEqual(outside.stderr, "OPENAI_API_KEY is not set; this program is started by a "
                         "run with run.env.kind: exec\n")

    def test_at_a_limit_an_agent_ends_without_a_reward_of_its_own(self):
        def end(messages):
            raise EOFError("the episode has had its 8 turns")

        policy = self.start(end)
        ended = self.run_program("agent.py", **policy.environment(TASK))
        self.assertEqual((ended.returncode, ended.stderr, policy.rewards), (0, "", []))
        request = {"base_url": policy.base_url, "api_key": "k", "task": TASK}
        with self.served("agent:play") as url:
            self.assertEqual(self.post(url, request), (200, {}))

    def test_a_service_plays_many_episodes(self):
        policy = self.start(lambda messages: "4")
        request = {"base_url": policy.base_url, "api_key": "k", "task": TASK}
        with self.served("agent:play") as url:
            for answer, reward in (("4", 1.0), ("5", 0.0), ("4", 1.0)):
                request["task"] = TASK | {"answer": answer}
                self.assertEqual(self.post(url, request), (200, {"reward": reward}))
            code, said = self.post(url, {"task": TASK})
            self.assertEqual(code, 400)
            self.assertIn("expected JSON", said["error"]["message"])
            code, said = self.post(url, request | {"base_url": policy.base_url + "/none"})
            self.assertEqual(code, 500)
            self.assertIn("EpisodeError: /chat/completions: no /episodes", said["error"]["message"])
        with self.served("agent:judged") as url:
            self.assertEqual(self.post(url, request), (200, {}))

    def test_a_service_that_is_full_says_so(self):
        inner = []

        def policy(messages):
            inner.append(self.post(url, request))
            return "4"

        request = {"base_url": self.start(policy).base_url, "api_key": "k", "task": TASK}
        with self.served("agent:play", "--at-once", "1") as url:
            self.assertEqual(self.post(url, request), (200, {"reward": 1.0}))
        self.assertEqual(inner[0][0], 503)
        self.assertIn("--at-once", inner[0][1]["error"]["message"])

    def test_a_service_names_what_it_cannot_serve(self):
        for name, why in (("agent", "'agent': expected module:function"),
                          ("agent:none", "agent has no function 'none'"),
                          ("nowhere:play", "No module named 'nowhere'")):
            ended = self.run_program("-m", "buttress.agents.service", name)
            self.assertEqual((ended.returncode, ended.stdout), (1, ""))
            self.assertIn(why, ended.stderr)

    def test_gymnasium_turns_observations_into_messages(self):
        (self.folder / "gymnasium.py").write_text(textwrap.dedent(GYMNASIUM))
        adapter = ("-m", "buttress.agents.gymnasium", "Count-v0")
        done = self.run_program(*adapter, "--write", "p.jsonl", "--count", "2", "--seed", "2",
                                "--system", "count")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        rows = list(map(json.loads, (self.folder / "p.jsonl").read_text().splitlines()))
        self.assertEqual([row["seed"] for row in rows], [2, 3])
        self.assertEqual([m["content"] for m in rows[1]["prompt"]], ["count", "say 3"])
        task = TASK | {"prompt": rows[1]["prompt"], "row": rows[1]}
        policy = self.start(last_word)
        ended = self.run_program(*adapter, **policy.environment(task))
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))
        self.assertEqual(policy.rewards, [{"turn_reward": 0.5}, {"turn_reward": 0.5},
                                          {"reward": 1.0}])
        self.assertEqual([m["content"] for m in policy.requests[-1]["messages"]],
                         ["count", "say 3", "3", "say 2"])
        short = self.start(lambda messages: self.until_turn(2, messages))
        self.assertEqual(self.run_program(*adapter, **short.environment(task)).returncode, 0)
        self.assertEqual(short.rewards, [{"turn_reward": 0.5}, {"reward": 0.5}])
        stale = self.run_program(*adapter, **policy.environment(task | {"row": {"seed": 9}}))
        self.assertIn("write the prompts again", stale.stderr.splitlines()[-1])


if __name__ == "__main__":
    unittest.main()
