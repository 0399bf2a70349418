#!/usr/bin/env bash
# Runs deploy/slurm/buttress.sbatch on Debian's slurmctld and two slurmd, which have network
# namespaces of their own: a preemption, a time limit and a requeue in the middle of a run. About
# two minutes.
#
#   tests/slurm/run.sh [--keep]     --keep leaves the folder with every log
#
# Needs root and the programs in build/release/bin (BUTTRESS_BIN names another folder); the first
# call installs Slurm. Its last line counts the checks; exit code 77 says why nothing could run.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
export BUTTRESS_BIN=${BUTTRESS_BIN:-$root/build/release/bin}
skip_all() { printf 'slurm: %s\n0 passed, 0 failed, 1 skipped\n' "$*"; exit 77; }

if [ "${1:-}" != inside ]; then
  [ "$(id -u)" = 0 ] || skip_all "making network namespaces needs root"
  for program in coordinator rollout_worker learner buttress fake_vllm; do
    [ -x "$BUTTRESS_BIN/$program" ] || skip_all "no $BUTTRESS_BIN/$program; run deploy/build.sh"
  done
  "$here/setup.sh" || skip_all "Debian's packages of Slurm cannot be installed here"
  inside=(unshare --mount --net --uts --pid --fork --kill-child --mount-proc)
  "${inside[@]}" ip link add switch0 type bridge 2>/dev/null ||
    skip_all "this machine makes no network namespaces"
  work=$(mktemp -d)
  if [ "${1:-}" = --keep ]; then echo "logs are kept in $work"; else trap 'rm -rf "$work"' EXIT; fi
  "${inside[@]}" "$here/run.sh" inside "$work"
  exit $?
fi

work=$2
. "$here/cluster.sh"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
passed=0 failed=0

