#include "lib/base/report/nothing_to_learn.h"

#include <string_view>

namespace buttress {
namespace {

constexpr std::string_view kNothingText = "nothing to learn: ";

}  // namespace

Status NothingToLearn(const std::string& why) {
  return FailedPrecondition(std::string(kNothingText) + why);
}

bool IsNothingToLearn(const Status& status) {
  return status.code() == StatusCode::kFailedPrecondition &&
         status.message().find(kNothingText) != std::string::npos;
}

}  // namespace buttress
