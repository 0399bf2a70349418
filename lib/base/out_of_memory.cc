#include "lib/base/out_of_memory.h"

#include <string_view>

namespace buttress {
namespace {

constexpr std::string_view kText = "out of memory: ";

}  // namespace

Status OutOfMemory(const std::string& what) { return ResourceExhausted(std::string(kText) + what); }

bool IsOutOfMemory(const Status& status) {
  return status.code() == StatusCode::kResourceExhausted &&
         status.message().find(kText) != std::string::npos;
}

}  // namespace buttress
