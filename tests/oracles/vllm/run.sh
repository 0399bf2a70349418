#!/usr/bin/env bash
# Training through a vLLM server, and its log-probs next to the learner's.
#
#   tests/run.sh --with vllm [VERSION] [float32 | bfloat16 | qwen3 | lora | sampling | episodes |
#                                       restarts | launch | transfer | parsers]
#
# Without a version it is 0.26.0; without parts all but transfer, which is for 0.32 and newer, and
# parsers.
#
# float32 trains 20 steps of the quickstart's task at temperature 0.7, bfloat16 six, and qwen3 ten
# of a model of that family, in float32. lora trains ten of adapters. sampling trains two with each
# of several values of run.sampling: the ratio of an unchanged policy is 1. episodes trains 20 of
# the guessing game, whose episodes have several turns. restarts trains with two servers, kills one,
# then the other, then both (SIGKILL), and starts them again each time. launch lets the run start
# its server, which is killed three times. transfer sends the requests of a native weight transfer.
# parsers, alone, is for a version without a CPU build (0.33.0): only the modules that read requests
# are run, from the wheel for GPUs (340 MB).
# Logs and runs are in runs/with-vllm/.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
bin=$root/build/release/bin
data=runs/quickstart-data
cold=$data/cold
out=runs/with-vllm
start_seconds=900
most_tokens=64  # of a prompt and its completion
version=0.26.0
case ${1:-} in [0-9]*) version=$1; shift ;; esac
parts=${*:-float32 bfloat16 qwen3 lora sampling episodes restarts launch}

say() { printf 'with-vllm: %s (%d s)\n' "$*" "$SECONDS"; }
fail() { printf 'with-vllm: %s\n' "$*" >&2; exit 1; }

servers=()
stop_servers() {
  for group in "${servers[@]}"; do kill -TERM -- "-$group" 2>/dev/null || true; done
  for group in "${servers[@]}"; do
    for _ in $(seq 100); do
      kill -0 -- "-$group" 2>/dev/null || continue 2
      sleep 0.1
    done
    kill -KILL -- "-$group" 2>/dev/null || true
  done
  servers=()
}
launch=
stop_all() {
  [ -z "$launch" ] || kill -TERM "$launch" 2>/dev/null || true
  stop_servers
}
trap stop_all EXIT

# Starts a server in its own process group; wait_server waits until it answers.
start_server() { # NAME PORT DTYPE FLAG...
  local name=$1 port=$2 dtype=$3
  shift 3
  VLLM_SERVER_DEV_MODE=1 VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 VLLM_CPU_KVCACHE_SPACE=1 \
    VLLM_CPU_OMP_THREADS_BIND=nobind OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1 \
    setsid "$vllm/bin/vllm" serve "$root/$cold" --served-model-name policy \
    --host 127.0.0.1 --port "$port" --dtype "$dtype" --max-model-len $most_tokens \
    --enforce-eager "$@" >>"$out/$name.log" 2>&1 &
  servers+=($!)
}

wait_server() { # NAME PORT PID
  local until=$((SECONDS + start_seconds))
  until curl -sf -m 2 "http://127.0.0.1:$2/health" >/dev/null; do
    kill -0 "$3" 2>/dev/null || fail "the server $1 ended; see $out/$1.log"
    [ $SECONDS -lt $until ] ||
      fail "the server $1 is not up after $start_seconds s; see $out/$1.log"
    sleep 1
  done
  say "server $1 is up"
}

