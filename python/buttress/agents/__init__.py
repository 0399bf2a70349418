"""What an agent needs to be trained: the task of its episode, the policy, and where rewards go.

An agent is a function that is given an Episode, asks the policy as often as it likes, and returns
the episode's reward, or None, and then the run's verifier judges the last answer. Past a limit of
run.env a request is refused: an agent that does not catch the EpisodeError ends there.

    def agent(episode):
        answer = episode.chat(episode.messages)
        return float("42" in answer["content"])

`main(agent)` at the end of a program makes it one of run.env.kind exec, and
`python -m buttress.agents.service module:agent` one of kind http. The clients of OpenAI and the
frameworks above them work as well: base_url and api_key are what they need, and an exec agent has
both in its environment. Only the standard library is imported.
"""
import dataclasses
import json
import os
import sys
import urllib.error
import urllib.request
from typing import Any, Callable, List, Mapping, Optional, Sequence, Tuple

__all__ = ["Agent", "Episode", "EpisodeError", "episode", "main", "play"]

REQUEST_SECONDS = 3600.0  # the run ends an episode earlier, by run.env.timeout_ms
LONGEST_ERROR = 500  # characters


class EpisodeError(RuntimeError):
    """The endpoint refused a request; says why."""

    def __init__(self, what: str, ended: bool = False):
        super().__init__(what)
        self.ended = ended  # whether the episode is at a limit of run.env, or over


@dataclasses.dataclass(frozen=True)
class Episode:
    """One conversation with the policy. Thread-safe."""

    base_url: str
    api_key: str
    task: Mapping[str, Any]  # prompt_id, source, prompt, answer and row of the dataset

    @property
    def messages(self) -> List[dict]:
        """The prompt as chat messages; a text is one of the user."""
        prompt = self.task["prompt"]
        return [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(prompt)

    @property
    def answer(self) -> str:
        """The dataset's reference answer."""
        return self.task.get("answer") or ""

    @property
    def row(self) -> Mapping[str, Any]:
        """The dataset's row."""
        return self.task.get("row") or {}

    def chat(self, messages: Sequence[Mapping[str, Any]], **fields: Any) -> dict:
        """Returns the policy's answer as a message: "content", and "tool_calls" where it made any.
        `fields` are those of a chat completion, such as tools=[...]. Raises EpisodeError."""
        body = {"model": "policy", "messages": list(messages), **fields}
        return self._post("/chat/completions", body)["choices"][0]["message"]

    def reward(self, value: float) -> None:
        """Sets the reward of the episode; the last one counts."""
        self._post("/reward", {"reward": float(value)})

    def turn_reward(self, value: float) -> None:
        """Adds to the reward of the policy's last answer."""
        self._post("/reward", {"turn_reward": float(value)})

    def _post(self, path: str, body: Mapping[str, Any]) -> dict:
        request = urllib.request.Request(
            self.base_url + path, json.dumps(body).encode(),
            {"Content-Type": "application/json", "Authorization": f"Bearer {self.api_key}"})
        try:
            with urllib.request.urlopen(request, timeout=REQUEST_SECONDS) as answer:
                return json.loads(answer.read() or b"{}")
        except urllib.error.HTTPError as error:
            why, code = _reason(error.read().decode(errors="replace"))
            raise EpisodeError(f"{path}: {why}", code == "episode_ended") from None
        except urllib.error.URLError as error:
            raise EpisodeError(f"{self.base_url}{path}: {error.reason}") from None


Agent = Callable[[Episode], Optional[float]]


def _reason(text: str) -> Tuple[str, str]:
    """Message and code of an error of OpenAI's form; else the text itself."""
    try:
        error = json.loads(text)["error"]
        return str(error["message"]), str(error.get("code"))
    except (ValueError, KeyError, TypeError, AttributeError):
        return text[:LONGEST_ERROR], ""


def episode() -> Episode:
    """Returns the episode of this process, from the environment that run.env.kind exec gives it.
    Raises KeyError outside of an episode."""
    return Episode(os.environ["OPENAI_BASE_URL"], os.environ["OPENAI_API_KEY"],
                   json.loads(os.environ["BUTTRESS_TASK"]))


def play(agent: Agent, this: Episode) -> Optional[float]:
    """Returns the reward that `agent` returns for the episode; None where it was ended, by a limit
    or otherwise, and the agent did not catch that."""
    try:
        return agent(this)
    except EpisodeError as error:
        if error.ended:
            return None
        raise


def main(agent: Agent) -> None:
    """Plays the episode of this process, and posts the reward that `agent` returns. An exception
    ends the process with status 1: the episode is then unscorable, with the last line of stderr as
    its reason."""
    try:
        this = episode()
    except KeyError as missing:
        sys.exit(f"{missing.args[0]} is not set; this program is started by a run with "
                 "run.env.kind: exec")
    reward = play(agent, this)
    if reward is not None:
        this.reward(reward)
