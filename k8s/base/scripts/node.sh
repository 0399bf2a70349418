#!/bin/sh
# A node of the learner: the sshd through which mpirun starts its ranks. After a SIGTERM, the drain
# of a node for example, the ranks write a checkpoint and leave before the sshd ends.
set -u
sshd=${SSHD:-/usr/sbin/sshd}

ranks() {
  for process in /proc/[0-9]*; do
    read -r name 2>/dev/null <"$process/comm" && [ "$name" = learner ] && echo "${process#/proc/}"
  done
}

stop() {
  left=$(ranks)
  [ -z "$left" ] || kill -USR1 $left
  while [ -n "$(ranks)" ]; do sleep 1; done
  kill "$server"
  wait "$server"
  exit 143
}
trap stop TERM INT

"$sshd" -D -e &
server=$!
wait "$server"