check() { # NAME COMMAND...
  local started=$SECONDS
  if "${@:2}" >"$work/log" 2>&1; then
    passed=$((passed + 1))
    echo "ok      $1 ($((SECONDS - started)) s)"
  else
    failed=$((failed + 1))
    echo "FAILED  $1"
    tail -n 20 "$work/log" "$work"/*.out 2>/dev/null | sed 's/^/        /'
  fi
}

make_run() {
  local buttress=$BUTTRESS_BIN/buttress
  "$buttress" task countdown --out "$work/data" --numbers 4 --operators +- --use-all \
    --format compact --train 512 --held-out 8 --sft 8192 --seed 1 &&
    "$buttress" new-model --out "$work/data/model" --characters '0123456789+-:>' --layers 2 \
      --hidden 48 --heads 3 --intermediate 96 &&
    "$buttress" sft --model "$work/data/model" --data "$work/data/sft.jsonl" \
      --out "$work/data/cold" --steps 120 --batch 64 --lr 3e-3 --warmup 5 --seed 1 &&
    "$root/deploy/make-certs.sh" "$work/certs" nodes
  cat >"$work/run.yaml" <<EOT
run:
  seed: 1
  steps: 1000000
  checkpoint_interval: 50
  lease_ms: 10000
  data: {prompts: $work/data/train.jsonl}
  model: {path: $work/data/cold}
  sampling: {group_size: 4, max_tokens: 8}
  batch: {prompts: 8}
  reward: {verifier: countdown, use_all: true}
local:
  out: $work/out
  security:
    certificate: $work/certs/nodes.pem
    key: $work/certs/nodes.key
    ca: $work/certs/ca.pem
    tokens: $work/certs
    name: nodes
  learner:
    interface: eth0
    collective_timeout_ms: 15000
    stop_when: {uninformative_steps: 0}
EOT
}

submit() { # NAME OPTION... -- ARGUMENT...
  local name=$1 options=()
  shift
  while [ "$1" != -- ]; do
    options+=("$1")
    shift
  done
  shift
  output=$work/$name.out
  job=$(sbatch --parsable --nodes 2 --output "$output" "${options[@]}" \
    "$root/deploy/slurm/buttress.sbatch" "$work/run.yaml" "$@")
}

field() { scontrol show job "$job" -o | grep -oP "(?<= $1=)[^ ]+"; } # NAME
is() { [ "$(field "$1")" = "$2" ]; } # FIELD VALUE
taken() { tail -n 2 "$out/steps.jsonl" 2>/dev/null | grep -oP '^{"step":\K\d+' | tail -n 1; }
steps_reach() { [ "$(taken || echo 0)" -ge "$1" ]; } # STEP
goes_on() { within 90 steps_reach $(($(taken || echo 0) + 10)); }

processes_of() { # NODE PROGRAM
  ip netns pids "$1" | xargs ps -o pid=,comm= -p | awk -v name="$2" '$2 == name { print $1 }'
}
runs_one() { [ "$(processes_of "$@" | wc -l)" = 1 ]; } # NODE PROGRAM

starts() { # MPI
  out=$work/$1
  MPI=$1 submit "$1" --signal=B:USR1@20 -- --set "local.out=$out" &&
    within 90 steps_reach 10 && runs_one n1 learner && runs_one n2 learner
}

# The step at which the last start of the learner resumed, and the one after the last step that was
# taken before it.
resumed_at() {
  grep -oP 'learner/0 step=\K\d+(?= version=\d+ step reward)|learner starts next_step\K=\d+' \
    "$output" | awk -F= '/=/ { print $2, last + 1; next } { last = $1 }' | tail -n 1
}

runs_again() { # RESTARTS
  within 120 is Restarts "$1" && within 120 is JobState RUNNING && goes_on
}

# Nothing was lost: the learner wrote a checkpoint before it left.
lost_nothing() {
  local resumed expected
  read -r resumed expected < <(resumed_at)
  echo "resumed at step $resumed, expected $expected"
  [ "$resumed" -gt 1 ] && [ "$resumed" = "$expected" ]
}

# The job of the higher priority gets the nodes once the script has left, within GraceTime.
is_preempted() { # RESTARTS
  local other
  preempting_job_ended() { [ "$(squeue -h -j "$other" -t all -o %T)" = COMPLETED ]; }
  other=$(sbatch --parsable --partition high --nodes 2 --output /dev/null --wrap "sleep 2") &&
    within 60 preempting_job_ended &&
    runs_again "$1" && lost_nothing
}

meets_its_time_limit() { # RESTARTS
  local seconds=$(($(date +%s) - $(date -d "$(field StartTime)" +%s)))
  scontrol update JobId="$job" TimeLimit=$((seconds / 60 + 1)) &&
    within 120 is Restarts "$1" && scontrol update JobId="$job" TimeLimit=60 &&
    runs_again "$1" && lost_nothing
}

# Slurm does not ask the script. A checkpoint of the end is likely and not certain.
is_requeued() { # RESTARTS
  local resumed expected
  within 90 steps_reach 60 && scontrol requeue "$job" && runs_again "$1" || return
  read -r resumed expected < <(resumed_at)
  echo "resumed at step $resumed, expected 51 to $expected"
  [ "$resumed" -gt 50 ] && [ "$resumed" -le "$expected" ]
}

# A program on the second node is killed, and the script starts it again in the same job.
survives_the_loss_of() { # PROGRAM
  local restarts lost found
  restarts=$(field Restarts)
  lost=$(processes_of n2 "$1")
  replaced() { found=$(processes_of n2 "$1") && [ -n "$found" ] && [ "$found" != "$lost" ]; }
  kill -KILL "$lost" && within 60 replaced "$1" && goes_on && is Restarts "$restarts"
}

survives_the_loss_of_a_node() { # RESTARTS
  scontrol update NodeName=n2 State=DOWN Reason=test && within 60 is Restarts "$1" &&
    within 60 is JobState PENDING && scontrol update NodeName=n2 State=RESUME && runs_again "$1"
}

ends_by_itself() {
  out=$work/short
  submit short -- --set "local.out=$out" --set run.steps=30 &&
    within 90 is JobState COMPLETED && is ExitCode 0:0 && [ "$(taken)" = 30 ] &&
    [ -e "$out/model/config.json" ]
}

# A vLLM server on each node, of a program that stands in for vLLM; its tokens are of any text, so
# the vocabulary of the model is as large.
samples_from_servers() {
  local vllm=local.worker.vllm
  out=$work/vllm
  "$BUTTRESS_BIN/buttress" new-model --out "$work/data/large" --layers 1 --hidden 32 --heads 2 \
    --intermediate 64 \
    --characters '0123456789+-:>abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ' &&
    "$BUTTRESS_BIN/buttress" sft --model "$work/data/large" --data "$work/data/sft.jsonl" \
      --out "$work/data/start" --steps 1 &&
    submit vllm -- --set "local.out=$out" --set "run.model.path=$work/data/start" \
      --set local.worker.engine=vllm --set "$vllm.launch.binary=$BUTTRESS_BIN/fake_vllm" \
      --set "$vllm.canary_nats=1000" --set "$vllm.revive_ms=100" &&
    within 90 steps_reach 10 && within 60 runs_one n1 fake_vllm &&
    within 60 runs_one n2 fake_vllm &&
    survives_the_loss_of fake_vllm
}

no_server_is_left() { [ -z "$(processes_of n1 fake_engine; processes_of n2 fake_engine)" ]; }

ledger_is_clean() {
  scancel "$job"
  within 60 is JobState CANCELLED &&
    "$BUTTRESS_BIN/buttress" ledger audit "$out"
}

# Programs of the test: a learner that ends with the statuses of a file, one after the other.
learner_ends_with() { # STATES STATUS...
  local states=$1 bin=$work/bin
  shift
  rm -rf "$bin" && mkdir "$bin"
  ln -s "$BUTTRESS_BIN"/{coordinator,rollout_worker,buttress} "$bin"
  printf '%s\n' "$@" >"$bin/statuses"
  cat >"$bin/learner" <<'EOT'
#!/bin/sh
cd "$(dirname "$0")" && read -r status <statuses && sed -i 1d statuses && exit "$status"
EOT
  chmod +x "$bin/learner"
  out=$work/final-$1
  BUTTRESS_BIN=$bin LEARNER_NODES=1 submit "final-$1" -- --set "local.out=$out" &&
    within 60 is JobState "${states%/*}" && is ExitCode "${states#*/}:0" && is Restarts 0 &&
    [ ! -s "$bin/statuses" ]
}

