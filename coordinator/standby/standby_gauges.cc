#include "coordinator/standby/standby_gauges.h"

namespace buttress {

StandbyGauges::StandbyGauges(Metrics& m)
    : level(m.Gauge("buttress_coordinator_standby_level",
                    "1 while a standby's copy is whole and, in synchronous mode, confirms every "
                    "turn.")),
      lag_turns(m.Gauge("buttress_coordinator_standby_lag_turns",
                        "Turns that the standby has not confirmed.")),
      lag_bytes(m.Gauge("buttress_coordinator_standby_lag_bytes",
                        "Bytes that wait in memory to be sent to the standby.")),
      lag_seconds(m.Gauge("buttress_coordinator_standby_lag_seconds",
                          "Age of the oldest turn that the standby has not confirmed.")) {}

}  // namespace buttress
