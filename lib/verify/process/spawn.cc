#include "lib/verify/process/spawn.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

namespace buttress {
namespace {

constexpr int kFirstFreeFd = 64;  // above all targets, so that dup2 does not overwrite a source

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

class SpawnSettings {
 public:
  SpawnSettings() {
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawnattr_init(&attributes);
    sigset_t none;
    sigset_t all;
    ::sigemptyset(&none);
    ::sigfillset(&all);
    ::posix_spawnattr_setsigmask(&attributes, &none);
    ::posix_spawnattr_setsigdefault(&attributes, &all);
    ::posix_spawnattr_setpgroup(&attributes, 0);
    ::posix_spawnattr_setflags(
        &attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }

  ~SpawnSettings() {
    ::posix_spawn_file_actions_destroy(&actions);
    ::posix_spawnattr_destroy(&attributes);
  }

  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
};

}  // namespace

Result<pid_t> Spawn(const SpawnRequest& request) {
  SpawnSettings settings;
  std::vector<OwnedFd> sources;
  for (std::size_t i = 0; i < request.fds.size(); ++i) {
    sources.emplace_back(::fcntl(request.fds[i], F_DUPFD_CLOEXEC, kFirstFreeFd));
    if (sources.back().get() < 0)
      return Unavailable(std::string("cannot copy a descriptor: ") + std::strerror(errno));
    ::posix_spawn_file_actions_adddup2(&settings.actions, sources.back().get(),
                                       static_cast<int>(i));
  }
  ::posix_spawn_file_actions_addclosefrom_np(&settings.actions,
                                             static_cast<int>(request.fds.size()));
  const std::vector<char*> argv = Pointers(request.argv);
  const std::vector<char*> environment = Pointers(request.environment);
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, argv[0], &settings.actions, &settings.attributes,
                                  argv.data(), environment.data());
  if (error != 0)
    return Unavailable(fmt::format("cannot start {}: {}", request.argv[0], std::strerror(error)));
  return pid;
}

void KillAndReap(pid_t pid) {
  ::kill(-pid, SIGKILL);
  ::kill(pid, SIGKILL);
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void EndAndReap(pid_t pid, std::chrono::milliseconds patience) {
  const OwnedFd handle(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  ::kill(pid, SIGTERM);
  pollfd ended{handle.get(), POLLIN, 0};
  ::poll(&ended, 1, static_cast<int>(patience.count()));
  KillAndReap(pid);
}

Result<Pipe> MakePipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return Unavailable(std::string("cannot make a pipe: ") + std::strerror(errno));
  Pipe pipe{OwnedFd(ends[0]), OwnedFd(ends[1])};
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return pipe;
}

Result<OwnedFd> MakeSealedFile(std::string_view bytes) {
  OwnedFd file(::memfd_create("buttress", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (file.get() < 0)
    return Unavailable(std::string("cannot make a file in memory: ") + std::strerror(errno));
  while (!bytes.empty()) {
    const ssize_t written = ::write(file.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0)
      return Unavailable(std::string("cannot write a file in memory: ") + std::strerror(errno));
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  ::lseek(file.get(), 0, SEEK_SET);
  if (::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) !=
      0)
    return Unavailable(std::string("cannot seal a file in memory: ") + std::strerror(errno));
  return file;
}

bool ReadSome(int fd, std::size_t limit, std::string& text) {
  constexpr std::size_t kPiece = 65536;
  char piece[kPiece];
  while (text.size() <= limit) {
    const ssize_t got = ::read(fd, piece, std::min(kPiece, limit + 1 - text.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno == EAGAIN;
    if (got == 0) return false;
    text.append(piece, static_cast<std::size_t>(got));
  }
  return false;
}

}  // namespace buttress
