#!/usr/bin/env bash
# Installs a wheel of deploy/wheel.sh into a fresh virtual environment, asks every command for its
# help, uses the commands and functions that need no run, probes a run with a server, and bounds
# size and start time.
#
#   deploy/wheel_check.sh WHEEL
set -euo pipefail
wheel=$(readlink -f "$1")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { printf 'wheel: %s\n' "$*" >&2; exit 1; }
python3 -m venv "$work/env"
"$work/env/bin/pip" install -q --disable-pip-version-check "$wheel" ||
  fail "pip could not install $wheel and PyYAML; check the network or pip's index"
cd "$work"
# Libraries of the wheel must not come from the build folder or a variable.
export PATH=$work/env/bin:/usr/bin:/bin
unset LD_LIBRARY_PATH PYTHONPATH BUTTRESS_PYTHON_LIBRARY

expect() { # TEXT COMMAND...: the output of the command contains TEXT
  local text=$1 answer
  shift
  answer=$("$@" 2>&1) || true
  [[ $answer == *"$text"* ]] || fail "$* gave '${answer:0:400}'; expected '$text'"
}

for command in explain verify audit-verifier advantages losses import replay ledger samples doctor \
  page compare metrics task tokenize track probe eval; do
  buttress "$command" --help >/dev/null || fail "buttress $command --help failed"
done
printf '%s\n' '{"rewards": [1, 0]}' '{"rewards": [1, 1]}' >groups.jsonl
printf '%s\n' '{"answer": "0.5", "responses": ["\\boxed{1/2}", "\\boxed{2}"], "labels": [1, 0]}' \
  >answers.jsonl
printf '%s\n' '{"step": 1, "input": "p", "output": "a", "score": 1.0}' \
  '{"step": 1, "input": "p", "output": "b", "score": 1.0}' >dump.jsonl
expect "buttress $(basename "$wheel" | cut -d- -f2)" buttress --version
expect 'ACR 0.500' buttress advantages groups.jsonl
expect 'label_agreement  1' buttress verify --verifier math answers.jsonl
expect 'response' buttress audit-verifier --verifier math answers.jsonl
expect 'arxiv' buttress losses --markdown
expect 'all-correct 1' buttress explain dump.jsonl
expect 'B - A' buttress explain --compare dump.jsonl dump.jsonl
expect 'missing' buttress ledger audit missing
expect 'missing' buttress replay missing
expect 'missing' buttress samples missing
expect 'missing.yaml' buttress doctor missing.yaml
echo 'algorithm: {adv_estimator: grpo}' >verl.yaml
expect 'grpo' buttress import verl verl.yaml
expect 'full program' buttress generate --help

# A run whose model the server has: here are no weights.
cp "$here/wheel_vllm.py" vllm
buttress new-model --out model --characters '0123456789+=' >new-model.log
printf '%s\n' '{"prompt": "1+2=", "answer": "3"}' '{"prompt": "2+1=", "answer": "3"}' >prompts.jsonl
printf '%s\n' 'run:' '  data: {prompts: prompts.jsonl}' '  model: {path: model}' \
  '  reward: {verifier: exact}' '  sampling: {max_tokens: 4}' >run.yaml
expect 'runs no model; name a server' buttress probe run.yaml
expect 'conclusion: can learn' buttress probe run.yaml --vllm "$work/vllm"
expect '"entropy":{"mean":0.5' buttress probe run.yaml --vllm "$work/vllm" --json
expect '"prompts":2,"completions":2' buttress eval --vllm "$work/vllm" --model model \
  --prompts prompts.jsonl --verifier exact --json
for _ in 1 2 3 4 5; do
  servers=$(pgrep -f "$work/vllm serve") || break
  sleep 1
done
[ -z "$servers" ] || fail "servers outlived their commands: $servers"
expect '0.7' python3 -c 'import buttress; print(buttress.advantages([[1, 0]], eps=0))'
expect '0.5' python3 -c 'import buttress; print(buttress.acr([[1, 0], [1, 1]]).acr)'
expect 'correct' python3 -c 'import buttress; print(buttress.verify("4", "4").outcome)'
for agent in service gymnasium verifiers; do
  expect "usage: python -m buttress.agents.$agent" python3 -m "buttress.agents.$agent" --help
done

cd env/lib/python3*/site-packages/buttress-*.dist-info
sed -n 's/^License-File: //p' METADATA >"$work/licences"
while read -r licence; do [ -s "licenses/$licence" ] || fail "no licence $licence"; done \
  <"$work/licences"
for licence in LICENSE libgmp10.txt common-licenses-LGPL-3.txt; do
  grep -qx "$licence" "$work/licences" || fail "METADATA names no licence $licence"
done
cd "$work"
size=$(stat -c %s "$wheel")
[ "$size" -lt 30000000 ] || fail "$wheel has $size bytes; expected fewer than 30,000,000"
# Medians of 50 starts, in ms. Other work stretches the clock, and CPU time hardly.
read -r start cpu < <(python3 - <<'PYTHON'
import resource, statistics, subprocess, time

def start():
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(["buttress", "--version"], stdout=subprocess.DEVNULL, check=True)
    took, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return took, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

print(*(round(1000 * statistics.median(times)) for times in zip(*(start() for _ in range(50)))))
PYTHON
)
read -r load _ </proc/loadavg
[ "$cpu" -le 50 ] || fail "the program takes $cpu ms of CPU to start; expected at most 50"
[ "$start" -le 50 ] || [ "${load%.*}" -ge "$(nproc)" ] ||
  fail "the program starts in $start ms; expected at most 50"
echo "wheel: $wheel: $((size / 1000)) kB, starts in $start ms, $cpu of them CPU, at a load of $load"
