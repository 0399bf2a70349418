#include "lib/ledger/ledger_lock.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string_view>
#include <utility>

namespace buttress {
namespace {

// The file's first line is the process id, of a fixed length; the second one is a transaction and
// its checksum.
constexpr std::size_t kPidLine = 16;

std::string LockPath(const std::string& path) { return path + ".lock"; }

std::string TextOf(const LedgerTransaction& last) {
  const std::string text = fmt::format("{} {:020}", last.ledger_id, last.number);
  const auto check = crc32_z(0, reinterpret_cast<const Bytef*>(text.data()), text.size());
  return fmt::format("{} {:08x}\n", text, check);
}

// The kernel tells no error of a whole line that matters here: without the line a message has no
// process id, and a log is not compared.
void WriteLine(int fd, std::string_view line, std::size_t offset) {
  if (pwrite(fd, line.data(), line.size(), static_cast<off_t>(offset)) < 0) errno = 0;
}

}  // namespace

std::optional<LedgerTransaction> LastAcknowledged(const std::string& path) {
  std::ifstream file(LockPath(path));
  std::string pid, line;
  if (!std::getline(file, pid) || !std::getline(file, line)) return std::nullopt;
  LedgerTransaction last;
  std::istringstream(line) >> last.ledger_id >> last.number;
  return TextOf(last) == line + "\n" ? std::optional(last) : std::nullopt;
}

// The kernel releases the lock when the process ends, however it ends: a second coordinator on this
// host is always refused, and a restarted one never is.
Result<LedgerLock> LedgerLock::Take(const std::string& path) {
  const std::string lock_path = LockPath(path);
  const int fd = open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (fd < 0 && errno == ELOOP) return InvalidArgument(lock_path + " is a link; remove it");
  if (fd < 0) return Unavailable(lock_path + ": " + std::strerror(errno));
  LedgerLock lock(fd);
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
    WriteLine(fd, fmt::format("{:<{}}\n", getpid(), kPidLine - 1), 0);
    return lock;
  }
  std::string pid;
  std::ifstream(lock_path) >> pid;
  return FailedPrecondition(path + " is open in another coordinator" +
                            (pid.empty() ? "" : ", process " + pid) +
                            "; stop it, or give this run another folder (local.out)");
}

LedgerLock::LedgerLock(LedgerLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

LedgerLock::~LedgerLock() {
  if (fd_ >= 0) close(fd_);
}

void LedgerLock::Acknowledge(const LedgerTransaction& last) {
  WriteLine(fd_, TextOf(last), kPidLine);
}

}  // namespace buttress
