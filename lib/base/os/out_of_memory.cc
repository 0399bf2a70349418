#include "lib/base/os/out_of_memory.h"

#include <string_view>

namespace buttress {
namespace {

constexpr std::string_view kOutOfMemoryText = "out of memory: ";

}  // namespace

Status OutOfMemory(const std::string& what) {
  return ResourceExhausted(std::string(kOutOfMemoryText) + what);
}

bool IsOutOfMemory(const Status& status) {
  return status.code() == StatusCode::kResourceExhausted &&
         status.message().find(kOutOfMemoryText) != std::string::npos;
}

}  // namespace buttress
