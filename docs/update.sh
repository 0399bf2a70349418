#!/usr/bin/env bash
# Writes the generated parts of docs/*.md. Needs the programs in build/release (deploy/build.sh).
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
exec python3 "$root/docs/update.py" "${1:-$root/build/release/bin/buttress}" "$root/docs"
