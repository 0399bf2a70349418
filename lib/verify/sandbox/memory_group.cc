#include "lib/verify/sandbox/memory_group.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <thread>

#include "lib/base/os/fd.h"
#include "lib/verify/process/spawn.h"

namespace buttress {
namespace {

namespace fs = std::filesystem;

constexpr char kVariable[] = "BUTTRESS_CGROUP";
constexpr char kShell[] = "/bin/sh";
// Groups are named buttress-sandbox-PID-NUMBER; PID is the process that made them.
constexpr std::string_view kPrefix = "buttress-sandbox-";
constexpr char kLeaf[] = "/buttress";
// bubblewrap outside of the namespace, and what becomes it.
constexpr std::int64_t kProcessesOutside = 4;
// Processes that start meanwhile are moved by the next try.
constexpr int kMoveTries = 5;
constexpr int kRemoveTries = 500;
constexpr std::chrono::milliseconds kRemoveWait(2);
constexpr std::int64_t kTrialBytes = 64 << 20;

std::string TextOf(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Sets a file of a group, by one write. errno tells why it returns false.
bool Put(const std::string& path, const std::string& value) {
  const OwnedFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, S_IRWXU));
  return file.get() >= 0 &&
         ::write(file.get(), value.data(), value.size()) == static_cast<ssize_t>(value.size());
}

bool HasWord(const std::string& text, const std::string& word) {
  std::istringstream words(text);
  for (std::string each; words >> each;) {
    if (each == word) return true;
  }
  return false;
}

// The number behind `name` in lines of "name number"; 0 if there is none.
std::int64_t NumberOf(const std::string& text, const std::string& name) {
  std::istringstream words(text);
  std::int64_t number = 0;
  for (std::string each; words >> each;) {
    if (each == name && words >> number) return number;
  }
  return 0;
}

// Returns the folder of this process's group in cgroup v2 as this process sees it; empty if there
// is none. A line of mountinfo is "id parent device root folder options [fields] - type ...".
std::string OwnFolder(const GroupFiles& files) {
  std::string path;
  std::istringstream own(TextOf(files.own));
  for (std::string line; std::getline(own, line);) {
    if (line.starts_with("0::")) path = line.substr(3);
  }
  std::istringstream mounts(TextOf(files.mounts));
  for (std::string line; !path.empty() && std::getline(mounts, line);) {
    if (line.find(" - cgroup2 ") == std::string::npos) continue;
    std::istringstream fields(line);
    std::string skipped;
    std::string root;
    std::string folder;
    fields >> skipped >> skipped >> skipped >> root >> folder;
    if (root == "/") return path == "/" ? folder : folder + path;
    if (path == root) return folder;
    if (path.starts_with(root + "/")) return folder + path.substr(root.size());
  }
  return "";
}

bool IsDelegated(const std::string& folder) {
  for (const char* name : {"user.delegate", "trusted.delegate"}) {
    char value = 0;
    if (::getxattr(folder.c_str(), name, &value, 1) == 1 && value == '1') return true;
  }
  return false;
}

Result<GroupParent> Delegated(const GroupFiles& files) {
  const std::string own = OwnFolder(files);
  if (own.empty()) return FailedPrecondition("this process is in no group of a mounted cgroup v2");
  for (const std::string& folder : {own, fs::path(own).parent_path().string()}) {
    if (IsDelegated(folder)) return GroupParent{folder};
  }
  return FailedPrecondition(fmt::format("{} is not delegated to this program", own));
}

void MoveToLeaf(const std::string& folder) {
  std::error_code error;
  fs::create_directory(folder + kLeaf, error);
  std::istringstream processes(TextOf(folder + "/cgroup.procs"));
  for (std::string process; processes >> process;) Put(folder + kLeaf + "/cgroup.procs", process);
}

Status HandOn(const std::string& folder) {
  if (!HasWord(TextOf(folder + "/cgroup.controllers"), "memory"))
    return FailedPrecondition(folder + " has no memory controller");
  const std::string control = folder + "/cgroup.subtree_control";
  bool handed = Put(control, "+memory");
  for (int i = 0; i < kMoveTries && !handed && errno == EBUSY; ++i) {
    MoveToLeaf(folder);
    handed = Put(control, "+memory");
  }
  if (!handed)
    return FailedPrecondition(
        fmt::format("{} cannot be divided: {}", control, std::strerror(errno)));
  if (HasWord(TextOf(folder + "/cgroup.controllers"), "pids")) Put(control, "+pids");
  return OkStatus();
}

void RemoveLeftovers(const std::string& parent) {
  std::error_code error;
  for (fs::directory_iterator at(parent, error); !error && at != fs::directory_iterator();
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (!name.starts_with(kPrefix)) continue;
    const pid_t maker = std::atoi(name.c_str() + kPrefix.size());
    // This process has made none before it prepares the parent.
    if (maker == ::getpid() || (::kill(maker, 0) != 0 && errno == ESRCH))
      ::rmdir(at->path().c_str());
  }
}

Status Try(const GroupParent& parent) {
  BUTTRESS_ASSIGN_OR_RETURN(const auto group, MemoryGroup::Make(parent, kTrialBytes, 1));
  const OwnedFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  SpawnRequest request{group->Enter(), {}, {null.get(), null.get(), null.get()}};
  request.argv.push_back("/bin/true");
  BUTTRESS_ASSIGN_OR_RETURN(const pid_t pid, Spawn(request));
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (status == 0) return OkStatus();
  return FailedPrecondition("this program may not move processes to a group in " + parent.folder);
}

Result<GroupParent> OpenGroupParent() {
  const char* named = std::getenv(kVariable);
  BUTTRESS_ASSIGN_OR_RETURN(GroupParent parent, FindGroupParent(named == nullptr ? "" : named));
  BUTTRESS_RETURN_IF_ERROR(PrepareGroupParent(parent));
  BUTTRESS_RETURN_IF_ERROR(Try(parent));
  return parent;
}

}  // namespace

