// What every call has in common: it is posted to the loop, answered once, and counted.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string_view>

#include "coordinator/coordinator_loop.h"
#include "coordinator/coordinator_metrics.h"
#include "lib/rpc/grpc_status.h"

namespace buttress {

struct LongPoll {
  std::int64_t hold_ms = 0;
  std::function<bool(const LedgerChanges& changes)> concerned;  // as in Command
};

// A call's reactor; `Reactor` is grpc::ServerUnaryReactor or one of its streaming siblings. Owned
// by itself until gRPC is done with it.
template <class Reactor>
class Call : public Reactor {
 public:
  Call(CoordinatorLoop& loop, CoordinatorMetrics& metrics, std::string_view method)
      : loop_(loop), metrics_(metrics), method_(method) {}

  void OnCancel() override { cancelled_ = true; }

  void OnDone() override { delete this; }

 protected:
  using Apply = std::function<std::optional<Status>(Turn& turn, bool last)>;

  // Has the loop apply the request; `then` runs on the loop's thread once it is durable.
  void Post(Apply apply, std::function<void(const Status&)> then, LongPoll poll = {}) {
    Command command{std::move(apply), then, [this] { return cancelled_.load(); }, poll.hold_ms,
                    std::move(poll.concerned)};
    if (!loop_.Post(command)) {
      then(Unavailable("the coordinator has too many calls waiting, or is closing; try again"));
    }
  }

  // Once; nothing of this object may be touched afterwards.
  void Answer(const Status& status) {
    metrics_.Handled(method_, status.code());
    this->Finish(ToGrpc(status));
  }

  CoordinatorLoop& loop_;
  CoordinatorMetrics& metrics_;

 private:
  const std::string_view method_;
  std::atomic<bool> cancelled_ = false;
};

}  // namespace buttress