check "two nodes and a controller start" start_cluster
check "problems, a model and certificates" make_run
check "srun --mpi=pmix: steps, one rank on each node" starts pmix
check "a preemption: it leaves with a checkpoint and resumes" is_preempted 1
check "the time limit: it leaves with a checkpoint and resumes" meets_its_time_limit 2
check "scontrol requeue: it resumes from a checkpoint" is_requeued 3
check "a rank is killed: the learner is started again" survives_the_loss_of learner
check "a worker is killed: it is started again" survives_the_loss_of rollout_worker
check "a node is down: the job is queued again and continues" survives_the_loss_of_a_node 4
check "scancel ends it, and the audit of the ledger is clean" ledger_is_clean
check "a run of 30 steps ends the job with status 0" ends_by_itself
check "mpirun: steps, one rank on each node" starts mpirun
check "a preemption: it leaves with a checkpoint and resumes" is_preempted 1
check "scontrol requeue: it resumes from a checkpoint" is_requeued 2
check "scancel ends it, and the audit of the ledger is clean" ledger_is_clean
check "vLLM servers start on each node, and again when one is killed" samples_from_servers
check "scancel ends it, and the audit of the ledger is clean" ledger_is_clean
check "scancel leaves no process of a server" within 30 no_server_is_left
check "status 3 of the learner: it is started again" learner_ends_with COMPLETED/0 3 3 0
for status in 2 4 5 6; do
  check "status $status of the learner ends the job" learner_ends_with FAILED/$status $status
done
echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
