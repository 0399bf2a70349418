// Agents: a program for each episode (run.env.kind: exec), or a service (http).
#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/os/fd.h"
#include "lib/base/os/program_path.h"
#include "lib/base/text/bounded_json.h"
#include "lib/base/text/reward_bounds.h"
#include "lib/base/text/unicode.h"
#include "lib/http/http_client.h"
#include "lib/verify/extract.h"
#include "lib/verify/process/group_guard.h"
#include "lib/verify/process/spawn.h"
#include "rollout_worker/episodes/agent_gateway.h"
#include "rollout_worker/episodes/runner.h"

namespace buttress {
namespace {

using nlohmann::ordered_json;

constexpr int kLookMs = 50;  // between two looks at whether the episode is over
constexpr std::size_t kMaxTaskBytes = 100 << 10;
constexpr std::size_t kStderrBytes = 4096;  // kept of the end
constexpr std::size_t kMaxReplyBytes = 1 << 20;

ordered_json TaskJson(const EpisodeTask& task) {
  ordered_json row = NestedDeeper(task.row_json)
                         ? ordered_json()
                         : ordered_json::parse(task.row_json, nullptr, false);
  if (!row.is_object()) row = ordered_json::object();
  return {{"prompt_id", task.prompt_id},
          {"source", task.source},
          {"prompt", row.value("prompt", ordered_json())},
          {"answer", task.answer},
          {"row", std::move(row)}};
}

std::string DumpJson(const ordered_json& json) {
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

std::vector<std::string> EnvironmentOf(const std::string& url, const std::string& key,
                                       const std::string& task) {
  const std::string model = kAgentModel;
  // The last two are where programs and frameworks look for the name of the model.
  std::vector<std::string> environment = {"OPENAI_BASE_URL=" + url, "OPENAI_API_KEY=" + key,
                                          "BUTTRESS_TASK=" + task, "OPENAI_MODEL=" + model,
                                          "OPENAI_DEFAULT_MODEL=" + model};
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (!text.starts_with("OPENAI_") && !text.starts_with("BUTTRESS_TASK="))
      environment.emplace_back(text);
  }
  return environment;
}

// Keeps the end of what a pipe brings.
void ReadEnd(int fd, std::string& text) {
  std::string piece;
  ReadSome(fd, 1 << 16, piece);
  text += piece;
  if (text.size() > kStderrBytes) text.erase(0, text.size() - kStderrBytes);
}

std::string LastLine(const std::string& text) {
  const std::string_view end = Trim(text);
  return ReplaceInvalidUtf8(FirstBytes(end.substr(end.rfind('\n') + 1), kMaxReasonBytes / 2));
}

// Returns how the process ended; nothing while it runs.
std::optional<siginfo_t> EndOf(pid_t pid) {
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0) return info;
  return info.si_pid == 0 ? std::nullopt : std::optional(info);
}

Status StatusOfEnd(const siginfo_t& info, const std::string& said) {
  if (info.si_code == CLD_EXITED && info.si_status == 0) return OkStatus();
  const std::string how = info.si_code == CLD_EXITED
                              ? fmt::format("exited with status {}", info.si_status)
                              : fmt::format("was ended by signal {}", info.si_status);
  return Unavailable("the agent " + how + (said.empty() ? "" : ": " + LastLine(said)));
}

class AgentRunner : public EpisodeRunner {
 public:
  AgentRunner(const EnvConfig& env, std::unique_ptr<AgentGateway> gateway,
              std::unique_ptr<GroupGuard> guard)
      : env_(env), gateway_(std::move(gateway)), guard_(std::move(guard)) {}

  void Run(LiveEpisode& episode) override {
    const std::string key = gateway_->Open(episode.shared_from_this());
    const Status status =
        env_.kind == EnvKind::kExec ? RunProgram(episode, key) : CallService(episode, key);
    gateway_->Close(key);
    if (!status.ok()) {
      episode.End(EpisodeEnd::kFailed, status.message());
    } else {
      episode.EndWithoutAnswer();
    }
  }

