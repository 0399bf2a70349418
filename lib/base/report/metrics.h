// The Prometheus metrics of a program: a registry, the standard process_* families, and an HTTP
// port that serves them at /metrics.
#pragma once

#include <prometheus/collectable.h>
#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/net/health.h"
#include "lib/base/report/status.h"
#include "lib/base/thread/sync.h"
#include "lib/base/web/metrics_server.h"

namespace buttress {

using MetricLabels = std::map<std::string, std::string>;

// Owns the registry and, after Serve, the HTTP port. Thread-safe.
class Metrics {
 public:
  // `component` is coordinator, worker or learner; it is a label of buttress_build_info.
  explicit Metrics(std::string_view component);
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // Serves /metrics and the probes on `address`, as in "127.0.0.1:9500"; port 0 picks a free port,
  // which port() returns. With `credentials`, the port speaks HTTPS and asks for the monitor's
  // token.
  // kUnavailable if the port is taken, which callers log and survive: metrics must not end a run.
  Status Serve(const std::string& address, const Credentials& credentials = {});

  // What the probes of the port answer.
  Health& health() { return health_; }

  // The bound port; 0 before Serve.
  int port() const;

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
  std::shared_ptr<prometheus::Registry> registry_;
  mutable Mutex mutex_;
  std::vector<std::shared_ptr<prometheus::Collectable>> collectables_ GUARDED_BY(mutex_);
  Health health_;
  std::unique_ptr<MetricsServer> server_;
};

}  // namespace buttress