free_port() {
  python3 -c \
    'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# Starts a server as docs/vllm.md does, with a key. Its port is in `port`.
start_alone() { # DTYPE FLAG...
  say "starting vLLM in $1"
  port=$(free_port)
  VLLM_API_KEY=$(cat $out/key) start_server "$1" "$port" "$1" --generation-config vllm \
    --logprobs-mode processed_logprobs --api-server-count 1 "${@:2}"
  wait_server "$1" "$port" "${servers[0]}"
}

# Starts a server and runs the oracle tests against it. Its port is in `port`.
start_and_ask() { # DTYPE
  start_alone "$1"
  BUTTRESS_VLLM_URL=http://127.0.0.1:$port BUTTRESS_VLLM_API_KEY_FILE=$root/$out/key \
    BUTTRESS_VLLM_MODEL=$root/$cold BUTTRESS_VLLM_DTYPE=$1 \
    "$bin/vllm_oracle_test" --gtest_filter='-*Refused*'
}

# Trains with the server at `port`, which goes on.
train_on() { # PART DTYPE STEPS FLAG...
  local part=$1 dtype=$2 steps=$3
  shift 3
  say "training $steps steps of the part $part"
  "$bin/buttress" launch configs/vllm.yaml --fresh --set "local.out=$out/run-$part" \
    --set "run.model.path=$cold" --set run.batch.max_age=0 --set "run.model.dtype=$dtype" \
    --set local.worker.vllm.launch.binary= \
    --set "run.steps=$steps" --set "local.worker.vllm.servers=[http://127.0.0.1:$port]" \
    --set local.worker.vllm.api_key_file=$out/key "$@" |
    tee "$out/launch-$part.log"
}

train() { # PART DTYPE STEPS FLAG...
  train_on "$@"
  stop_servers
}

refused_server() {
  say "starting vLLM with its own defaults"
  local port
  port=$(free_port)
  start_server refused "$port" float32
  wait_server refused "$port" "${servers[0]}"
  BUTTRESS_VLLM_URL=http://127.0.0.1:$port BUTTRESS_VLLM_REFUSED_URL=http://127.0.0.1:$port \
    BUTTRESS_VLLM_MODEL=$root/$cold \
    "$bin/vllm_oracle_test" --gtest_filter='*Refused*'
  stop_servers
}

evaluate() { # MODEL...
  local model seed
  for seed in 1 2 3 4; do
    for model in "$@"; do
      "$bin/rollout_worker" eval --config configs/vllm.yaml --model "$model" \
        --prompts $data/held_out.jsonl --temperature 0.7 --seed $seed --json |
        tr -d '\n'
      echo
    done
  done
}

in_float32() {
  refused_server
  start_and_ask float32
  train float32 float32 20
  evaluate $cold $out/run-float32/model >$out/evals.jsonl
  python3 "$here/check_run.py" $out float32 $cold
}

# Six small steps show whether versions are proven and log-probs agree; rewards are not compared.
in_bfloat16() {
  start_and_ask bfloat16
  train bfloat16 bfloat16 6 --set run.batch.prompts=32 --no-eval
  python3 "$here/check_run.py" $out bfloat16
}

# The task's start model in the family Qwen3, whose attention normalises queries and keys.
make_qwen3() {
  local folder=$data/qwen3
  cold=$folder/cold
  [ ! -f $cold/model.safetensors ] || return 0
  say "making a start model of the family Qwen3"
  rm -rf $folder
  "$bin/buttress" new-model --family qwen3 --out $folder/model --characters '0123456789+-:>' \
    --layers 3 --hidden 96 --heads 3 --intermediate 256
  "$bin/buttress" sft --model $folder/model --data $data/sft.jsonl --out $cold \
    --steps 400 --batch 128 --lr 3e-3 --warmup 20 --seed 1
}

in_qwen3() {
  make_qwen3
  start_and_ask float32
  train qwen3 float32 10 --no-eval
  python3 "$here/check_run.py" $out qwen3
}

in_lora() {
  start_alone float32 --enable-lora --max-lora-rank 8
  train lora float32 10 --no-eval --set run.lora.rank=8 --set run.optim.lr=5e-3
  python3 "$here/check_run.py" $out lora
}

# The values of tests/unit/policy/run_sampling_test.cc that this task and its vocabulary have.
in_sampling() {
  local number=0 setting
  start_alone float32
  for setting in temperature={0.2,1,1.6} group_size=16 max_tokens={1,20} "stop=['+', '>3']" \
    include_stop=true 'stop_token_ids=[3, 7]'; do
    number=$((number + 1))
    say "run.sampling.$setting"
    train_on "sampling-$number" float32 2 --no-eval --set run.batch.prompts=32 \
      --set "run.sampling.$setting"
    python3 "$here/check_run.py" $out "sampling-$number"
  done
  stop_servers
}

# Keeps what the worker counts up to date, until the run has ended.
follow_worker() {
  while launched; do
    curl -sf -m 5 "http://$(cat "$run/workers/w0.metrics" 2>/dev/null)/metrics" 2>/dev/null |
      grep '^buttress_worker_' >"$out/worker.new" && mv "$out/worker.new" "$out/worker.txt"
    sleep 0.1
  done
}

# In a subshell, as the other parts have a shorter context and another model.
in_episodes() (
  trap stop_all EXIT
  most_tokens=256 cold=runs/guess-data/cold run=$out/run-episodes
  deploy/guess-data.sh
  start_alone float32
  say "training 20 steps of episodes"
  "$bin/buttress" launch configs/guess.yaml --fresh --no-eval --set "local.out=$run" \
    --set run.steps=20 --set run.batch.prompts=8 --set run.sampling.group_size=8 \
    --set run.batch.max_age=0 --set run.model.dtype=float32 --set local.worker.engine=vllm \
    --set local.worker.vllm.model=policy --set local.worker.vllm.api_key_file=$out/key \
    --set "local.worker.vllm.servers=[http://127.0.0.1:$port]" >"$run.log" 2>&1 &
  launch=$!
  follow_worker
  wait "$launch" || fail "the run failed; see $run.log"
  launch=
  stop_servers
  "$bin/buttress" ledger audit "$run"
  python3 "$here/check_run.py" $out episodes
)

# Starts the server a or b of the part restarts, at its port.
start_one() { # NAME
  VLLM_API_KEY=$(cat $out/key) start_server "restarts-$1" "${ports[$1]}" float32 \
    --generation-config vllm --logprobs-mode processed_logprobs --api-server-count 1
  group[$1]=${servers[-1]}
}

step_now() {
  tail -n 1 "$run/steps.jsonl" 2>/dev/null | sed -E 's/^\{"step":([0-9]+).*/\1/' || true
}

launched() { kill -0 "$launch" 2>/dev/null; }

# Waits until the run is `more` steps further, and says how long that took.
wait_steps() { # MORE WHAT
  local from since=$SECONDS
  from=$(step_now)
  until [ "$(step_now)" -ge $((${from:-0} + $1)) ] 2>/dev/null; do
    launched || fail "the run ended $2; see $run.log"
    [ $((SECONDS - since)) -lt $start_seconds ] || fail "no $1 steps in $start_seconds s $2"
    sleep 0.5
  done
  say "step $(step_now): $1 steps in $((SECONDS - since)) s $2"
}

serving() { # NAME
  curl -sf -m 5 "http://$(cat "$run/workers/w0.metrics")/metrics" |
    grep "^buttress_worker_server_serving{.*:${ports[$1]}\"} 1" >/dev/null
}

kill_and_restart() { # NAME...
  local name since
  for name in "$@"; do kill -KILL -- "-${group[$name]}"; done
  say "step $(step_now): killed $*"
  # The one that is left samples alone.
  [ $# -eq 2 ] || wait_steps 2 "without $1"
  for name in "$@"; do start_one "$name"; done
  for name in "$@"; do wait_server "restarts-$name" "${ports[$name]}" "${group[$name]}"; done
  since=$SECONDS
  for name in "$@"; do
    until serving "$name"; do
      launched || fail "the run ended while $name was down; see $run.log"
      [ $((SECONDS - since)) -lt 120 ] || fail "$name does not serve 120 s after its start"
      sleep 0.5
    done
  done
  say "step $(step_now): $* serve again $((SECONDS - since)) s after they answered"
  wait_steps 2 "with both"
}

in_restarts() {
  declare -gA ports group
  run=$out/run-restarts
  local name host=http://127.0.0.1
  for name in a b; do
    ports[$name]=$(free_port)
    start_one $name
  done
  for name in a b; do wait_server restarts-$name "${ports[$name]}" "${group[$name]}"; done
  say "training with two servers"
  "$bin/buttress" launch configs/vllm.yaml --fresh --no-eval --set "local.out=$run" \
    --set "run.model.path=$cold" --set run.batch.max_age=0 --set run.model.dtype=float32 \
    --set run.steps=60 --set local.worker.vllm.launch.binary= \
    --set "local.worker.vllm.servers=[$host:${ports[a]},$host:${ports[b]}]" \
    --set local.worker.vllm.api_key_file=$out/key >"$run.log" 2>&1 &
  launch=$!
  wait_steps 3 "with both"
  kill_and_restart a
  kill_and_restart b
  kill_and_restart a b
  curl -sf "http://$(cat "$run/workers/w0.metrics")/metrics" | grep '^buttress_worker_server_' \
    >"$out/servers.txt"
  wait "$launch" || fail "the run failed; see $run.log"
  stop_servers
  "$bin/buttress" ledger audit "$run"
  python3 "$here/check_restarts.py" $out restarts
}

# Keeps what the worker says of its servers up to date, until it has ended.
follow_servers() {
  while launched; do
    curl -sf -m 5 "http://$(cat "$run/workers/w0.metrics" 2>/dev/null)/metrics" 2>/dev/null |
      grep '^buttress_worker_server_' >"$out/servers.new" &&
      mv "$out/servers.new" "$out/servers.txt"
    sleep 0.3
  done
}

# The processes of the run, those that vLLM started included, which have the mark of this script in
# their environment.
marked() { grep -lszx "WITH_VLLM_MARK=$$" /proc/[0-9]*/environ | cut -d/ -f3; }

# The process that `vllm serve` became, which is the only one whose parent is that of launch.
server_pid() { pgrep -P "$(pgrep -P "$launch" -f vllm-server)"; }

in_launch() {
  local kill
  run=$out/run-launch
  say "training with a server that the run starts"
  WITH_VLLM_MARK=$$ "$bin/buttress" launch configs/vllm.yaml --fresh --no-eval \
    --set "local.out=$run" --set "run.model.path=$cold" --set run.batch.max_age=0 \
    --set run.steps=30 \
    --set "local.worker.vllm.launch.binary=$vllm/bin/vllm" \
    --set "local.worker.vllm.api_key_file=$out/key" >"$run.log" 2>&1 &
  launch=$!
  follow_servers &
  wait_steps 3 "with the first process of the server"
  for kill in 1 2 3; do
    kill -KILL "$(server_pid)"
    say "step $(step_now): killed the server, $kill of 3"
    wait_steps 3 "with its next process"
  done
  wait "$launch" || fail "the run failed; see $run.log"
  launch=
  [ -z "$(marked)" ] || fail "processes of the server are left: $(marked)"
  "$bin/buttress" ledger audit "$run"
  python3 "$here/check_restarts.py" $out launch
}

in_transfer() {
  start_alone float32 --weight-transfer-config '{"backend":"nccl"}'
  python3 "$here/check_transfer.py" "http://127.0.0.1:$port"
  stop_servers
}

in_parsers() {
  local env wheels=${BUTTRESS_ORACLES:-${XDG_CACHE_HOME:-$HOME/.cache}/buttress/oracles}/wheels
  env=$("$here/setup.sh")
  compgen -G "$wheels/vllm-$version-*.whl" >/dev/null ||
    "$env/bin/pip" download -q --no-deps -d "$wheels" "vllm==$version"
  "$env/bin/python" -B "$here/check_parsers.py" "$wheels/vllm-$version-"*.whl
}

if [ "$parts" = parsers ]; then
  in_parsers
  say "passed"
  exit
fi
for part in $parts; do
  case $part in
    float32 | bfloat16 | qwen3 | lora | sampling | episodes | restarts | launch | transfer) ;;
    *) fail "'$part' is no part; see the head of $0" ;;
  esac
done
"$root/deploy/build.sh" release buttress coordinator rollout_worker learner vllm_oracle_test
cd "$root"
vllm=$("$here/setup.sh" "$version")
deploy/quickstart-data.sh
rm -rf $out
mkdir -p $out
(umask 077; head -c 24 /dev/urandom | base64 | tr '+/' 'ab' >$out/key)

for part in $parts; do "in_$part"; done
say "passed"
