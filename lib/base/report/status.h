// Status and Result<T>, which every function that can fail returns. The project throws no
// exceptions.
//
// A message names what failed, the value found, the value expected and the remedy, for example
//   learner.batch_groups = 48 is not divisible by 5 ranks; use a multiple of 5, or run with -np 4
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "lib/base/report/check.h"

namespace buttress {

// The numbers are gRPC's, so that a cast converts between the two.
enum class StatusCode : int {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
  kUnauthenticated = 16,
};

// "OK", "INVALID_ARGUMENT", ...; "UNKNOWN" for a number that is not in the list.
std::string_view StatusCodeName(StatusCode code);

// Success, or a code with a message. A value type.
class [[nodiscard]] Status {
 public:
  Status() = default;

  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == StatusCode::kOk; }

  StatusCode code() const { return code_; }

  const std::string& message() const { return message_; }

  // "INVALID_ARGUMENT: message", or "OK".
  std::string ToString() const;

  // Returns this status with "`context`: " before its message. An OK status is returned unchanged.
  Status Annotate(std::string_view context) const;

  // States that the caller ignores a failure deliberately.
  void IgnoreError() const {}

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

inline Status OkStatus() { return Status(); }

inline Status InvalidArgument(std::string m) {
  return {StatusCode::kInvalidArgument, std::move(m)};
}

inline Status NotFound(std::string m) { return {StatusCode::kNotFound, std::move(m)}; }

inline Status FailedPrecondition(std::string m) {
  return {StatusCode::kFailedPrecondition, std::move(m)};
}

inline Status Unavailable(std::string m) { return {StatusCode::kUnavailable, std::move(m)}; }

inline Status DataLoss(std::string m) { return {StatusCode::kDataLoss, std::move(m)}; }

inline Status Internal(std::string m) { return {StatusCode::kInternal, std::move(m)}; }

inline Status DeadlineExceeded(std::string m) {
  return {StatusCode::kDeadlineExceeded, std::move(m)};
}

inline Status ResourceExhausted(std::string m) {
  return {StatusCode::kResourceExhausted, std::move(m)};
}

inline Status Cancelled(std::string m) { return {StatusCode::kCancelled, std::move(m)}; }

inline Status AlreadyExists(std::string m) { return {StatusCode::kAlreadyExists, std::move(m)}; }

inline Status OutOfRange(std::string m) { return {StatusCode::kOutOfRange, std::move(m)}; }

inline Status Aborted(std::string m) { return {StatusCode::kAborted, std::move(m)}; }

// Memory that ran out, of the host or of a GPU: kResourceExhausted, "out of memory: `what`". A
// restart with the same sizes would meet the same limit, so the exit code is one of its own.
Status OutOfMemory(const std::string& what);

// Whether OutOfMemory made the status, whatever was put before its message since. A disk that is
// full is kResourceExhausted as well, and may have room again when the process is restarted.
bool IsOutOfMemory(const Status& status);

// Work that ended because nothing can come of it: kFailedPrecondition, "nothing to learn: `why`".
// In a run nothing was scored or no group differed, an evaluation had no verdict. Neither a restart
// nor another machine fixes that, so the exit code is one of its own.
Status NothingToLearn(const std::string& why);

// Whether NothingToLearn made the status, whatever was put before its message since.
bool IsNothingToLearn(const Status& status);

// Returns the status of an input that a program cannot start without: kNotFound becomes
// kInvalidArgument, whose exit code says that a restart finds the same. Others stay.
inline Status AsInput(const Status& status) {
  return status.code() == StatusCode::kNotFound ? InvalidArgument(status.message()) : status;
}

// Returns the exit code of a process that ends with `status`: 0 for success, 2 for invalid
// configuration, 4 for damaged data, 5 for IsNothingToLearn, 6 for IsOutOfMemory, and 3 for a
// failed peer or environment, where a restart may help.
int ExitCode(const Status& status);

// A T, or the status that says why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  // Both constructors are implicit, so that a function returns a value or a status as it is.
  // NOLINTNEXTLINE(google-explicit-constructor)
  Result(T value) : value_(std::move(value)) {}

  // NOLINTNEXTLINE(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {
    BUTTRESS_CHECK(!status_.ok(), "Result made from an OK status without a value");
  }

  bool ok() const { return value_.has_value(); }

  const Status& status() const { return status_; }

  // The value. REQUIRES: ok(); otherwise the process aborts with the status.
  T& operator*() & {
    CheckHasValue();
    return *value_;
  }

  const T& operator*() const& {
    CheckHasValue();
    return *value_;
  }

  T&& operator*() && { return std::move(**this); }

  T* operator->() { return &**this; }

  const T* operator->() const { return &**this; }

 private:
  void CheckHasValue() const { BUTTRESS_CHECK(value_.has_value(), status_.ToString()); }

  std::optional<T> value_;
  Status status_;
};

}  // namespace buttress

#define BUTTRESS_CONCAT_INNER(a, b) a##b
#define BUTTRESS_CONCAT(a, b) BUTTRESS_CONCAT_INNER(a, b)

// Evaluates a Status, and returns it from the enclosing function if it is not OK.
#define BUTTRESS_RETURN_IF_ERROR(expression)                        \
  do {                                                              \
    if (::buttress::Status status_ = (expression); !status_.ok()) { \
      return status_;                                               \
    }                                                               \
  } while (false)

// BUTTRESS_ASSIGN_OR_RETURN(auto x, Make()) moves the value of the Result into x, or returns its
// status from the enclosing function.
#define BUTTRESS_ASSIGN_OR_RETURN(target, expression) \
  BUTTRESS_ASSIGN_OR_RETURN_INNER(BUTTRESS_CONCAT(result_, __LINE__), target, expression)
#define BUTTRESS_ASSIGN_OR_RETURN_INNER(result, target, expression) \
  auto result = (expression);                                       \
  if (!result.ok()) {                                               \
    return result.status();                                         \
  }                                                                 \
  target = *std::move(result)
