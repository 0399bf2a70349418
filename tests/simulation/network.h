// Calls of the coordinator over a network that loses, doubles, delays, reorders and cuts messages.
// A call is real from its request to its answer: the messages of the protocol, applied by the
// functions of coordinator/rpc in a turn of the loop.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/net/retry.h"
#include "lib/rpc/run_state.h"
#include "tests/simulation/coordinator_node.h"
#include "tests/simulation/faults.h"
#include "tests/simulation/node_calls.h"

namespace buttress::simulation {

class Network {
 public:
  Network(World& world, CoordinatorNode& node)
      : world_(world), node_(node), dice_(world.seed(), "network") {}

  // The next `amount` calls of the process named `from` suffer this.
  void Arm(Fault fault, const std::string& from, std::int64_t amount) {
    armed_[{fault, from}] += amount;
  }

  // No message of the process passes for so long.
  void Partition(const std::string& from, std::int64_t ms) {
    cut_until_ms_[from] = world_.now_ms() + ms;
  }

  // Whatever was armed is forgotten, and every message passes.
  void Heal() {
    armed_.clear();
    cut_until_ms_.clear();
  }

  // Calls the coordinator once. `done` gets the answer, kUnavailable or kDeadlineExceeded, unless
  // the caller dies before.
  template <class Request, class Response>
  void Call(const ProcessPtr& from, const Request& request, std::int64_t timeout_ms,
            Reply<Response> done) {
    Send<Response>(from, timeout_ms, std::move(done),
                   [this, request](Reply<Response> reply, Gone gone) {
                     return std::make_unique<UnaryNodeCall<Request, Response>>(
                         node_, request, std::move(reply), std::move(gone));
                   });
  }

  // Submits a group in `parts`.
  void Submit(const ProcessPtr& from, std::vector<v1::SubmitGroupsRequest> parts,
              Reply<v1::SubmitGroupsResponse> done);

  // Returns the payloads of the groups.
  void Fetch(const ProcessPtr& from, const v1::FetchGroupsRequest& request,
             Reply<std::vector<std::string>> done) {
    Send<std::vector<std::string>>(
        from, kFetchMs, std::move(done),
        [this, request](Reply<std::vector<std::string>> reply, Gone gone) {
          return std::make_unique<FetchNodeCall>(node_, request, std::move(reply), std::move(gone));
        });
  }

  // As CoordinatorClient does: tries again until there is an answer, or `give_up_ms` have passed
  // in which the coordinator was not paused.
  template <class Answer>
  void Retry(const ProcessPtr& from, std::int64_t give_up_ms,
             std::function<void(Reply<Answer>)> call, Reply<Answer> done) {
    auto backoff = std::make_shared<Backoff>(BackoffOptions{.max_ms = 1000}, dice_.Below(1000));
    TryAgain<Answer>(from, give_up_ms, world_.now_ms() + give_up_ms, std::move(backoff),
                     std::make_shared<std::function<void(Reply<Answer>)>>(std::move(call)),
                     std::move(done));
  }

  template <class Request, class Response>
  void RetryCall(const ProcessPtr& from, const Request& request, std::int64_t hold_ms,
                 std::int64_t give_up_ms, Reply<Response> done) {
    Retry<Response>(
        from, give_up_ms,
        [this, from, request, hold_ms](Reply<Response> reply) {
          Call<Request, Response>(from, request, kUnaryMs + hold_ms, std::move(reply));
        },
        std::move(done));
  }

 private:
  static constexpr std::int64_t kUnaryMs = 10000;
  static constexpr std::int64_t kSubmitMs = 30000;
  static constexpr std::int64_t kFetchMs = 30000;

  template <class Answer>
  struct Pending {
    Reply<Answer> done;
    bool finished = false;
  };

  // Returns whether an armed fault befalls this message.
  bool Suffers(Fault fault, const std::string& from);

  bool IsCut(const std::string& from) const {
    const auto until = cut_until_ms_.find(from);
    return until != cut_until_ms_.end() && until->second > world_.now_ms();
  }

  // Hands a call over once the process may take it.
  void Deliver(std::unique_ptr<NodeCall> call);

  template <class Answer>
  void Send(const ProcessPtr& from, std::int64_t timeout_ms, Reply<Answer> done,
            std::function<std::unique_ptr<NodeCall>(Reply<Answer>, Gone)> make) {
    auto pending = std::make_shared<Pending<Answer>>(Pending<Answer>{std::move(done), false});
    const Reply<Answer> finish = [pending](Result<Answer> answer) {
      if (std::exchange(pending->finished, true)) return;
      const Reply<Answer> finished = std::move(pending->done);
      finished(std::move(answer));
    };
    world_.After(timeout_ms, from, [finish] { finish(DeadlineExceeded("no answer in time")); });
    const auto fail_soon = [this, from, finish] {
      if (dice_.Chance(50))
        world_.After(Latency(), from, [finish] { finish(Unavailable("the connection broke")); });
    };
    if (IsCut(from->name) || Suffers(Fault::kRequestLost, from->name)) return fail_soon();
    const int copies = Suffers(Fault::kDoubled, from->name) ? 2 : 1;
    const std::int64_t delay_ms =
        Suffers(Fault::kDelayed, from->name) ? dice_.Between(500, 8000) : 0;
    const bool answer_lost = Suffers(Fault::kAnswerLost, from->name);
    for (int copy = 0; copy < copies; ++copy) {
      const Reply<Answer> reply = [this, from, finish, copy, answer_lost,
                                   fail_soon](Result<Answer> answer) {
        if (copy > 0) return;
        if (answer_lost || IsCut(from->name)) return fail_soon();
        auto kept = std::make_shared<Result<Answer>>(std::move(answer));
        world_.After(Latency(), from, [finish, kept] { finish(std::move(*kept)); });
      };
      const Gone gone = [pending, from] { return pending->finished || !from->alive; };
      world_.After(Latency() + delay_ms, nullptr, [this, make, reply, gone] {
        if (node_.running()) return Deliver(make(reply, gone));
        reply(Unavailable("no coordinator answers"));
      });
    }
  }

  template <class Answer>
  void TryAgain(const ProcessPtr& from, std::int64_t give_up_ms, std::int64_t give_up_at_ms,
                std::shared_ptr<Backoff> backoff,
                std::shared_ptr<std::function<void(Reply<Answer>)>> call, Reply<Answer> done) {
    (*call)([=, this, done = std::move(done)](Result<Answer> answer) {
      const Status& status = answer.status();
      const bool transient = status.code() == StatusCode::kUnavailable ||
                             status.code() == StatusCode::kDeadlineExceeded ||
                             status.code() == StatusCode::kCancelled;
      if (!transient) return done(std::move(answer));
      const std::int64_t at_ms = IsPaused(status) ? world_.now_ms() + give_up_ms : give_up_at_ms;
      const std::int64_t wait_ms = backoff->NextMs();
      if (world_.now_ms() + wait_ms >= at_ms) return done(std::move(answer));
      world_.Count("a call was tried again");
      world_.After(wait_ms, from,
                   [=, this] { TryAgain<Answer>(from, give_up_ms, at_ms, backoff, call, done); });
    });
  }

  std::int64_t Latency() { return dice_.Between(1, 25); }

  World& world_;
  CoordinatorNode& node_;
  Dice dice_;
  std::map<std::pair<Fault, std::string>, std::int64_t> armed_;
  std::map<std::string, std::int64_t> cut_until_ms_;
};

}  // namespace buttress::simulation
