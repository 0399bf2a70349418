#!/usr/bin/env bash
# Installs a wheel of deploy/wheel.sh into a fresh virtual environment, asks every command for its
# help, uses the commands and functions that need no run, and prints size and start time.
#
#   deploy/wheel_check.sh WHEEL
set -euo pipefail
wheel=$(readlink -f "$1")
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
  page compare metrics task tokenize track; do
  buttress "$command" --help >/dev/null || fail "buttress $command --help failed"
done
printf '%s\n' '{"rewards": [1, 0]}' '{"rewards": [1, 1]}' >groups.jsonl
printf '%s\n' '{"answer": "0.5", "responses": ["\\boxed{1/2}", "\\boxed{2}"], "labels": [1, 0]}' \
  >answers.jsonl
printf '%s\n' '{"step": 1, "input": "p", "output": "a", "score": 1.0}' \
  '{"step": 1, "input": "p", "output": "b", "score": 1.0}' >dump.jsonl
expect 'ACR 0.500' buttress advantages groups.jsonl
expect 'label_agreement  1' buttress verify --verifier math answers.jsonl
expect 'response' buttress audit-verifier --verifier math answers.jsonl
expect 'arxiv' buttress losses --markdown
expect 'all-correct 1' buttress explain dump.jsonl
expect 'missing' buttress ledger audit missing
expect 'missing' buttress replay missing
expect 'missing' buttress samples missing
expect 'missing.yaml' buttress doctor missing.yaml
echo 'algorithm: {adv_estimator: grpo}' >verl.yaml
expect 'grpo' buttress import verl verl.yaml
expect 'full program' buttress generate --help
expect '0.7' python3 -c 'import buttress; print(buttress.advantages([[1, 0]], eps=0))'
expect '0.5' python3 -c 'import buttress; print(buttress.acr([[1, 0], [1, 1]]).acr)'
expect 'correct' python3 -c 'import buttress; print(buttress.verify("4", "4").outcome)'
for agent in service gymnasium verifiers; do
  expect "usage: python -m buttress.agents.$agent" python3 -m "buttress.agents.$agent" --help
done

ls env/lib/python3*/site-packages/buttress-*.dist-info/licenses | grep -q LICENSE ||
  fail "no licences in the wheel"
size=$(stat -c %s "$wheel")
[ "$size" -lt 30000000 ] || fail "$wheel has $size bytes; expected fewer than 30,000,000"
start=$(date +%s%N)
for _ in 1 2 3 4 5 6 7 8 9 10; do buttress losses >/dev/null; done
echo "wheel: $wheel: $((size / 1000)) kB, starts in $((($(date +%s%N) - start) / 10000000)) ms"
