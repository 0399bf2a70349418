#!/usr/bin/env bash
# Installs Slurm of Debian for tests/slurm/run.sh, without starting its services. Needs root.
set -euo pipefail
missing=()
for package in slurmctld slurmd slurm-client munge; do
  dpkg-query -W -f='${Status}' $package 2>/dev/null | grep -q 'ok installed' || missing+=($package)
done
[ ${#missing[@]} -gt 0 ] || exit 0
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
  printf '#!/bin/sh\nexit 101\n' >$policy
  chmod +x $policy
  trap 'rm -f $policy' EXIT
fi
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" \
  >/dev/null
