// A Python process that scores one batch at a time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "lib/base/report/status.h"
#include "lib/config/reward_config.h"
#include "lib/verify/process/spawn.h"

namespace buttress {

struct PythonFunction {
  std::string interpreter;
  std::string file;
  std::string name;
  ChatForm chat = ChatForm::kAuto;
  std::map<std::string, std::string> arguments = {};  // each value JSON or else text
};

// Thread safety: none.
class PythonProcess {
 public:
  // Starts Python and imports the function. Returns
  //   kInvalidArgument   the file or the function cannot be used; the message says why;
  //   kDeadlineExceeded  the import takes longer than `timeout_ms`;
  //   kUnavailable       Python does not start.
  static Result<std::unique_ptr<PythonProcess>> Start(const PythonFunction& function,
                                                      std::int64_t timeout_ms);

  // Kills the process and every process that it started, whatever their groups and sessions are.
  ~PythonProcess();

  PythonProcess(const PythonProcess&) = delete;
  PythonProcess& operator=(const PythonProcess&) = delete;

  // Sends `line` and returns the line that answers it. After an error the process cannot be used
  // again: kDeadlineExceeded, kUnavailable if the process has ended, kResourceExhausted if the
  // answer is too long.
  Result<std::string> Call(std::string_view line, std::int64_t timeout_ms);

  // Whether the function takes the token ids of the completions.
  bool wants_token_ids() const { return wants_token_ids_; }

  // Returns the resident memory of the process, without that of its children; 0 if it has ended.
  std::int64_t ResidentBytes() const;

 private:
  PythonProcess(pid_t pid, OwnedFd socket) : pid_(pid), socket_(std::move(socket)) {}

  Status ReadGreeting(const std::string& line);
  Status Send(std::string_view bytes, std::int64_t deadline_ms);
  Result<std::string> Receive(std::int64_t deadline_ms);
  Status Wait(short events, std::int64_t deadline_ms) const;

  const pid_t pid_;    // of the keeper (python_program.h)
  pid_t scoring_ = 0;  // of the process that calls the function
  // A stream socket instead of pipes: MSG_NOSIGNAL suppresses the signal for writing to a process
  // that has ended.
  const OwnedFd socket_;
  std::string received_;
  bool wants_token_ids_ = false;
};

}  // namespace buttress
