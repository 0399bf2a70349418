// The part that all RPCs share: a call is posted to the loop, answered once, and counted.
#pragma once

#include <fmt/core.h>

#include <atomic>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

#include "coordinator/coordinator_metrics.h"
#include "coordinator/loop/coordinator_loop.h"
#include "coordinator/rpc/handlers.h"
#include "lib/rpc/grpc_status.h"

namespace buttress {

// The reactor of a call; `Reactor` is grpc::ServerUnaryReactor or a streaming one. A call deletes
// itself when gRPC is done with it.
template <class Reactor>
class Call : public Reactor, public LoopRequest {
 public:
  Call(CoordinatorLoop& loop, CoordinatorMetrics& metrics, std::string_view method,
       const RequestTerms& how = {})
      : LoopRequest(how), loop_(loop), metrics_(metrics), method_(method) {}

  void OnCancel() override { cancelled_ = true; }

  void OnDone() override { delete this; }

  bool cancelled() const override { return cancelled_; }

 protected:
  // Posts the call to the loop, which calls Apply and then Answer.
  void Post() {
    if (loop_.Post(this)) return;
    Answer(Unavailable("the coordinator has too many calls waiting, or is closing; try again"));
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

// The memory that the request of a call may take.
inline constexpr std::size_t kMaxRequestBytes = std::size_t{1} << 20;

// A call with one request and one response, which Apply applies (handlers.h).
template <class Request, class Response>
class UnaryCall final : public Call<grpc::ServerUnaryReactor> {
 public:
  // gRPC keeps `request` and `response` for as long as the call lives.
  UnaryCall(CoordinatorLoop& loop, CoordinatorMetrics& metrics, std::string_view method,
            const Request& request, Response& response, std::size_t max_bytes,
            const Status& admitted)
      : Call(loop, metrics, method, WithBytes(request)), request_(request), response_(response) {
    if (!admitted.ok()) {
      FinishCall(admitted);
    } else if (terms.bytes <= max_bytes) {
      Post();
    } else {
      FinishCall(InvalidArgument(
          fmt::format("a request of {} takes {} bytes of memory; expected at most {}", method,
                      terms.bytes, max_bytes)));
    }
  }

  std::optional<Status> Apply(Turn& turn, bool last) override {
    return buttress::Apply(turn, request_, response_, last);
  }

  void Answer(const Status& status) override { FinishCall(status); }

 private:
  static RequestTerms WithBytes(const Request& request) {
    RequestTerms terms = TermsOf(request);
    terms.bytes = request.SpaceUsedLong();
    return terms;
  }

  const Request& request_;
  Response& response_;
};

}  // namespace buttress
