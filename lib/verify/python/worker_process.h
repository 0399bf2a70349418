// A Python process that scores batches, one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "lib/base/status.h"

namespace buttress {

struct PythonFunction {
  std::string interpreter;
  std::string file;
  std::string name;
  bool chat = false;
};

// Not thread-safe.
class PythonProcess {
 public:
  // Imports the file. kInvalidArgument: the file or the function is no use, and why;
  // kDeadlineExceeded; kUnavailable: Python does not start.
  static Result<std::unique_ptr<PythonProcess>> Start(const PythonFunction& function,
                                                      std::int64_t timeout_ms);

  // Kills the process and all it started.
  virtual ~PythonProcess() = default;

  // The line that answers `line`. After a failure the process is no use any more:
  // kDeadlineExceeded, kUnavailable when it has ended, kResourceExhausted for an answer that is too
  // long.
  virtual Result<std::string> Call(std::string_view line, std::int64_t timeout_ms) = 0;
};

}  // namespace buttress
