#include "lib/verify/remote/python_process.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>
#include <vector>

#include "lib/base/os/clock.h"
#include "lib/base/text/bounded_json.h"
#include "lib/verify/remote/python_program.h"

namespace buttress {
namespace {

constexpr std::size_t kMaxReplyBytes = kMaxReferenceBytes;
// How long the kernel may take to end killed processes.
constexpr std::chrono::milliseconds kEndingTime(5000);

std::vector<std::string> OwnEnvironment() {
  std::vector<std::string> environment;
  for (char** variable = environ; *variable != nullptr; ++variable)
    environment.emplace_back(*variable);
  return environment;
}

Status NoGreeting(const std::string& line) {
  return Internal("the Python process does not greet: " + line.substr(0, 200));
}

// The third argument of the program (python_program.h).
std::string Options(const PythonFunction& function) {
  nlohmann::json arguments = nlohmann::json::object();
  for (const auto& [name, text] : function.arguments) {
    const Result<nlohmann::json> value = ParseBoundedJson(text);
    arguments[name] = value.ok() ? *value : nlohmann::json(text);
  }
  return nlohmann::json{{"chat", ChoiceName(function.chat)}, {"arguments", std::move(arguments)}}
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

Result<std::unique_ptr<PythonProcess>> PythonProcess::Start(const PythonFunction& function,
                                                            std::int64_t timeout_ms) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return Unavailable(std::string("socketpair: ") + std::strerror(errno));
  OwnedFd ours(ends[0]);
  OwnedFd theirs(ends[1]);
  SpawnRequest request;
  request.argv = {
      "/usr/bin/env", function.interpreter, "-c", std::string(kPythonWorker), function.file,
      function.name,  Options(function)};
  request.environment = OwnEnvironment();
  request.fds = {theirs.get(), theirs.get(), STDERR_FILENO};
  BUTTRESS_ASSIGN_OR_RETURN(const pid_t pid, Spawn(request));
  theirs.Close();  // Receive sees the end of the process only if no other copy stays open.
  std::unique_ptr<PythonProcess> process(new PythonProcess(pid, std::move(ours)));
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  const std::string what = function.file + ":" + function.name;
  const Result<std::string> greeting = process->Receive(RealClock().MonotonicMs() + timeout_ms);
  if (!greeting.ok()) return greeting.status().Annotate(what + " with " + function.interpreter);
  BUTTRESS_RETURN_IF_ERROR(process->ReadGreeting(*greeting).Annotate(what));
  return process;
}

PythonProcess::~PythonProcess() { EndAndReap(pid_, kEndingTime); }

Result<std::string> PythonProcess::Call(std::string_view line, std::int64_t timeout_ms) {
  const std::int64_t deadline_ms = RealClock().MonotonicMs() + timeout_ms;
  BUTTRESS_RETURN_IF_ERROR(Send(std::string(line) + "\n", deadline_ms));
  return Receive(deadline_ms);
}

std::int64_t PythonProcess::ResidentBytes() const {
  std::ifstream file("/proc/" + std::to_string(scoring_) + "/statm");
  std::int64_t pages = 0;
  std::int64_t resident_pages = 0;
  if (!(file >> pages >> resident_pages)) return 0;
  return resident_pages * ::sysconf(_SC_PAGESIZE);
}

Status PythonProcess::ReadGreeting(const std::string& line) {
  const Result<nlohmann::json> greeting = ParseBoundedJson(line);
  if (!greeting.ok() || !greeting->is_object()) return NoGreeting(line);
  if (greeting->contains("error") && (*greeting)["error"].is_string())
    return InvalidArgument((*greeting)["error"].get<std::string>());
  if (!greeting->contains("ready") || !(*greeting)["pid"].is_number_integer())
    return NoGreeting(line);
  scoring_ = (*greeting)["pid"].get<pid_t>();
  wants_token_ids_ = greeting->contains("token_ids") && (*greeting)["token_ids"] == true;
  return OkStatus();
}

Status PythonProcess::Send(std::string_view bytes, std::int64_t deadline_ms) {
  while (!bytes.empty()) {
    BUTTRESS_RETURN_IF_ERROR(Wait(POLLOUT, deadline_ms));
    const ssize_t sent =
        ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (sent < 0)
      return Unavailable(std::string("the Python process has ended: ") + std::strerror(errno));
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return OkStatus();
}

Result<std::string> PythonProcess::Receive(std::int64_t deadline_ms) {
  while (true) {
    const std::size_t end = received_.find('\n');
    if (end != std::string::npos) {
      std::string line = received_.substr(0, end);
      received_.erase(0, end + 1);
      return line;
    }
    BUTTRESS_RETURN_IF_ERROR(Wait(POLLIN, deadline_ms));
    if (ReadSome(socket_.get(), kMaxReplyBytes, received_)) continue;
    if (received_.size() > kMaxReplyBytes)
      return ResourceExhausted(
          fmt::format("the Python function answers with more than {} bytes", kMaxReplyBytes));
    if (received_.find('\n') == std::string::npos)
      return Unavailable("the Python process has ended");
  }
}

Status PythonProcess::Wait(short events, std::int64_t deadline_ms) const {
  while (true) {
    const std::int64_t left_ms = deadline_ms - RealClock().MonotonicMs();
    if (left_ms <= 0) return DeadlineExceeded("timeout");
    pollfd entry{socket_.get(), events, 0};
    const int ready = ::poll(&entry, 1, static_cast<int>(std::min<std::int64_t>(left_ms, 1000)));
    if (ready > 0) return OkStatus();
    if (ready < 0 && errno != EINTR)
      return Unavailable(std::string("poll: ") + std::strerror(errno));
  }
}

}  // namespace buttress
