// The part that all RPCs share: a call is posted to the loop, answered once, and counted.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>

#include "coordinator/coordinator_loop.h"
#include "coordinator/coordinator_metrics.h"
#include "lib/rpc/grpc_status.h"

namespace buttress {

// The reactor of a call; `Reactor` is grpc::ServerUnaryReactor or a streaming one. A call deletes
// itself when gRPC is done with it.
template <class Reactor>
class Call : public Reactor, public LoopRequest {
 public:
  Call(CoordinatorLoop& loop, CoordinatorMetrics& metrics, std::string_view method)
      : loop_(loop), metrics_(metrics), method_(method) {}

  void OnCancel() override { cancelled_ = true; }

  void OnDone() override { delete this; }

  bool cancelled() const override { return cancelled_; }

 protected:
  // Posts the call to the loop, which calls Apply and then Answer.
  void Post() {
    if (loop_.Post(this)) return;
    Answer(
        Unavailable("the coordinator has too many calls waiting, or is "
                    "closing; try again"));
  }

  // Counts and ends the call. REQUIRES: called once, as the last use of this object.
  void FinishCall(const Status& status) {
    metrics_.Handled(method_, status.code());
    this->Finish(ToGrpc(status));
  }

  CoordinatorLoop& loop_;
  CoordinatorMetrics& metrics_;

 private:
  const std::string_view method_;
  std::atomic<bool> cancelled_ = false;
};

// What a call does to the run.
enum class Effect : std::uint8_t { kChanges, kReads };

// A call with one request and one response, which lives as long as its handler's captures.
class UnaryCall final : public Call<grpc::ServerUnaryReactor> {
 public:
  using Handler = std::function<std::optional<Status>(Turn& turn, bool last)>;

  UnaryCall(CoordinatorLoop& loop, CoordinatorMetrics& metrics, std::string_view method,
            std::int64_t hold_ms, Handler handler, Awaited awaited, Effect effect)
      : Call(loop, metrics, method),
        hold_ms_(hold_ms),
        handler_(std::move(handler)),
        awaited_(awaited),
        effect_(effect) {
    Post();
  }

  std::optional<Status> Apply(Turn& turn, bool last) override { return handler_(turn, last); }

  Awaited awaits() const override { return awaited_; }

  bool only_reads() const override { return effect_ == Effect::kReads; }

  std::int64_t hold_ms() const override { return hold_ms_; }

  void Answer(const Status& status) override { FinishCall(status); }

 private:
  const std::int64_t hold_ms_;
  const Handler handler_;
  const Awaited awaited_;
  const Effect effect_;
};

}  // namespace buttress
