#!/usr/bin/env bash
# A run's curves read back from TensorBoard, MLflow and W&B (offline), against its steps.jsonl.
#
#   tests/run.sh --with trackers
#
# The run trains 400 steps of the quickstart's task; the MLflow server is killed and started again
# in its middle. Logs and the run are in runs/with-trackers/.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
env=$("$here/../venv.sh" trackers "$here/packages.txt")
"$root/deploy/build.sh" release buttress coordinator rollout_worker learner
cd "$root"
deploy/quickstart-data.sh
PYTHONDONTWRITEBYTECODE=1 exec "$env/bin/python" "$here/compare.py" --mlflow "$env/bin/mlflow"
