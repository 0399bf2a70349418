#!/bin/sh
# mpirun's way to another machine (plm_rsh_agent): agent.sh HOST COMMAND... The environment names the machine's process: MACHINE_<host>.
host=$1
shift
eval "pid=\$MACHINE_$host"
exec nsenter -t "$pid" -n -m -u -- sh -c "$*"
