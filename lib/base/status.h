// Status and Result<T>: how every function of ours reports failure. No exceptions.
//
// Codes equal gRPC's numbers, so the wire converts by cast. A message says what, the value, what
//   was expected, and the mend: learner.batch_groups = 48 is not divisible by 5 ranks; use a
//   multiple of 5, or run with -np 4 or 6
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "lib/base/check.h"

namespace buttress {

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

std::string_view StatusCodeName(StatusCode code);

class [[nodiscard]] Status {
 public:
  Status() = default;

  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == StatusCode::kOk; }

  StatusCode code() const { return code_; }

  const std::string& message() const { return message_; }

  // "INVALID_ARGUMENT: message", or "OK".
  std::string ToString() const;

  // Puts `context: ` before the message. OK stays OK.
  Status Annotate(std::string_view context) const;

  // Says on purpose that a failure does not matter here.
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

// The process's exit code for a failure that ends it: 0 done, 2 config, 3 peer or environment (a
// restart helps), 4 data.
int ExitCode(const Status& status);

// A value, or the reason why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value)
      : value_(std::move(value)) {
  }  // NOLINT(google-explicit-constructor): returns read as the value

  Result(Status status) : status_(std::move(status)) {  // NOLINT(google-explicit-constructor)
    BUTTRESS_CHECK(!status_.ok(), "Result made from an OK status without a value");
  }

  bool ok() const { return value_.has_value(); }

  const Status& status() const { return status_; }

  // REQUIRES: ok().
  T& operator*() & { return Get(); }

  const T& operator*() const& { return const_cast<Result*>(this)->Get(); }

  T&& operator*() && { return std::move(Get()); }

  T* operator->() { return &Get(); }

  const T* operator->() const { return &const_cast<Result*>(this)->Get(); }

 private:
  T& Get() {
    BUTTRESS_CHECK(value_.has_value(), status_.ToString());
    return *value_;
  }

  std::optional<T> value_;
  Status status_;
};

}  // namespace buttress

#define BUTTRESS_CONCAT_INNER(a, b) a##b
#define BUTTRESS_CONCAT(a, b) BUTTRESS_CONCAT_INNER(a, b)

#define BUTTRESS_RETURN_IF_ERROR(expression)                        \
  do {                                                              \
    if (::buttress::Status status_ = (expression); !status_.ok()) { \
      return status_;                                               \
    }                                                               \
  } while (false)

// BUTTRESS_ASSIGN_OR_RETURN(auto x, Make()): declares or assigns x, or returns Make's status.
#define BUTTRESS_ASSIGN_OR_RETURN(target, expression) \
  BUTTRESS_ASSIGN_OR_RETURN_INNER(BUTTRESS_CONCAT(result_, __LINE__), target, expression)
#define BUTTRESS_ASSIGN_OR_RETURN_INNER(result, target, expression) \
  auto result = (expression);                                       \
  if (!result.ok()) {                                               \
    return result.status();                                         \
  }                                                                 \
  target = *std::move(result)
