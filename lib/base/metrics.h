// Prometheus for every program: one registry, one HTTP port with /metrics, the standard process_*
// families.
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

#include "lib/base/metrics_server.h"
#include "lib/base/status.h"
#include "lib/base/sync.h"

namespace buttress {

using MetricLabels = std::map<std::string, std::string>;

// Owns the registry and, once Serve has been called, the HTTP port. Thread-safe.
class Metrics {
 public:
  // `component` is coordinator, worker or learner; it labels buttress_build_info.
  explicit Metrics(std::string_view component);
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // Serves /metrics on `address` ("127.0.0.1:9500"; port 0 picks a free one, read it from port()),
  // with `credentials` by HTTPS and for the token. kUnavailable if the port is taken: count it, log
  // it and go on, a run must not die for its metrics.
  Status Serve(const std::string& address, const Credentials& credentials = {});

  // Port in use, 0 before Serve.
  int port() const;

  // Series with fixed labels, made once at start and kept by reference; the same name and labels
  // give the same series.
  prometheus::Counter& Counter(std::string_view name, std::string_view help,
                               const MetricLabels& labels = {});
  prometheus::Gauge& Gauge(std::string_view name, std::string_view help,
                           const MetricLabels& labels = {});
  prometheus::Histogram& Histogram(std::string_view name, std::string_view help,
                                   const std::vector<double>& upper_bounds,
                                   const MetricLabels& labels = {});

  // Families that must come from one consistent snapshot; called at each scrape, on the scraping
  // thread.
  void Register(const std::shared_ptr<prometheus::Collectable>& collectable);

  // What a scrape would return, for tests.
  std::string Expose() const;

 private:
  std::shared_ptr<prometheus::Registry> registry_;
  mutable Mutex mutex_;
  std::vector<std::shared_ptr<prometheus::Collectable>> collectables_ GUARDED_BY(mutex_);
  std::unique_ptr<MetricsServer> server_;
};

}  // namespace buttress
