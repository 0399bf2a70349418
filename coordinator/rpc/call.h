// The part that all RPCs share: a call is posted to the loop, answered once, and counted.
#pragma once

#include <fmt/core.h>
#include <google/protobuf/message.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>

#include "coordinator/coordinator_metrics.h"
#include "coordinator/loop/coordinator_loop.h"
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

// A call with one request and one response, which lives as long as its handler's captures.
class UnaryCall final : public Call<grpc::ServerUnaryReactor> {
 public:
  using Handler = std::function<std::optional<Status>(Turn& turn, bool last)>;

  struct Options {
    std::string_view method;
    RequestTerms terms = {};  // `bytes` are those of the request
    std::size_t max_bytes = kMaxRequestBytes;
  };

  UnaryCall(CoordinatorLoop& loop, CoordinatorMetrics& metrics,
            const google::protobuf::Message& request, const Options& options, Handler handler)
      : Call(loop, metrics, options.method, WithBytes(options.terms, request)),
        handler_(std::move(handler)) {
    if (terms.bytes <= options.max_bytes) {
      Post();
    } else {
      FinishCall(InvalidArgument(
          fmt::format("a request of {} takes {} bytes of memory; expected at most {}",
                      options.method, terms.bytes, options.max_bytes)));
    }
  }

  std::optional<Status> Apply(Turn& turn, bool last) override { return handler_(turn, last); }

  void Answer(const Status& status) override { FinishCall(status); }

 private:
  static RequestTerms WithBytes(RequestTerms how, const google::protobuf::Message& request) {
    how.bytes = request.SpaceUsedLong();
    return how;
  }

  const Handler handler_;
};

}  // namespace buttress
