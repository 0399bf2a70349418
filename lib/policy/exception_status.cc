#include "lib/policy/exception_status.h"

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>
#include <sys/resource.h>

#include <algorithm>
#include <new>
#include <string>
#include <string_view>

#include "lib/base/report/status.h"

namespace buttress {
namespace {

// The CPU allocator of LibTorch and the libraries of CUDA have no exception of their own.
constexpr std::string_view kTexts[] = {"DefaultCPUAllocator: can't allocate memory",
                                       "CUDA error: out of memory"};

std::string TextOfException(const std::exception& exception) {
  const auto* torch = dynamic_cast<const c10::Error*>(&exception);
  return torch == nullptr ? exception.what() : torch->what_without_backtrace();
}

bool MemoryRanOut(const std::exception& exception, const std::string& text) {
  if (dynamic_cast<const c10::OutOfMemoryError*>(&exception) != nullptr) return true;
  if (dynamic_cast<const std::bad_alloc*>(&exception) != nullptr) return true;
  return std::ranges::any_of(
      kTexts, [&text](std::string_view known) { return text.find(known) != std::string::npos; });
}

std::int64_t PeakBytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::int64_t>(usage.ru_maxrss) * 1024;
}

}  // namespace

Status StatusOf(const std::exception& exception, const std::string& advice) {
  const auto* own = dynamic_cast<const StatusError*>(&exception);
  if (own != nullptr) return own->status();
  std::string text = TextOfException(exception);
  if (!MemoryRanOut(exception, text)) return Internal(std::move(text));
  constexpr std::int64_t kMiB = 1 << 20;
  return OutOfMemory(c10::str(text, "; the peak of this process on the host is ",
                              PeakBytes() / kMiB, " MiB; ", advice));
}

}  // namespace buttress
