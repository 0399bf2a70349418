// The Prometheus metrics of a program: a registry, the standard process_* families, and an HTTP
// port that serves them at /metrics, and the probes /livez and /readyz.
#pragma once

#include <prometheus/collectable.h>
#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/net/credentials.h"
#include "lib/base/os/clock.h"
#include "lib/base/report/status.h"
#include "lib/base/thread/sync.h"
#include "lib/base/web/web_port.h"

namespace buttress {

using MetricLabels = std::map<std::string, std::string>;

// The answers to the probes of a program. It is alive while its loop turns, and ready while it is
// alive and serves. A program without a loop is alive, and ready unless it says otherwise.
// Thread-safe.
class Health {
 public:
  // A turn of a loop that takes longer is one that hangs, on a disk that does not answer for
  // example.
  static constexpr std::int64_t kLongestTurnMs = 10000;

  explicit Health(const Clock& clock = RealClock()) : clock_(clock) {}

  // The loop turns: called at least every kLongestTurnMs from the first call on.
  void Beat() { beat_ms_ = clock_.MonotonicMs(); }

  void SetReady(bool ready) { ready_ = ready; }

  // Why the program is not alive, or not ready, in one line; empty if it is.
  std::string WhyNotAlive() const;
  std::string WhyNotReady() const;

 private:
  const Clock& clock_;
  std::atomic<std::int64_t> beat_ms_ = -1;  // -1: no loop
  std::atomic<bool> ready_ = true;
};

// Owns the registry and, after Serve, the HTTP port. Thread-safe.
class Metrics {
 public:
  // `component` is coordinator, worker or learner; it is a label of buttress_build_info.
  explicit Metrics(std::string_view component);
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // Serves /metrics and the probes on `address`, as in "127.0.0.1:9500"; port 0 picks a free port,
  // which port() returns. With `credentials` the port speaks HTTPS and /metrics asks for the
  // monitor's token. The probes do not, because a kubelet cannot send one: they answer "ok", or 503
  // and why not. kUnavailable if the port is taken or the certificate cannot be used, which callers
  // log and survive: metrics must not end a run.
  Status Serve(const std::string& address, const Credentials& credentials = {});

  // Serves the probes alone, in plain HTTP, on a port of their own: whoever holds the connections
  // of the other ports keeps no kubelet from its answer. Returns the bound port. kUnavailable if it
  // is taken.
  Result<int> ServeProbes(const std::string& address);

  // What the probes answer.
  Health& health() { return health_; }

  // The bound port; 0 before Serve.
  int port() const { return port_ ? port_->port() : 0; }

  // Return the series with this name and these labels, and create it on the first call. References
  // live as long as this object.
  prometheus::Counter& Counter(std::string_view name, std::string_view help,
                               const MetricLabels& labels = {});
  prometheus::Gauge& Gauge(std::string_view name, std::string_view help,
                           const MetricLabels& labels = {});
  prometheus::Histogram& Histogram(std::string_view name, std::string_view help,
                                   const std::vector<double>& upper_bounds,
                                   const MetricLabels& labels = {});

  // Adds a collectable, for families that must come from one consistent snapshot. Each scrape calls
  // it on the thread of the scrape.
  void Register(const std::shared_ptr<prometheus::Collectable>& collectable);

  // Returns the text of a scrape.
  std::string Expose() const;

 private:
  WebReply Answer(const WebRequest& request) const;
  WebReply AnswerProbe(std::string_view path) const;

  std::shared_ptr<prometheus::Registry> registry_;
  mutable Mutex mutex_;
  std::vector<std::shared_ptr<prometheus::Collectable>> collectables_ GUARDED_BY(mutex_);
  Health health_;
  Credentials credentials_;
  // The last, so that they end before what they answer with.
  std::unique_ptr<WebPort> probes_;
  std::unique_ptr<WebPort> port_;
};

}  // namespace buttress
