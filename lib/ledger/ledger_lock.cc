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

#include "lib/base/os/fd.h"
#include "lib/ledger/checked_log.h"

namespace buttress {
namespace {

// The file's lines, of a fixed length: the process id; a transaction; the end of the log. The last
// two have a checksum.
constexpr std::size_t kPidLine = 16;
constexpr std::size_t kTransactionLine = 63;

std::string LockPath(const std::string& path) { return path + ".lock"; }

std::string Checked(const std::string& text) {
  const auto check = crc32_z(0, reinterpret_cast<const Bytef*>(text.data()), text.size());
  return fmt::format("{} {:08x}\n", text, check);
}

std::string TextOf(const LedgerTransaction& last) {
  return Checked(fmt::format("{} {:020}", last.ledger_id, last.number));
}

std::string TextOf(const LogEnd& end) {
  return Checked(fmt::format("{:016x} {:010}", end.salts, end.frames));
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

std::optional<LogEnd> RememberedLogEnd(const std::string& path) {
  std::ifstream file(LockPath(path));
  std::string line;
  if (!file.seekg(kPidLine + kTransactionLine) || !std::getline(file, line)) return std::nullopt;
  LogEnd end;
  std::istringstream(line) >> std::hex >> end.salts >> std::dec >> end.frames;
  return TextOf(end) == line + "\n" ? std::optional(end) : std::nullopt;
}

void RememberLogEnd(const std::string& path, const LogEnd& end, Lasts lasts) {
  const OwnedFd file(open(LockPath(path).c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW));
  if (file.get() < 0) return;
  WriteLine(file.get(), TextOf(end), kPidLine + kTransactionLine);
  if (lasts == Lasts::kBeyondPower && fdatasync(file.get()) != 0) errno = 0;
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