 private:
  Status RunProgram(LiveEpisode& episode, const std::string& key) const {
    const std::string task = DumpJson(TaskJson(*episode.request().task));
    if (task.size() > kMaxTaskBytes)
      return InvalidArgument(
          fmt::format("the task has {} bytes, and the environment of a program has room for {}; "
                      "use run.env.kind: http",
                      task.size(), kMaxTaskBytes));
    SpawnRequest request;
    request.argv = env_.command;
    BUTTRESS_ASSIGN_OR_RETURN(request.argv[0], AgentProgram(env_));
    request.environment = EnvironmentOf(gateway_->UrlOf(key), key, task);
    const OwnedFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    BUTTRESS_ASSIGN_OR_RETURN(Pipe errors, MakePipe());
    request.fds = {null.get(), null.get(), errors.write.get()};
    BUTTRESS_ASSIGN_OR_RETURN(const pid_t pid, Spawn(request));
    guard_->Watch(pid);
    errors.write = OwnedFd();
    const OwnedFd handle(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    std::string said;
    std::optional<siginfo_t> end = EndOf(pid);
    bool open = true;
    while (!end && !episode.over() && episode.LeftMs() > 0) {
      pollfd waits[] = {{handle.get(), POLLIN, 0}, {open ? errors.read.get() : -1, POLLIN, 0}};
      ::poll(waits, 2, kLookMs);
      if (waits[1].revents != 0) {
        ReadEnd(errors.read.get(), said);
        open = (waits[1].revents & POLLIN) != 0;
      }
      end = EndOf(pid);
    }
    ReadEnd(errors.read.get(), said);
    guard_->Unwatch(pid);
    KillAndReap(pid);  // and what it has started
    return end ? StatusOfEnd(*end, said) : OkStatus();
  }

  Status CallService(LiveEpisode& episode, const std::string& key) const {
    HttpRequest request;
    request.url = env_.url;
    request.json = DumpJson({{"base_url", gateway_->UrlOf(key)},
                             {"api_key", key},
                             {"model", kAgentModel},
                             {"task", TaskJson(*episode.request().task)}});
    const std::int64_t left_ms = std::max<std::int64_t>(1, episode.LeftMs());
    request.deadlines = {
        .connect_ms = left_ms, .first_byte_ms = left_ms, .idle_ms = left_ms, .whole_ms = left_ms};
    request.max_body_bytes = kMaxReplyBytes;
    std::optional<Result<HttpReply>> reply;
    HttpClient client;
    client.Start(std::move(request), nullptr,
                 [&](Result<HttpReply> got) { reply = std::move(got); });
    while (!reply && !episode.over() && episode.LeftMs() > 0) client.Step(kLookMs);
    if (!reply || episode.LeftMs() == 0) return OkStatus();
    if (!reply->ok()) return reply->status().Annotate("run.env.url");
    return TakeReply(**reply, episode);
  }

  static Status TakeReply(const HttpReply& reply, LiveEpisode& episode) {
    const auto shown = [&] {
      return ReplaceInvalidUtf8(FirstBytes(Trim(reply.body), kShownBytes));
    };
    if (reply.status != 200)
      return Unavailable(fmt::format("the agent answered {}: {}", reply.status, shown()));
    const auto body =
        NestedDeeper(reply.body) ? ordered_json() : ordered_json::parse(reply.body, nullptr, false);
    if (!body.is_object())
      return InvalidArgument("the agent answered " + shown() + "; expected a JSON object");
    const auto reward = body.find("reward");
    if (reward == body.end() || reward->is_null() || episode.answers() == 0) return OkStatus();
    if (!reward->is_number() || !IsReward(reward->get<double>()))
      return InvalidArgument("the agent answered " + shown() +
                             "; expected a reward between -1e6 and 1e6");
    return episode.Reward(reward->get<double>(), {});
  }

  const EnvConfig env_;
  const std::unique_ptr<AgentGateway> gateway_;
  const std::unique_ptr<GroupGuard> guard_;  // of programs; null for a service
};

}  // namespace

Result<std::string> AgentProgram(const EnvConfig& env) {
  std::string program = FindProgram(env.command[0]);
  if (!program.empty()) return program;
  return InvalidArgument("run.env.command: '" + env.command[0] +
                         "' is not a program on this machine; name its path, or one on PATH");
}

Result<std::unique_ptr<EpisodeRunner>> MakeAgentRunner(const EnvConfig& env,
                                                       const EpisodesConfig& config,
                                                       const Tokenizer& tokenizer) {
  std::unique_ptr<GroupGuard> guard;
  if (env.kind == EnvKind::kExec) {
    BUTTRESS_RETURN_IF_ERROR(AgentProgram(env).status());
    BUTTRESS_ASSIGN_OR_RETURN(guard, GroupGuard::Start());
  }
  BUTTRESS_ASSIGN_OR_RETURN(std::unique_ptr<AgentGateway> gateway,
                            AgentGateway::Start(config, tokenizer));
  return std::unique_ptr<EpisodeRunner>(
      std::make_unique<AgentRunner>(env, std::move(gateway), std::move(guard)));
}

}  // namespace buttress
