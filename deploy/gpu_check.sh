#!/usr/bin/env bash
# Checks all that Buttress does on GPUs, on this machine, and prints a table (docs/gpu.md):
#
#   deploy/gpu_check.sh                  # after deploy/setup.sh --cuda; builds what it needs
#   deploy/gpu_check.sh --device cpu     # the same checks on CPUs, as far as they need no GPU
#
# Exit code: 0 nothing failed, 1 a check failed, 77 everything was skipped (no GPU). Speed is
# compared with transformers if $BUTTRESS_PEERS is a Python environment with torch and transformers.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
case " $* " in
  *' --bin '* | *' --help '*) ;;
  *)
    "$root/deploy/build.sh" release buttress coordinator rollout_worker learner bench_train \
      collective_nccl_test >&2
    ;;
esac
exec python3 -B "$root/deploy/gpu_check.py" "$@"
