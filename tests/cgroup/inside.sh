#!/bin/bash
# The first process on the kernel of run.sh; PROGRAM and VERSION come from its command line.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /tmp
group=/sys/fs/cgroup/tests
if [ "$VERSION" = v1 ]; then
  mount -t cgroup -o memory memory /sys/fs/cgroup
  mkdir "$group"
  export BUTTRESS_CGROUP=$group # v1 has no mark of delegation
  peak=memory.max_usage_in_bytes
else
  mount -t cgroup2 cgroup2 /sys/fs/cgroup
  echo '+memory +pids' >/sys/fs/cgroup/cgroup.subtree_control
  mkdir "$group"
  python3 -c "import os; os.setxattr('$group', 'trusted.delegate', b'1')" # as systemd does
  peak=memory.peak
fi

# The tests run in the delegated group itself, which they must empty before they divide it.
run() {
  ([ "$VERSION" = v1 ] || echo 0 >"$group/cgroup.procs"; exec "$PROGRAM" --gtest_filter="$1" 2>&1)
}

echo "group of $VERSION, Linux $(uname -r)"
run 'KernelGroupTest.*:SandboxTest.TheNumberOf*'
status=$?
echo "peak $(($(cat "$group/$peak") >> 20)) MiB"
left=$(find "$group" -name 'buttress-sandbox-*' | wc -l)
echo "end $((status + left))"
poweroff -f
