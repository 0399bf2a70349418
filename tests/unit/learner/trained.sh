# What the tests of the program trainer_ranks do with it. They ask for all that is to be trained,
# and then compare it: LibTorch starts much more slowly than it trains these models, so one mpirun
# trains everything that some number of ranks is asked for.
# shellcheck shell=bash
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# ranks RANKS ARGUMENT...: runs the program.
ranks() {
  timeout 300 mpirun --allow-run-as-root --oversubscribe --bind-to none -np "$1" "$program" "${@:2}"
}

# train RANKS OUT DTYPE PRECISION [SETTING=VALUE ...]: asks for $folder/OUT, OUT.log and OUT.held.
# RANKS is "2 --gpu" for ranks on GPUs. A setting has no space.
train() { echo "$folder/${*:2}" >>"$folder/jobs $1"; }

# train_all: trains what was asked for.
train_all() {
  local jobs
  for jobs in "$folder/jobs "*; do ranks ${jobs#*/jobs } "$jobs"; done
}

compared=()

# near A B BOUND: asks that no weight of the two differs by more.
near() { compared+=("$folder/$1" "$folder/$2" "$3"); }

# compare_all: compares what was asked for.
compare_all() { "$program" --compare "${compared[@]}"; }

# equal A B: no bit differs.
equal() { cmp "$folder/$1" "$folder/$2"; }
