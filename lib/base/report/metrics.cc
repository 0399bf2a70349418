#include "lib/base/report/metrics.h"

#include <dirent.h>
#include <fmt/core.h>
#include <prometheus/text_serializer.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <optional>

#include "lib/base/report/log.h"

namespace buttress {
namespace {

prometheus::MetricFamily Single(const char* name, const char* help, prometheus::MetricType type,
                                double value) {
  prometheus::ClientMetric metric;
  metric.gauge.value = value;
  metric.counter.value = value;
  return {name, help, type, {metric}};
}

double OpenFileCount() {
  double count = 0;
  if (DIR* folder = ::opendir("/proc/self/fd")) {
    while (::readdir(folder) != nullptr) ++count;
    ::closedir(folder);
  }
  return count - 3;  // without ".", ".." and the descriptor of the folder
}

class ProcessCollector : public prometheus::Collectable {
 public:
  std::vector<prometheus::MetricFamily> Collect() const override {
    using enum prometheus::MetricType;
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& t) {
      return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
    };
    rlimit files{};
    ::getrlimit(RLIMIT_NOFILE, &files);
    double total_pages = 0, resident_pages = 0;
    std::ifstream("/proc/self/statm") >> total_pages >> resident_pages;
    std::vector<prometheus::MetricFamily> families = {
        Single("process_cpu_seconds_total", "User and system CPU time.", Counter,
               seconds(usage.ru_utime) + seconds(usage.ru_stime)),
        Single("process_resident_memory_bytes", "Resident memory.", Gauge,
               resident_pages * static_cast<double>(::sysconf(_SC_PAGESIZE))),
        Single("process_open_fds", "Open file descriptors.", Gauge, OpenFileCount()),
        Single("process_max_fds", "Limit of open file descriptors.", Gauge,
               static_cast<double>(files.rlim_cur)),
        Single("process_start_time_seconds", "Start of the process, Unix time.", Gauge,
               start_seconds_)};
    prometheus::MetricFamily events{
        "buttress_log_events_total", "Log lines by level.", Counter, {}};
    for (const auto& [level, name] :
         {std::pair{kInfo, "info"}, std::pair{kWarn, "warn"}, std::pair{kError, "error"}}) {
      prometheus::ClientMetric metric;
      metric.label = {{"level", name}};
      metric.counter.value = static_cast<double>(LogCount(level));
      events.metric.push_back(metric);
    }
    families.push_back(events);
    return families;
  }

 private:
  double start_seconds_ = static_cast<double>(RealClock().UnixMs()) / 1000;
};

constexpr unsigned kOk = 200, kUnauthorized = 401, kForbidden = 403, kNotFound = 404,
                   kNotReady = 503;

WebReply Reply(unsigned code, std::string text) {
  WebReply reply = {code, "text/plain; version=0.0.4; charset=utf-8", std::move(text)};
  if (code == kUnauthorized) reply.headers = {{"WWW-Authenticate", "Bearer"}};
  return reply;
}

WebReply ReplyToProbe(const std::string& why_not) {
  return why_not.empty() ? Reply(kOk, "ok\n") : Reply(kNotReady, why_not + "\n");
}

}  // namespace

std::string Health::WhyNotAlive() const {
  const std::int64_t beat_ms = beat_ms_;
  const std::int64_t silent_ms = beat_ms < 0 ? 0 : clock_.MonotonicMs() - beat_ms;
  if (silent_ms <= kLongestTurnMs) return "";
  return fmt::format("the loop has not turned for {} s; it waits for a disk or hangs",
                     silent_ms / 1000);
}

std::string Health::WhyNotReady() const {
  const std::string dead = WhyNotAlive();
  return !dead.empty() || ready_ ? dead : "calls are not served";
}

Metrics::Metrics(std::string_view component) : registry_(std::make_shared<prometheus::Registry>()) {
  collectables_ = {registry_, std::make_shared<ProcessCollector>()};
  Gauge("buttress_build_info", "Component and version of the program; always 1.",
        {{"component", std::string(component)}, {"version", BUTTRESS_VERSION}})
      .Set(1);
}

Status Metrics::Serve(const std::string& address, const Credentials& credentials) {
  credentials_ = credentials;
  BUTTRESS_ASSIGN_OR_RETURN(
      port_, WebPort::Start(address, credentials_, "/metrics",
                            [this](const WebRequest& request) { return Answer(request); }));
  return OkStatus();
}

Result<int> Metrics::ServeProbes(const std::string& address) {
  BUTTRESS_ASSIGN_OR_RETURN(
      probes_, WebPort::Start(address, {}, "/livez and /readyz", [this](const WebRequest& request) {
        return AnswerProbe(request.path());
      }));
  return probes_->port();
}

WebReply Metrics::AnswerProbe(std::string_view path) const {
  if (path == "/livez") return ReplyToProbe(health_.WhyNotAlive());
  if (path == "/readyz") return ReplyToProbe(health_.WhyNotReady());
  return Reply(kNotFound,
               "not found; expected /livez or /readyz, or /metrics on the port of "
               "local.*.metrics\n");
}

WebReply Metrics::Answer(const WebRequest& request) const {
  if (request.path() != "/metrics") return AnswerProbe(request.path());
  if (credentials_.empty()) return Reply(kOk, Expose());
  const std::optional<Role> role = credentials_.RoleOf(request.Header("Authorization"));
  if (!role) {
    return Reply(kUnauthorized,
                 "the token is missing or of another run; send that of monitor.token\n");
  }
  if (role != Role::kMonitor) {
    return Reply(kForbidden, fmt::format("/metrics needs the token of the monitor, not that of "
                                         "the {}; send that of monitor.token\n",
                                         RoleName(*role)));
  }
  return Reply(kOk, Expose());
}

prometheus::Counter& Metrics::Counter(std::string_view name, std::string_view help,
                                      const MetricLabels& labels) {
  return prometheus::BuildCounter()
      .Name(std::string(name))
      .Help(std::string(help))
      .Register(*registry_)
      .Add(labels);
}

prometheus::Gauge& Metrics::Gauge(std::string_view name, std::string_view help,
                                  const MetricLabels& labels) {
  return prometheus::BuildGauge()
      .Name(std::string(name))
      .Help(std::string(help))
      .Register(*registry_)
      .Add(labels);
}

prometheus::Histogram& Metrics::Histogram(std::string_view name, std::string_view help,
                                          const std::vector<double>& upper_bounds,
                                          const MetricLabels& labels) {
  return prometheus::BuildHistogram()
      .Name(std::string(name))
      .Help(std::string(help))
      .Register(*registry_)
      .Add(labels, upper_bounds);
}

void Metrics::Register(const std::shared_ptr<prometheus::Collectable>& collectable) {
  MutexLock lock(mutex_);
  collectables_.push_back(collectable);
}

std::string Metrics::Expose() const {
  std::vector<std::shared_ptr<prometheus::Collectable>> collectables;
  {
    MutexLock lock(mutex_);
    collectables = collectables_;
  }
  std::vector<prometheus::MetricFamily> families;
  for (const auto& collectable : collectables) {
    for (auto& family : collectable->Collect()) families.push_back(std::move(family));
  }
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace buttress
