#include "coordinator/schedule/workers.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace buttress {
namespace {

constexpr std::size_t kNamesInMessage = 20;
// Silent ones among so many relays are passed over.
constexpr std::size_t kRelaysSeen = 16;
constexpr std::size_t kReplacedKept = 16;

// "w0, w1, w2", or "none"; at most kNamesInMessage of them.
std::string Listed(const std::set<std::string>& names) {
  if (names.empty()) return "none";
  const std::size_t listed = std::min(names.size(), kNamesInMessage);
  const auto end = std::next(names.begin(), static_cast<std::ptrdiff_t>(listed));
  const std::string text = fmt::format("{}", fmt::join(names.begin(), end, ", "));
  if (listed == names.size()) return text;
  return text + fmt::format(" and {} more", names.size() - listed);
}

}  // namespace

Workers::Workers(std::int64_t lease_ms, const LedgerSnapshot& snapshot)
    : lease_ms_(lease_ms), orders_(snapshot.orders) {
  for (const StartRow& start : snapshot.starts) NoteStart(start.start_id, start.coordinator_epoch);
  if (snapshot.announced) newest_ = snapshot.announced->version;
}

Status Workers::CheckCaller(const std::string& worker_id, std::uint64_t incarnation,
                            const std::string& secret_sha256) const {
  const auto worker = known_.find(worker_id);
  if (worker == known_.end() || worker->second.incarnation != incarnation) {
    return NotFound(fmt::format(
        "worker '{}' is not registered with this incarnation; register again", worker_id));
  }
  if (worker->second.secret_sha256 == secret_sha256) return OkStatus();
  return {StatusCode::kPermissionDenied,
          fmt::format("the call does not name the secret that worker '{}' has registered with; "
                      "only that worker may renew, return and submit its leases",
                      worker_id)};
}

Status Workers::Check(const JoiningWorker& worker, const std::string& run_id,
                      std::int64_t now_ms) const {
  if (!worker.run_id.empty() && worker.run_id != run_id) {
    return Aborted(fmt::format(
        "worker '{}' belongs to run {}, and this is run {}: what it holds is of no use here",
        worker.id, worker.run_id, run_id));
  }
  if (!worker.start_id.empty() && !starts_.contains(worker.start_id)) {
    return Aborted(
        fmt::format("worker '{}' has registered with start {} of the coordinator of run {}, which "
                    "this ledger does not know: it is an older copy; what the worker holds is of "
                    "no use here",
                    worker.id, worker.start_id, run_id));
  }
  const auto known = known_.find(worker.id);
  if (known == known_.end()) {
    if (known_.size() < kMaxWorkers) return OkStatus();
    return ResourceExhausted(
        fmt::format("{} workers are registered, and no more can be; one that ends is forgotten "
                    "after {} ms",
                    known_.size(), kRemoveAfterLeases * lease_ms_));
  }
  if (std::ranges::count(known->second.replaced, worker.incarnation) > 0) {
    return FailedPrecondition(fmt::format(
        "worker id '{}' belongs to another process, which has registered later; give each process "
        "a local.worker.id of its own, or none",
        worker.id));
  }
  const std::int64_t silent_ms = now_ms - known->second.last_heard_ms;
  if (known->second.secret_sha256 == worker.secret_sha256 || silent_ms > lease_ms_)
    return OkStatus();
  return Unavailable(fmt::format(
      "worker id '{}' is in use by another process, which called {} ms ago; give each process a "
      "local.worker.id of its own, or none; after {} ms without a call the id is free",
      worker.id, silent_ms, lease_ms_));
}

void Workers::Register(const JoiningWorker& joining, std::uint64_t coordinator_epoch,
                       std::int64_t now_ms) {
  const bool known = known_.contains(joining.id);
  WorkerInfo& worker = known_[joining.id];
  if (known && worker.incarnation != joining.incarnation) {
    worker.loaded_version = {};
    worker.replaced.push_back(worker.incarnation);
    if (worker.replaced.size() > kReplacedKept) worker.replaced.erase(worker.replaced.begin());
  }
  worker.incarnation = joining.incarnation;
  worker.secret_sha256 = joining.secret_sha256;
  worker.addresses = joining.addresses;
  worker.joined = joining.start_id.empty() ? coordinator_epoch : starts_.at(joining.start_id);
  worker.last_heard_ms = now_ms;
  NoteRelay(joining.id);
}

void Workers::Hear(const std::string& worker_id, const PolicyVersion& loaded, std::int64_t now_ms) {
  WorkerInfo& worker = known_.at(worker_id);
  worker.last_heard_ms = now_ms;
  worker.loaded_version = loaded;
  NoteRelay(worker_id);
}

