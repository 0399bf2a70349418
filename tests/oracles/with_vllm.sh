#!/usr/bin/env bash
# Buttress against a real vLLM (CPU, float32, one process) on this machine: the oracle tests, then 20 steps of the quickstart's task at
# temperature 0.7 through it. Called by tests/run.sh --with-vllm after a build; logs and the run go to runs/with-vllm/.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
bin=$root/build/release/bin
cold=runs/quickstart-data/cold
out=runs/with-vllm
start_seconds=900

say() { printf 'with-vllm: %s (%d s)\n' "$*" "$SECONDS"; }
fail() { printf 'with-vllm: %s\n' "$*" >&2; exit 1; }

servers=()
stop_servers() {
  for group in "${servers[@]}"; do kill -TERM -- "-$group" 2>/dev/null || true; done
  for group in "${servers[@]}"; do
    for _ in $(seq 100); do kill -0 -- "-$group" 2>/dev/null || continue 2; sleep 0.1; done
    kill -KILL -- "-$group" 2>/dev/null || true
  done
  servers=()
}
trap stop_servers EXIT

# Starts a server in a process group of its own; waits in wait_server.
start_server() { # NAME PORT FLAG...
  local name=$1 port=$2
  shift 2
  VLLM_SERVER_DEV_MODE=1 VLLM_CPU_KVCACHE_SPACE=1 VLLM_CPU_OMP_THREADS_BIND=nobind OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1 \
    setsid "$vllm/bin/vllm" serve "$root/$cold" --served-model-name policy --host 127.0.0.1 --port "$port" --dtype float32 \
    --max-model-len 64 --enforce-eager "$@" >"$out/$name.log" 2>&1 &
  servers+=($!)
}

wait_server() { # NAME PORT PID
  local until=$((SECONDS + start_seconds))
  until curl -sf -m 2 "http://127.0.0.1:$2/health" >/dev/null; do
    kill -0 "$3" 2>/dev/null || fail "the server $1 ended; see $out/$1.log"
    [ $SECONDS -lt $until ] || fail "the server $1 is not up after $start_seconds s; see $out/$1.log"
    sleep 1
  done
  say "server $1 is up"
}

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

cd "$root"
vllm=$("$here/setup.sh")
deploy/quickstart-data.sh
rm -rf $out
mkdir -p $out
(umask 077; head -c 24 /dev/urandom | base64 | tr '+/' 'ab' >$out/key)

say "starting vLLM"
refused_port=$(free_port)
start_server refused "$refused_port"
wait_server refused "$refused_port" "${servers[0]}"
BUTTRESS_VLLM_URL=http://127.0.0.1:$refused_port BUTTRESS_VLLM_REFUSED_URL=http://127.0.0.1:$refused_port BUTTRESS_VLLM_MODEL=$root/$cold \
  "$bin/vllm_oracle_test" --gtest_filter='*Refused*'
stop_servers

port=$(free_port)
VLLM_API_KEY=$(cat $out/key) start_server server "$port" --generation-config vllm --logprobs-mode processed_logprobs --api-server-count 1
wait_server server "$port" "${servers[0]}"
BUTTRESS_VLLM_URL=http://127.0.0.1:$port BUTTRESS_VLLM_API_KEY_FILE=$root/$out/key BUTTRESS_VLLM_MODEL=$root/$cold \
  "$bin/vllm_oracle_test" --gtest_filter='-*Refused*'

say "training 20 steps"
"$bin/buttress" launch configs/vllm.yaml --fresh --set local.out=$out/run --set run.batch.max_age=0 \
  --set "local.worker.vllm.servers=[http://127.0.0.1:$port]" --set local.worker.vllm.api_key_file=$out/key | tee $out/launch.log
stop_servers
for seed in 1 2 3 4; do
  for model in $cold $out/run/model; do
    "$bin/rollout_worker" eval --config configs/vllm.yaml --model "$model" --prompts runs/quickstart-data/held_out.jsonl \
      --temperature 0.7 --seed $seed --json | tr -d '\n'
    echo
  done
done >$out/evals.jsonl
python3 "$here/check_run.py" $out $cold
say "passed"
