#include "lib/base/nothing_to_learn.h"

#include <string_view>

namespace buttress {
namespace {

constexpr std::string_view kText = "nothing to learn: ";

}  // namespace

Status NothingToLearn(const std::string& why) {
  return FailedPrecondition(std::string(kText) + why);
}

bool IsNothingToLearn(const Status& status) {
  return status.code() == StatusCode::kFailedPrecondition &&
         status.message().find(kText) != std::string::npos;
}

}  // namespace buttress