void Workers::ForgetSilent(std::int64_t now_ms) {
  if (now_ms < checked_ms_ + lease_ms_) return;
  checked_ms_ = now_ms;
  std::erase_if(known_, [&](const auto& entry) {
    const bool gone = now_ms - entry.second.last_heard_ms > kRemoveAfterLeases * lease_ms_;
    if (gone) relays_.erase(entry.first);
    return gone;
  });
}

void Workers::Announce(const PolicyVersion& version) {
  newest_ = version;
  relays_.clear();
}

void Workers::NoteRelay(const std::string& worker_id) {
  const WorkerInfo& worker = known_.at(worker_id);
  if (newest_ && worker.loaded_version == *newest_ && !worker.addresses.weights.empty()) {
    relays_.insert(worker_id);
  } else {
    relays_.erase(worker_id);
  }
}

std::vector<std::string> Workers::Relays(const std::string& worker_id, std::int64_t now_ms) const {
  std::vector<std::string> relays;
  // The ids form a ring, and each worker gets those that follow its own.
  const std::size_t within = std::min(relays_.size(), kRelaysSeen);
  auto next = relays_.upper_bound(worker_id);
  for (std::size_t seen = 0; seen < within && relays.size() < kMaxRelays; ++seen, ++next) {
    if (next == relays_.end()) next = relays_.begin();
    const WorkerInfo& worker = known_.at(*next);
    if (*next != worker_id && now_ms - worker.last_heard_ms <= lease_ms_)
      relays.push_back(worker.addresses.weights);
  }
  return relays;
}

std::optional<WorkerOrderRow> Workers::Strike(const std::string& worker_id, std::uint64_t group_id,
                                              std::int64_t granted_ms, std::int64_t now_ms) {
  const auto known = known_.find(worker_id);
  if (known == known_.end()) return std::nullopt;
  WorkerStrikes& strikes = known->second.strikes;
  if (strikes.groups.size() < kNamesInMessage) strikes.groups.insert(std::to_string(group_id));
  const bool counted =
      strikes.count > 0 && (granted_ms < strikes.last_ms || last_delivery_ms_ < strikes.last_ms);
  if (counted) return std::nullopt;
  ++strikes.count;
  strikes.last_ms = now_ms;
  const bool last = !AnyOther(worker_id, now_ms, [](const std::string&) { return true; });
  if (strikes.count < kStrikes || last || OrderOf(worker_id) != WorkerOrder::kNone)
    return std::nullopt;
  WorkerOrderRow order = {
      worker_id, WorkerOrder::kCordon,
      fmt::format("set aside: it did not deliver groups {}, while other workers delivered; fix it, "
                  "then `buttress uncordon` takes it back",
                  Listed(strikes.groups))};
  strikes = {};
  orders_[worker_id] = order;
  return order;
}

void Workers::NoteDelivery(const std::string& worker_id, std::int64_t now_ms) {
  last_delivery_ms_ = now_ms;
  if (const auto known = known_.find(worker_id); known != known_.end()) known->second.strikes = {};
}

bool Workers::AnyOther(const std::string& worker_id, std::int64_t now_ms,
                       const std::function<bool(const std::string&)>& wanted) const {
  return std::ranges::any_of(known_, [&](const auto& entry) {
    const auto& [id, worker] = entry;
    return id != worker_id && now_ms - worker.last_heard_ms <= lease_ms_ &&
           OrderOf(id) == WorkerOrder::kNone && wanted(id);
  });
}

Status Workers::Order(const WorkerOrderRow& order) {
  const auto known = known_.find(order.worker_id);
  if (known == known_.end() && !orders_.contains(order.worker_id)) {
    std::set<std::string> names;
    for (const auto& [name, worker] : known_) names.insert(name);
    for (const auto& [name, row] : orders_) names.insert(name);
    return NotFound(fmt::format("there is no worker '{}' in this run; known workers: {}",
                                order.worker_id, Listed(names)));
  }
  if (order.order != WorkerOrder::kNone) {
    orders_[order.worker_id] = order;
    return OkStatus();
  }
  if (known != known_.end()) known->second.strikes = {};
  orders_.erase(order.worker_id);
  return OkStatus();
}

WorkerOrder Workers::OrderOf(const std::string& worker_id) const {
  const auto found = orders_.find(worker_id);
  return found == orders_.end() ? WorkerOrder::kNone : found->second.order;
}

}  // namespace buttress
