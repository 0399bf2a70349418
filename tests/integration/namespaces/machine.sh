#!/bin/sh
# What a machine of the namespace tests is: a network, mount and host name of its own, with no folder that another one sees.
#   unshare -n -m -u --propagation private machine.sh NAME
# Prints "ready", then waits to be killed; programs enter by nsenter.
set -e
hostname "$1"
ip link set lo up
# These are its own, everything else is the machine's image: only to be read. The checkout stays where it is, under /tmp too.
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
