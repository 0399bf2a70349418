#!/bin/sh
# What a machine of the namespace tests is: a network, mount and host name of its own, with no folder that another one sees.
#   unshare -n -m -u --propagation private machine.sh NAME
# Prints "ready", then waits to be killed; programs enter by nsenter.
set -e
hostname "$1"
ip link set lo up
# These are its own, everything else is the machine's image: only to be read. A checkout under /tmp stays where it was.
checkout=$(cd "$(dirname "$0")/../../.." && pwd)
exec 3< "$checkout"
mount -t tmpfs tmpfs /tmp
if [ ! -e "$checkout/tests" ]; then
  mkdir -p "$checkout"
  mount --bind /proc/self/fd/3 "$checkout"
fi
mount -t tmpfs tmpfs /dev/shm
: > /tmp/hosts
mount --bind /tmp/hosts /etc/hosts
mount -o remount,bind,ro /
echo ready
exec sleep infinity
