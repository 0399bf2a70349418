// Machines on one switch, made of namespaces: nothing of the host's network is touched, and all is
// gone when their processes are.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "cli/process.h"
#include "tests/support/runs/launched_run.h"

namespace buttress {

// Needs BUTTRESS_SOURCE_DIR, root, iproute2 and nftables.
class Machines {
 public:
  // Why machines cannot be made here; empty if they can.
  static std::string Forbidden() {
    const TempDir dir;
    const std::string log = JoinPath(dir.path(), "log");
    const std::string needs =
        "unshare -n -m -u sh -c 'hostname x && mount -t tmpfs tmpfs /tmp && ip link add br0 type "
        "bridge && ip link add v0 type veth peer "
        "name v1 && nft add table bridge t && tc qdisc add dev v0 root tbf rate 1mbit burst 16kb "
        "latency 1s'";
    if (RunToEnd({"sh", "-c", needs}, log, 10000) == 0) return "";
    return "network and mount namespaces, a bridge, nft or tbf are not to be had here (root is "
           "needed): " +
           TextOf(log);
  }

  explicit Machines(const std::vector<std::string>& names) {
    SetChildSubreaper();
    switch_ = Start("switch");
    InSwitch(
        "ip link add br0 type bridge && ip link set br0 up && nft add table bridge faults && "
        "nft 'add chain bridge faults forward { type filter hook forward priority 0; }'");
    for (const std::string& name : names) {
      pids_[name] = Start(name);
      address_[name] = "10.77.0." + std::to_string(pids_.size());
    }
    std::string hosts = "127.0.0.1 localhost\n";
    for (const auto& [name, address] : address_) hosts += address + " " + name + "\n";
    for (const auto& [name, pid] : pids_) {
      // Slow enough that a run outlasts the faults on any computer: a version of the tiny model
      // takes a second.
      InSwitch("ip link add p-" + name + " type veth peer name eth0 netns " + std::to_string(pid) +
               " && ip link set p-" + name + " master br0 up && tc qdisc add dev p-" + name +
               " root tbf rate " + kRate + " burst 64kb latency 1s");
      Shell(On(name, {"sh", "-c",
                      "ip addr add " + address_[name] + "/24 dev eth0 && ip link set eth0 up"}));
      std::ofstream(Path(name, "/tmp/hosts")) << hosts;
    }
  }

  ~Machines() { KillDescendants(); }

  // The command line that runs `argv` on a machine.
  std::vector<std::string> On(const std::string& name, const std::vector<std::string>& argv) const {
    return Enter(pids_.at(name), argv);
  }

  // A machine's file as this process sees it.
  std::string Path(const std::string& name, const std::string& path) const {
    return "/proc/" + std::to_string(pids_.at(name)) + "/root" + path;
  }

  // The network namespace of a machine, which all its processes share.
  std::string Network(const std::string& name) const {
    return std::filesystem::read_symlink("/proc/" + std::to_string(pids_.at(name)) + "/ns/net")
        .string();
  }

  const std::string& Address(const std::string& name) const { return address_.at(name); }

  // "MACHINE_l1=4711": what agent.sh wants to know.
  std::string AgentVariable(const std::string& name) const {
    return "MACHINE_" + name + "=" + std::to_string(pids_.at(name));
  }

  static std::string Agent() {
    return BUTTRESS_SOURCE_DIR "/tests/integration/namespaces/agent.sh";
  }

  // Drops packets between two machines, either way: all that match an nft expression ("numgen
  // random mod 100 < 10"), or all.
  void Drop(const std::string& a, const std::string& b, const std::string& match = "") {
    for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)}) {
      InSwitch("nft 'add rule bridge faults forward ip saddr " + address_.at(from) + " ip daddr " +
               address_.at(to) + " " + match + " counter drop'");
    }
  }

  // Takes all faults away. How many packets they have dropped.
  int Heal() {
    const std::string log = JoinPath(dir_.path(), "faults" + std::to_string(healed_++));
    EXPECT_EQ(RunToEnd(Enter(switch_, {"nft", "list", "table", "bridge", "faults"}), log, 10000), 0)
        << TextOf(log);
    InSwitch("nft flush chain bridge faults forward");
    const std::string text = TextOf(log);
    int dropped = 0;
    for (std::size_t at = text.find("packets "); at != std::string::npos;
         at = text.find("packets ", at + 1)) {
      dropped += std::stoi(text.substr(at + 8));
    }
    return dropped;
  }

 private:
  static constexpr char kRate[] = "3mbit";

  static std::vector<std::string> Enter(pid_t pid, const std::vector<std::string>& argv) {
    std::vector<std::string> all = {"nsenter", "-t", std::to_string(pid), "-n", "-m", "-u", "--"};
    all.insert(all.end(), argv.begin(), argv.end());
    return all;
  }

  pid_t Start(const std::string& name) {
    const std::string log = JoinPath(dir_.path(), name + ".log");
    auto process =
        Process::Start({"unshare", "-n", "-m", "-u", "--propagation", "private",
                        BUTTRESS_SOURCE_DIR "/tests/integration/namespaces/machine.sh", name},
                       log);
    EXPECT_TRUE(process.ok());
    EXPECT_TRUE(WaitUntil(10000, [&] { return TextOf(log) == "ready\n"; })) << TextOf(log);
    return process->pid();
  }

  void Shell(const std::vector<std::string>& argv) {
    const std::string log = JoinPath(dir_.path(), "shell.log");
    EXPECT_EQ(RunToEnd(argv, log, 10000), 0) << argv.back() << ": " << TextOf(log);
  }

  void InSwitch(const std::string& command) { Shell(Enter(switch_, {"sh", "-c", command})); }

  TempDir dir_;
  pid_t switch_ = 0;
  std::map<std::string, pid_t> pids_;
  std::map<std::string, std::string> address_;
  int healed_ = 0;
};

}  // namespace buttress
