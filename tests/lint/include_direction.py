"""Who may include whom (architecture: programs > model > libraries > base), and where torch may be included."""
import re

from sources import ROOT, finish, sources

PROGRAMS = ("coordinator", "rollout_worker", "learner", "cli")
# A folder of lib/ and what it may include of lib/, itself apart. Generated messages (buttress/v1) go to wire, services and clients only.
LIBRARIES = {
    "base": set(),
    "http": {"base"},
    "config": {"base"},
    "experience": {"base"},
    "measure": {"base", "config"},
    "rl": {"base", "config", "experience"},
    "explain": {"base", "config", "experience", "rl"},
    "verify": {"base", "config", "experience", "http"},
    "jinja": {"base"},
    "tokenizer": {"base"},
    "data": {"base", "config", "jinja", "tokenizer"},
    "weights": {"base", "experience", "rpc"},
    "collectives": {"base"},
    "ledger": {"base", "experience", "rl"},
    "rpc": {"base", "config", "experience", "weights"},
    "policy": {"base", "config", "experience", "weights"},
}
TORCH = re.compile(r'#include [<"](torch|ATen|c10)/')
TORCH_FILES = ("lib/policy/", "lib/rl/loss/", "lib/collectives/cuda/", "learner/", "rollout_worker/embedded_engine", "rollout_worker/eval",
               "tests/", "bench/")
MESSAGE_USERS = ("lib/experience/codec", "lib/weights/", "lib/rpc/", "coordinator/", "rollout_worker/", "learner/", "cli/status", "tests/", "bench/")

problems = []
for path in sources():
    if path.startswith(("tests/", "bench/")):
        continue
    parts = path.split("/")
    for number, line in enumerate((ROOT / path).read_text().split("\n"), 1):
        at = f"{path}:{number}"
        if TORCH.match(line) and not path.startswith(TORCH_FILES):
            problems.append(f"{at}: torch belongs to {', '.join(TORCH_FILES)}")
        if '#include "buttress/v1/' in line and not path.startswith(MESSAGE_USERS):
            problems.append(f"{at}: generated messages belong to {', '.join(MESSAGE_USERS)}")
        include = re.match(r'#include "([a-z_]+)/([a-z_]+)', line)
        if not include:
            continue
        top, folder = include.groups()
        if top in PROGRAMS and top != parts[0]:
            problems.append(f"{at}: {parts[0]} includes {top}; programs never include one another, libraries never a program")
        if parts[0] == "lib" and top == "lib" and folder != parts[1]:
            if parts[1] not in LIBRARIES:
                problems.append(f"{at}: lib/{parts[1]} is not in the table of {__file__}")
            elif folder not in LIBRARIES[parts[1]]:
                problems.append(f"{at}: lib/{parts[1]} may not include lib/{folder}")
finish(problems, "include direction holds")
