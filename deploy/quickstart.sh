#!/usr/bin/env bash
# Sets up, builds, and trains a small model on countdown with AVSPO on this machine, which takes
# about five minutes after the build.
#
#   deploy/quickstart.sh [--set run.steps=100 ...]       arguments go to `buttress launch`
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
"$root/deploy/setup.sh"
"$root/deploy/build.sh" release buttress coordinator rollout_worker learner
cd "$root"
bin=$root/build/release/bin
"$root/deploy/quickstart-data.sh"
exec "$bin/buttress" launch configs/quickstart.yaml --fresh "$@"
