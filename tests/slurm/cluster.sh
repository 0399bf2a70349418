# shellcheck shell=bash
# A Slurm cluster of two nodes in network namespaces of this one; sourced by run.sh. Everything is
# below $work, and ends with the process namespace.

# Runs a command on a machine with its own network, host name and scratch folder.
on_node() { # NODE COMMAND...
  nsenter --net="/run/netns/$1" unshare --uts --mount bash -ec '
    hostname "$1"
    mount -t tmpfs tmpfs /run/scratch
    exec "${@:2}"' - "$@"
}

make_networks() {
  mount -t tmpfs tmpfs /run
  mkdir /run/scratch
  ip link set lo up
  ip link add switch0 type bridge
  ip address add 10.77.0.1/24 dev switch0
  ip link set switch0 up
  printf '%s\n' '127.0.0.1 localhost' '10.77.0.1 control' >"$work/hosts"
  local i
  for i in 1 2; do
    ip netns add n$i
    ip link add n$i type veth peer name eth0 netns n$i
    ip link set n$i master switch0 up
    ip -n n$i link set lo up
    ip -n n$i address add 10.77.0.1$i/24 dev eth0
    ip -n n$i link set eth0 up
    echo "10.77.0.1$i n$i" >>"$work/hosts"
  done
  mount --bind "$work/hosts" /etc/hosts
  hostname control
}

# The job of partition `high` takes the nodes of one in `low`, which has GraceTime to leave.
write_configuration() {
  cat >"$work/slurm.conf" <<EOT
ClusterName=test
SlurmctldHost=control
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$work/munge.socket,cred_expire=5
StateSaveLocation=$work/state
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd-%n.pid
SlurmdSpoolDir=$work/spool-%n
TmpFS=/run/scratch
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=2,bf_interval=2,batch_sched_delay=0
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmctldParameters=preempt_send_user_signal
KillWait=20
ReturnToService=1
NodeName=n[1-2] CPUs=2
PartitionName=low Nodes=n[1-2] PriorityTier=1 GraceTime=60 OverSubscribe=EXCLUSIVE Default=YES
PartitionName=high Nodes=n[1-2] PriorityTier=2 PreemptMode=OFF OverSubscribe=EXCLUSIVE
EOT
  export SLURM_CONF=$work/slurm.conf
}

start_cluster() {
  make_networks
  write_configuration
  mkdir "$work/state" "$work/spool-n1" "$work/spool-n2"
  (umask 077; head -c 128 /dev/urandom >"$work/munge.key")
  munged --force --key-file="$work/munge.key" --socket="$work/munge.socket" \
    --pid-file="$work/munged.pid" --log-file="$work/munged.log" --seed-file="$work/munge.seed"
  slurmctld -D -L "$work/slurmctld.log" >/dev/null 2>&1 &
  for node in n1 n2; do
    on_node $node slurmd -D -N $node -L "$work/slurmd-$node.log" >/dev/null 2>&1 &
  done
  within 30 idle_nodes 2
}

idle_nodes() { # COUNT
  [ "$(sinfo -h -p low -t idle -o %D)" = "$1" ]
}

within() { # SECONDS COMMAND...
  local deadline=$((SECONDS + $1))
  until "${@:2}"; do
    [ $SECONDS -lt $deadline ] || { echo "not within $1 s: ${*:2}"; return 1; }
    sleep 0.5
  done
}
