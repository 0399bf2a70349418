#!/bin/sh
# Runs a command of mpirun on another machine (plm_rsh_agent): agent.sh HOST COMMAND...
# The environment variable MACHINE_<host> names the process of the machine.
host=$1
shift
eval "pid=\$MACHINE_$host"
exec nsenter -t "$pid" -n -m -u -- sh -c "$*"
