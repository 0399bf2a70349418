"""Which folder may include which (programs > model > libraries > base), and who includes torch."""
import re

from sources import CPP, PROGRAMS, check_files, files, finish

# What a folder of lib/ may include of the other folders of lib/.
LIBRARIES = {
    "base": set(),
    "chat": {"base", "config", "data", "tokenizer"},
    "checks": {
        "base", "collectives", "config", "data", "http", "measure", "policy", "rl", "rpc",
        "tokenizer", "verify", "weights"
    },
    "collectives": {"base"},
    "config": {"base"},
    "data": {"base", "config", "jinja", "tokenizer"},
    "experience": {"base"},
    "explain": {"base", "config", "experience", "rl"},
    "http": {"base"},
    "jinja": {"base"},
    "ledger": {"base", "experience", "rl"},
    "measure": {"base", "config", "experience", "rl"},
    "page": {
        "base", "config", "experience", "ledger", "measure", "rl", "rpc", "samples", "tokenizer"
    },
    "policy": {"base", "config", "experience", "tokenizer", "weights"},
    "rl": {"base", "config", "experience"},
    "rpc": {"base", "config", "experience", "weights"},
    "samples": {"base", "chat", "config", "experience", "ledger", "rl", "tokenizer"},
    "tokenizer": {"base"},
    "verify": {"base", "config", "experience", "http", "rl"},
    "weights": {"base", "experience", "rpc"},
}
TORCH = re.compile(r'#include [<"](torch|ATen|c10)/')
TORCH_USERS = (
    "lib/policy/",
    "lib/rl/loss/",
    "lib/collectives/cuda/",
    "learner/",
    "rollout_worker/embedded_engine",
    "rollout_worker/evaluation/local_models",
    "rollout_worker/evaluation/reference_model",
    "rollout_worker/model_commands/",
)
MESSAGE_USERS = (
    "lib/experience/",
    "lib/ledger/",
    "lib/weights/",
    "lib/rpc/",
    "lib/page/",
    "coordinator/",
    "rollout_worker/",
    "learner/",
    "cli/train/console",
)


def check(path, text):
    problems = []
    top, folder, *_ = path.split("/")
    for number, line in enumerate(text.split("\n"), 1):
        if not line.startswith("#include"):
            continue
        at = f"{path}:{number}"
        if TORCH.match(line) and not path.startswith(TORCH_USERS):
            problems.append(f"{at}: only these may include torch: {', '.join(TORCH_USERS)}")
        if '"buttress/v1/' in line and not path.startswith(MESSAGE_USERS):
            problems.append(
                f"{at}: only these may include generated messages: {', '.join(MESSAGE_USERS)}")
        include = re.match(r'#include "([a-z_]+)/([a-z_]+)', line)
        if include is None:
            continue
        included_top, included_folder = include.groups()
        if included_top in PROGRAMS and included_top != top:
            problems.append(f"{at}: {top} includes {included_top}; a program's files are its own")
        if top == included_top == "lib" and included_folder != folder:
            if folder not in LIBRARIES:
                problems.append(f"{at}: lib/{folder} is not in the table of {__file__}")
            elif included_folder not in LIBRARIES[folder]:
                problems.append(f"{at}: lib/{folder} may not include lib/{included_folder}")
    return problems


if __name__ == "__main__":
    finish(check_files(files(CPP, ("lib", *PROGRAMS)), check), "include direction holds")
