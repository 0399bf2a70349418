#!/bin/sh
# A machine of the namespace tests: its own network, mounts and host name, and no shared folder.
#   unshare -n -m -u --propagation private machine.sh NAME
# Prints "ready" and waits to be killed. Programs enter with nsenter.
set -e
hostname "$1"
ip link set lo up
# These mounts are private; everything else is read-only. The checkout keeps its path, even
# below /tmp.
checkout=$(cd "$(dirname "$0")/../../.." && pwd)
mount --bind "$checkout" /mnt
mount -t tmpfs tmpfs /tmp
mkdir -p "$checkout"
mount --move /mnt "$checkout"
mount -o remount,bind,ro "$checkout"
mount -t tmpfs tmpfs /dev/shm
: > /tmp/hosts
mount --bind /tmp/hosts /etc/hosts
mount -o remount,bind,ro /
echo ready
exec sleep infinity
