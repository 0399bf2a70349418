#!/bin/sh
# Runs the learner on the hosts of the MPI operator, and again when it fails. The arguments are
# those of mpirun; JOB_UID is the id of the Job of this launcher.
#
# Statuses 2 (configuration), 4 (damaged data) and 6 (out of memory) are final, and so is 5, which
# is reserved for a run that can learn nothing. The Job would start another pod, so a file keeps the
# status, and that pod ends with it at once.
#
# After a SIGTERM the ranks write a checkpoint and leave. They get SIGUSR1, which mpirun forwards: a
# SIGTERM to mpirun would kill them within a second. The status is then 143, so that the Job starts
# another pod, which resumes.
set -u
hosts=${HOSTS:-/etc/mpi/hostfile}
learner=${LEARNER:-/opt/buttress/bin/learner}
final=${OUT:-/var/lib/buttress}/learner-$JOB_UID.status
pause=${PAUSE:-5}    # seconds, times the failures in a row
failures_allowed=10
healthy_seconds=600  # a run of mpirun as long as this ends a row of failures

if [ -e "$final" ]; then
  status=$(cat "$final")
  echo "launcher: status $status of an earlier pod cannot be fixed by a restart" >&2
  exit "$status"
fi

ranks=0
while read -r _ slots; do ranks=$((ranks + ${slots#slots=})); done <"$hosts"

job='' stopping='' told='' failures=0
tell() {
  told=1
  kill -USR1 "$job"
}
stop() {
  stopping=1
  [ -z "$job" ] || tell
}
trap stop TERM INT

while :; do
  started=$(date +%s)
  mpirun -np "$ranks" --hostfile "$hosts" "$@" \
    "$learner" --config /etc/buttress/config/run.yaml --expect-world "$ranks" &
  job=$!
  # The signal may have come before there was a job.
  [ -z "$stopping" ] || [ -n "$told" ] || tell
  wait "$job"
  status=$?
  # A signal ends `wait` early.
  while kill -0 "$job" 2>/dev/null; do
    wait "$job"
    status=$?
  done
  job=''
  case $status in
    0) exit 0 ;;
    2 | 4 | 5 | 6)
      echo "$status" >"$final"
      exit "$status"
      ;;
  esac
  [ -z "$stopping" ] || exit 143
  [ $(($(date +%s) - started)) -lt "$healthy_seconds" ] || failures=0
  failures=$((failures + 1))
  [ "$failures" -le "$failures_allowed" ] || exit "$status"
  echo "launcher: mpirun ended with status $status; restart $failures of $failures_allowed" >&2
  # In seconds of its own, because a signal just before `wait` would not end it.
  left=$((pause * failures))
  while [ "$left" -gt 0 ] && [ -z "$stopping" ]; do
    sleep 1
    left=$((left - 1))
  done
  [ -z "$stopping" ] || exit 143
done
