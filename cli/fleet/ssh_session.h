// A program on another machine, as a child process here: `buttress on-host`.
//
// The near side starts `ssh HOST buttress on-host --agent` and stays for as long as the program
// runs; the agent is the parent of the program. Standard input of the ssh carries the configuration
// ("SIZE\n" and SIZE bytes) and then a byte every few seconds. The agent stops the program when
// they end or stay away, so that it outlives neither the near side nor the connection.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/report/status.h"

namespace buttress {

// Bytes of the near side come every kBeatMs. A side that hears nothing of the other for kLostMs
// takes the connection as lost.
inline constexpr std::int64_t kBeatMs = 5000;
inline constexpr std::int64_t kLostMs = 30000;

struct SshSession {
  std::string ssh;               // command, split at spaces
  std::string host;              // as ssh takes it
  std::string config;            // file to send
  std::vector<std::string> far;  // command line there
  std::int64_t stop_ms = 0;      // what the agent gives the program to stop
  bool retry = true;             // connect again for a while if the machine is not reached
};

// `ssh` with what every connection of a run needs: no question, and an end when the other machine
// is silent.
std::vector<std::string> SshCommand(const std::string& ssh);

// Runs the session to its end and returns the exit status of the program: 128 + n after signal n,
// and 3 if the connection was lost or the machine was not reached. SIGTERM to this process stops
// the program.
int RunSession(const SshSession& session);

struct FarProgram {
  std::string role;               // of the run; one program at a time has it
  std::string out;                // folder of the run here
  std::int64_t stop_ms = 0;       // from SIGTERM to SIGKILL
  std::vector<std::string> argv;  // empty: only the configuration is received
};

// File of the folder of a run that holds the configuration which the near side sent.
std::string SentConfigPath(const std::string& out);

// The agent's part: stores the configuration, waits until an earlier program of the role has gone,
// and runs the program. Returns its exit status as RunSession does. kUnavailable if no
// configuration comes, or the earlier program stays.
Result<int> RunFarProgram(const FarProgram& program);

}  // namespace buttress
