// Exceptions of LibTorch and of the standard library as a Status. Torch.
#pragma once

#include <exception>
#include <string>
#include <utility>

#include "lib/base/report/status.h"

namespace buttress {

// An error of code that LibTorch calls, or that cannot return it.
class StatusError : public std::exception {
 public:
  // REQUIRES: the status is an error.
  explicit StatusError(Status status) : status_(std::move(status)) {}

  const Status& status() const { return status_; }

  const char* what() const noexcept override { return status_.message().c_str(); }

 private:
  Status status_;
};

// OutOfMemory, with what was asked for, the peak memory of this process on the host, and `advice`
// (which settings to lower), that of a StatusError, or kInternal.
Status StatusOf(const std::exception& exception, const std::string& advice);

}  // namespace buttress
