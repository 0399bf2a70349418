// The metrics of a standby, which a coordinator without one does not have.
#pragma once

#include "lib/base/report/metrics.h"

namespace buttress {

struct StandbyGauges {
  explicit StandbyGauges(Metrics& metrics);

  prometheus::Gauge& level;
  prometheus::Gauge& lag_turns;
  prometheus::Gauge& lag_bytes;
  prometheus::Gauge& lag_seconds;
};

}  // namespace buttress
