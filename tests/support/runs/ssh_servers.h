// A real sshd on each of a test's Machines, with its own host key, and the client's configuration
// to reach them. Needs openssh-server.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "tests/support/runs/machines.h"

namespace buttress {

class SshServers {
 public:
  // Why none can be started here; empty if they can.
  static std::string Forbidden() {
    return std::filesystem::exists(kProgram) ? "" : std::string("no ") + kProgram;
  }

  // `from` gets the client's files below /tmp/ssh; `names` get servers.
  SshServers(Machines& machines, std::string from, const std::vector<std::string>& names)
      : machines_(machines), from_(std::move(from)) {
    const std::string client = machines_.Path(from_, "/tmp/ssh");
    std::filesystem::create_directories(client);
    MakeKey(client + "/id");
    std::ofstream(client + "/config")
        << "IdentityFile /tmp/ssh/id\nUserKnownHostsFile /tmp/ssh/known\nPort " << kPort
        << "\nStrictHostKeyChecking yes\nLogLevel ERROR\n";
    for (const std::string& name : names) {
      Install(name, client);
      Start(name);
    }
  }

  // The command for `launch --ssh`.
  static std::string Command() { return "ssh -F /tmp/ssh/config"; }

  void Start(const std::string& name) {
    const auto argv = machines_.On(name, {kProgram, "-D", "-e", "-f", "/tmp/ssh/sshd_config"});
    const auto server = Process::Start(argv, JoinPath(dir_.path(), name + ".log"));
    ASSERT_TRUE(server.ok());
    servers_.insert_or_assign(name, *server);
    const std::string log = JoinPath(dir_.path(), "try");
    EXPECT_TRUE(WaitUntil(20000,
                          [&] {
                            return RunToEnd(machines_.On(from_, {"ssh", "-F", "/tmp/ssh/config",
                                                                 "-o", "BatchMode=yes", "-o",
                                                                 "ConnectTimeout=5", name, "true"}),
                                            log, 10000) == 0;
                          }))
        << TextOf(log) << TextOf(JoinPath(dir_.path(), name + ".log"));
  }

  // Kills the server of a machine and those of its connections.
  void Kill(const std::string& name) {
    for (const ProcessInfo& info : Descendants()) {
      if (info.name == "sshd" && NetworkOf(info.pid) == NetworkOf(servers_.at(name).pid()) &&
          info.pid != servers_.at(name).pid())
        ::kill(info.pid, SIGKILL);
    }
    Process& server = servers_.at(name);
    server.Signal(SIGKILL);
    EXPECT_TRUE(WaitUntil(10000, [&] { return !server.Running(); }));
  }

  // The network namespace of a process, which tells its machine.
  static std::string NetworkOf(pid_t pid) {
    std::error_code error;
    return std::filesystem::read_symlink("/proc/" + std::to_string(pid) + "/ns/net", error)
        .string();
  }

 private:
  static constexpr char kProgram[] = "/usr/sbin/sshd";
  static constexpr char kPort[] = "2222";

  void MakeKey(const std::string& path) {
    EXPECT_EQ(RunToEnd({"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path},
                       JoinPath(dir_.path(), "keygen"), 20000),
              0)
        << TextOf(JoinPath(dir_.path(), "keygen"));
  }

  void Install(const std::string& name, const std::string& client) {
    const std::string folder = machines_.Path(name, "/tmp/ssh");
    std::filesystem::create_directories(folder);
    MakeKey(folder + "/host");
    // The folder that sshd wants to find empty.
    EXPECT_EQ(RunToEnd(machines_.On(name, {"sh", "-c",
                                           "mount -t tmpfs tmpfs /run && mkdir -m 755 /run/sshd"}),
                       JoinPath(dir_.path(), "run"), 10000),
              0);
    std::filesystem::copy(client + "/id.pub", folder + "/authorized");
    std::ofstream(folder + "/sshd_config")
        << "Port " << kPort << "\nPidFile none\nHostKey /tmp/ssh/host\nStrictModes no\n"
        << "AuthorizedKeysFile /tmp/ssh/authorized\nAuthenticationMethods publickey\n"
        << "PasswordAuthentication no\nKbdInteractiveAuthentication no\nUsePAM no\n"
        << "PermitRootLogin prohibit-password\nPrintMotd no\n";
    std::ofstream(client + "/known", std::ios::app)
        << "[" << name << "]:" << kPort << " " << TextOf(folder + "/host.pub");
  }

  Machines& machines_;
  const std::string from_;
  TempDir dir_;
  std::map<std::string, Process> servers_;
};

}  // namespace buttress