Result<GroupParent> FindGroupParent(const std::string& named, const GroupFiles& files) {
  GroupParent parent{named};
  if (named.empty()) {
    BUTTRESS_ASSIGN_OR_RETURN(parent, Delegated(files));
  } else if (::access((named + "/cgroup.controllers").c_str(), F_OK) != 0) {
    parent.is_v1 = ::access((named + "/memory.limit_in_bytes").c_str(), F_OK) == 0;
    if (!parent.is_v1) {
      return FailedPrecondition(
          fmt::format("{} names {}, which is no group of cgroup v2 or of v1's memory controller",
                      kVariable, named));
    }
  }
  if (::access(parent.folder.c_str(), W_OK | X_OK) != 0)
    return FailedPrecondition(
        fmt::format("{} cannot be written: {}", parent.folder, std::strerror(errno)));
  return parent;
}

Status PrepareGroupParent(const GroupParent& parent) {
  if (!parent.is_v1) BUTTRESS_RETURN_IF_ERROR(HandOn(parent.folder));
  RemoveLeftovers(parent.folder);
  return OkStatus();
}

Result<std::unique_ptr<MemoryGroup>> MemoryGroup::Make(const GroupParent& parent,
                                                       std::int64_t memory_bytes,
                                                       std::int64_t processes) {
  static std::atomic<std::int64_t> made = 0;
  const std::string folder = fmt::format("{}/{}{}-{}", parent.folder, kPrefix, ::getpid(), made++);
  if (::mkdir(folder.c_str(), S_IRWXU) != 0)
    return Unavailable(fmt::format("cannot make the group {}: {}", folder, std::strerror(errno)));
  std::unique_ptr<MemoryGroup> group(new MemoryGroup(folder, parent.is_v1));
  const std::string bytes = std::to_string(memory_bytes);
  const auto bound = [&](const char* file, const std::string& value) {
    const std::string path = folder + "/" + file;
    return ::access(path.c_str(), F_OK) != 0 || Put(path, value);  // what the kernel offers
  };
  const bool bounded = parent.is_v1
                           ? Put(folder + "/memory.limit_in_bytes", bytes) &&
                                 bound("memory.memsw.limit_in_bytes", bytes)
                           : Put(folder + "/memory.max", bytes) && bound("memory.swap.max", "0") &&
                                 bound("memory.oom.group", "1") &&
                                 bound("pids.max", std::to_string(processes + kProcessesOutside));
  if (!bounded) return Unavailable("cannot bound the memory of the group " + folder);
  return group;
}

MemoryGroup::~MemoryGroup() {
  // Processes that were killed a moment ago still count.
  for (int i = 0; i < kRemoveTries && ::rmdir(folder_.c_str()) != 0 && errno == EBUSY; ++i)
    std::this_thread::sleep_for(kRemoveWait);
}

std::vector<std::string> MemoryGroup::Enter() const {
  return {kShell, "-c", R"(echo 0 > "$0" && exec "$@")", folder_ + "/cgroup.procs"};
}

bool MemoryGroup::OutOfMemory() const {
  return NumberOf(TextOf(folder_ + (is_v1_ ? "/memory.oom_control" : "/memory.events")),
                  "oom_kill") > 0;
}

const Result<GroupParent>& GroupParentOfProcess() {
  static const Result<GroupParent> parent = OpenGroupParent();
  return parent;
}

std::string MemoryBoundText() {
  const Result<GroupParent>& parent = GroupParentOfProcess();
  if (parent.ok()) {
    return fmt::format("the kernel bounds the memory of each sandbox, by a group in {} (cgroup {})",
                       parent->folder, parent->is_v1 ? "v1" : "v2");
  }
  return fmt::format(
      "the memory of sandboxes is measured every 10 ms, since no cgroup bounds it: {}; for one, "
      "start the program by `systemd-run --user --scope -p Delegate=yes`, or name a group that may "
      "be divided in {}",
      parent.status().message(), kVariable);
}

}  // namespace buttress
