#include "lib/verify/sandbox/usage.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace buttress {
namespace {

std::string RootOf(pid_t first) { return "/proc/" + std::to_string(first) + "/root"; }

// While bubblewrap makes the sandbox, its first process still has the root of this process.
bool IsSetUp(const std::string& root) {
  struct stat own {};

  struct stat theirs {};

  return ::stat("/", &own) == 0 && ::stat(root.c_str(), &theirs) == 0 &&
         own.st_dev != theirs.st_dev;
}

// The folders of the processes in the sandbox's own /proc.
std::vector<std::filesystem::path> Processes(const std::string& root) {
  std::vector<std::filesystem::path> processes;
  std::error_code error;
  std::filesystem::directory_iterator entry(root + "/proc", error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.find_first_not_of("0123456789") == std::string::npos)
      processes.push_back(entry->path());
  }
  return processes;
}

// Returns the sum of the lines `first` and `second` of a file of /proc, which are in kB; nullopt if
// it has no such lines.
std::optional<std::int64_t> BytesIn(const std::filesystem::path& path, std::string_view first,
                                    std::string_view second) {
  std::ifstream file(path);
  std::optional<std::int64_t> sum;
  std::string word;
  while (file >> word) {
    std::int64_t kilobytes = 0;
    if ((word == first || word == second) && file >> kilobytes)
      sum = sum.value_or(0) + (kilobytes << 10);
  }
  return sum;
}

// Returns the resident pages that belong to no file of a disk: private ones, and shared memory.
// Pages that are shared with another process count as this process's own.
std::int64_t OwnBytes(const std::filesystem::path& process) {
  return BytesIn(process / "status", "RssAnon:", "RssShmem:").value_or(0);
}

// Returns the same with each shared page divided among its owners; OwnBytes if the kernel does not
// say.
std::int64_t ProportionalBytes(const std::filesystem::path& process) {
  const auto bytes = BytesIn(process / "smaps_rollup", "Pss_Anon:", "Pss_Shmem:");
  return bytes ? *bytes : OwnBytes(process);
}

}  // namespace

std::int64_t MemoryOf(pid_t first, std::int64_t limit) {
  const std::string root = RootOf(first);
  if (!IsSetUp(root)) return 0;
  const std::vector<std::filesystem::path> processes = Processes(root);
  std::int64_t sum = 0;
  for (const auto& process : processes) sum += OwnBytes(process);
  if (sum <= limit) return sum;
  sum = 0;
  for (const auto& process : processes) sum += ProportionalBytes(process);
  return sum;
}

std::int64_t FilesIn(pid_t first, const char* folder) {
  const std::string root = RootOf(first);

  struct statvfs system {};

  if (!IsSetUp(root) || ::statvfs((root + "/" + folder).c_str(), &system) != 0) return 0;
  return static_cast<std::int64_t>(system.f_files - system.f_ffree);
}

}  // namespace buttress
