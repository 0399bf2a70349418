#include "lib/base/report/status.h"

#include <iterator>

namespace buttress {
namespace {

constexpr std::string_view kNames[] = {
    "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
    "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
    "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED"};

constexpr std::string_view kOutOfMemoryText = "out of memory: ";
constexpr std::string_view kNothingText = "nothing to learn: ";

}  // namespace

std::string_view StatusCodeName(StatusCode code) {
  const auto index = static_cast<std::size_t>(code);
  return index < std::size(kNames) ? kNames[index] : "UNKNOWN";
}

std::string Status::ToString() const {
  if (ok()) return "OK";
  return std::string(StatusCodeName(code_)) + ": " + message_;
}

Status Status::Annotate(std::string_view context) const {
  if (ok()) return *this;
  return {code_, std::string(context) + ": " + message_};
}

Status OutOfMemory(const std::string& what) {
  return ResourceExhausted(std::string(kOutOfMemoryText) + what);
}

bool IsOutOfMemory(const Status& status) {
  return status.code() == StatusCode::kResourceExhausted &&
         status.message().find(kOutOfMemoryText) != std::string::npos;
}

Status NothingToLearn(const std::string& why) {
  return FailedPrecondition(std::string(kNothingText) + why);
}

bool IsNothingToLearn(const Status& status) {
  return status.code() == StatusCode::kFailedPrecondition &&
         status.message().find(kNothingText) != std::string::npos;
}

int ExitCode(const Status& status) {
  if (IsOutOfMemory(status)) return 6;
  if (IsNothingToLearn(status)) return 5;
  switch (status.code()) {
    case StatusCode::kOk:
      return 0;
    case StatusCode::kInvalidArgument:
      return 2;
    case StatusCode::kDataLoss:
      return 4;
    default:
      return 3;
  }
}

}  // namespace buttress
