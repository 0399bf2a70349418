#include "cli/train/waiting.h"

#include <fmt/core.h>

#include <chrono>
#include <cstdlib>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/os/clock.h"
#include "lib/base/os/shutdown.h"
#include "lib/http/http_client.h"

namespace buttress {
namespace {

constexpr std::int64_t kScrapeMs = 1000;
constexpr std::chrono::milliseconds kTick(100);
// A coordinator serves within this time of its start.
constexpr std::int64_t kStartMs = 60000;

// Whether workers hold leases and none of their engines has a completion. False where that cannot
// be told, as behind TLS.
bool OnlyScoring(const v1::GetRunStatusResponse& run, const Credentials& credentials) {
  if (!credentials.empty()) return false;
  std::vector<HttpRequest> requests;
  for (const v1::WorkerStatus& worker : run.workers()) {
    if (worker.leases() == 0 || worker.metrics_address().empty()) continue;
    HttpRequest& request = requests.emplace_back();
    request.url = "http://" + worker.metrics_address() + "/metrics";
    request.deadlines = {kScrapeMs, kScrapeMs, kScrapeMs, kScrapeMs};
  }
  if (requests.empty()) return false;
  for (const Result<HttpReply>& reply : HttpClient().Fetch(std::move(requests))) {
    constexpr std::string_view kSeries = "\nbuttress_worker_requests_in_flight ";
    if (!reply.ok()) return false;
    const std::size_t at = reply->body.find(kSeries);
    if (at == std::string::npos || std::atof(reply->body.c_str() + at + kSeries.size()) > 0)
      return false;
  }
  return true;
}

RunView Look(const CoordinatorClientOptions& options) {
  RunView view;
  auto run = CoordinatorClient(options).GetRunStatus();
  if (!run.ok()) return view;
  view.answered = true;
  view.run = *std::move(run);
  view.scoring = OnlyScoring(view.run, options.credentials);
  return view;
}

std::uint64_t CountOf(const v1::GetRunStatusResponse& run, const std::string& state) {
  const auto found = run.groups().find(state);
  return found == run.groups().end() ? 0 : found->second;
}

}  // namespace

std::string WaitingFor(const RunView& view, std::int64_t prompts) {
  const v1::GetRunStatusResponse& run = view.run;
  const std::uint64_t next = run.step() + 1;
  if (!view.answered) return "the coordinator, which does not answer";
  if (!run.paused().empty()) return run.paused();
  if (run.learner_epoch() == 0) return "the learner to load the model and register";
  if (run.step() == run.total_steps()) return "the learner to write the last checkpoint and model";
  if (CountOf(run, "batched") > 0) return fmt::format("the learner, which trains step {}", next);
  if (run.workers().empty()) return "a rollout worker to load the model and register";
  const std::uint64_t leased = CountOf(run, "leased");
  const char* what = view.scoring  ? "with run.reward.verifier"
                     : leased == 0 ? "leased; workers wait for weights or places"
                                   : "sampled or scored";
  return fmt::format("groups of step {}: {} of {} are ready, {} are {}", next,
                     CountOf(run, "ready"), prompts, leased == 0 ? CountOf(run, "pending") : leased,
                     leased == 0 ? "not " + std::string(what) : what);
}

WaitingWatch::WaitingWatch(const RunConfig& config, Credentials credentials)
    : config_(config), credentials_(std::move(credentials)) {}

void WaitingWatch::Ask() {
  if (open_.valid()) return;
  CoordinatorClientOptions options = CoordinatorClientOptionsFrom(config_.local, credentials_);
  options.give_up_after_ms = 1;  // one attempt
  open_ = std::async(std::launch::async, [options] { return Look(options); });
}

std::string WaitingWatch::Text() {
  RunView view;
  if (open_.valid() && open_.wait_for(std::chrono::seconds(0)) == std::future_status::ready)
    view = open_.get();
  return WaitingFor(view, config_.run.batch.prompts);
}

Result<v1::GetRunStatusResponse> AskHowItEnded(CoordinatorClient& client, Supervisor& supervisor,
                                               const std::function<void()>& waiting) {
  int restarts = -1;
  std::int64_t give_up_ms = 0;
  while (true) {
    auto answer = client.GetRunStatus();
    if (answer.ok()) return answer;
    const bool down = answer.status().code() == StatusCode::kUnavailable ||
                      answer.status().code() == StatusCode::kDeadlineExceeded;
    if (!down) return answer.status().Annotate("asking how the run ended");
    if (WaitForShutdown(kTick)) return Cancelled("interrupted");
    BUTTRESS_RETURN_IF_ERROR(supervisor.Tick());
    const std::int64_t now_ms = RealClock().MonotonicMs();
    if (std::exchange(restarts, supervisor.restarts()) != supervisor.restarts())
      give_up_ms = now_ms + kStartMs;
    if (now_ms > give_up_ms) return answer.status().Annotate("asking how the run ended");
    waiting();
  }
}

}  // namespace buttress
