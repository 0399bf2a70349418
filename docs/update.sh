#!/usr/bin/env bash
# Puts the tables of the code into docs/*.md and draws the figures. Needs build/release/bin/buttress (deploy/build.sh).
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
exec python3 "$root/docs/update.py" "${1:-$root/build/release/bin/buttress}" "$root/docs"
