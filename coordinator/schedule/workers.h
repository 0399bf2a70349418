// The workers of the run: who is registered, which orders stand, and which of them is set aside.
//
// Strikes. Every end of a lease that is no delivery is a strike against its worker, except where
// the worker drains or the learner went back. What happens to a worker at once is one strike: a
// lease counts no further one if it was granted before the last, and none counts before another
// worker has delivered since the last, so that an outage which stops everybody accuses nobody. A
// delivery forgives all. A worker with kStrikes is set aside by an order (cordon) that names the
// groups, unless no other worker is left; it lasts until an operator takes it back.
//
// Secrets. A worker chooses a secret and names it in every call, so that no other worker speaks for
// it and it may repeat a registration whose answer was lost. Who names the secret of an id replaces
// the process under it at once, as a worker does that `launch` restarts; who does not waits until
// the other one has been silent for a lease time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "coordinator/schedule/scheduler_types.h"
#include "lib/base/report/status.h"
#include "lib/ledger/rows.h"

namespace buttress {

// Times are milliseconds of the scheduler's clock. Not thread-safe. A restart of the coordinator
// forgets everything but the orders.
class Workers {
 public:
  static constexpr int kStrikes = 3;
  static constexpr std::size_t kMaxRelays = 4;

  Workers(std::int64_t lease_ms, const LedgerSnapshot& snapshot);

  // Returns the registered workers by id.
  const std::map<std::string, WorkerInfo>& known() const { return known_; }

  // Checks that a call comes from a process that is registered. kNotFound if it is not, and must
  // register (again); kPermissionDenied if the call names another secret.
  Status CheckCaller(const std::string& worker_id, std::uint64_t incarnation,
                     const std::string& secret_sha256) const;

  // Records a start of the coordinator, with which workers may have registered.
  void NoteStart(const std::string& start_id, std::uint64_t coordinator_epoch) {
    starts_[start_id] = coordinator_epoch;
  }

  // Checks whether a process may join the run of `run_id`. kAborted if it has registered in another
  // run or with a newer ledger: it drops what it holds and starts anew. kFailedPrecondition if a
  // newer process has registered under its id, kUnavailable while a process with another secret
  // works under it; kResourceExhausted if kMaxWorkers are known.
  Status Check(const JoiningWorker& worker, const std::string& run_id, std::int64_t now_ms) const;

  // Registers a worker. REQUIRES: Check() returned OK.
  void Register(const JoiningWorker& worker, std::uint64_t coordinator_epoch, std::int64_t now_ms);

  // Records a call of a registered worker and the version that it has loaded.
  void Hear(const std::string& worker_id, const PolicyVersion& loaded, std::int64_t now_ms);

  // Forgets workers that have been silent for kRemoveAfterLeases lease times. Looks at them once a
  // lease time.
  void ForgetSilent(std::int64_t now_ms);

  // Records the newest version of the weights, which no worker has loaded yet.
  void Announce(const PolicyVersion& version);

  // Returns the Weights services of at most kMaxRelays other workers that have loaded the newest
  // version and exchanged within a lease time, other ones for each worker. In O(log n).
  std::vector<std::string> Relays(const std::string& worker_id, std::int64_t now_ms) const;

  // Records that a lease granted at `granted_ms` ended without a delivery. Returns the order that
  // sets the worker aside, if this was its last strike.
  std::optional<WorkerOrderRow> Strike(const std::string& worker_id, std::uint64_t group_id,
                                       std::int64_t granted_ms, std::int64_t now_ms);

  void NoteDelivery(const std::string& worker_id, std::int64_t now_ms);

  // Returns whether a worker other than `worker_id` that is heard of, and under no order, fulfils
  // `wanted`.
  bool AnyOther(const std::string& worker_id, std::int64_t now_ms,
                const std::function<bool(const std::string& worker_id)>& wanted) const;

  // Scheduler::OrderWorker.
  Status Order(const WorkerOrderRow& order);

  // Returns the order in force for a worker; kNone without one.
  WorkerOrder OrderOf(const std::string& worker_id) const;

  // Returns the standing orders by worker id.
  const std::map<std::string, WorkerOrderRow>& orders() const { return orders_; }

 private:
  static constexpr std::int64_t kRemoveAfterLeases = 20;

  void NoteRelay(const std::string& worker_id);

  std::int64_t lease_ms_;
  std::map<std::string, WorkerInfo> known_;
  std::map<std::string, WorkerOrderRow> orders_;  // without kNone
  std::map<std::string, std::uint64_t> starts_;   // coordinator epochs, by id of the start
  std::optional<PolicyVersion> newest_;           // announced version
  std::set<std::string> relays_;                  // workers that serve it
  std::int64_t last_delivery_ms_ = 0;
  std::int64_t checked_ms_ = 0;  // when silent workers were last forgotten
};

}  // namespace buttress
