// The liveness of the ranks of a job, apart from its collectives: a thread of each rank exchanges
// heartbeats with rank 0 over TCP. A collective that waits for a rank which writes a checkpoint can
// so wait on, and one that waits for a dead rank ends at once.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "lib/base/report/status.h"

namespace buttress {

class Collective;

struct LivenessOptions {
  std::chrono::milliseconds silence{60000};  // a rank that is not heard from for so long is gone
  std::chrono::milliseconds stuck{1800000};  // a collective ends after so long, whoever is alive
  std::chrono::milliseconds beat{500};       // between two heartbeats
  std::string interface;                     // network interface of rank 0; empty: any
};

class Liveness {
 public:
  virtual ~Liveness() = default;

  // Whether a call `what` that has waited for `waited` may wait on. kUnavailable if a rank is gone:
  // its connection was closed, or it was silent for options.silence; the message names it.
  // kDeadlineExceeded after options.stuck. Thread-safe; made for polling.
  virtual Status MayWait(std::string_view what, std::chrono::milliseconds waited) const = 0;

  // Says goodbye, so that this rank may end before the others. A rank that ends without it is gone
  // for the others.
  virtual void Leave() = 0;
};

// Starts the exchange of heartbeats. Every rank calls it and gets the same answer:
// kFailedPrecondition if a rank cannot connect to rank 0 within options.silence. Rank 0 listens on
// a port of its own choice, on loopback if all ranks are on one machine; a key that `control`
// broadcasts keeps strangers out.
Result<std::unique_ptr<Liveness>> StartLiveness(Collective& control,
                                                const LivenessOptions& options);

}  // namespace buttress
