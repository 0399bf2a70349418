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
#include "lib/rpc/coordinator_client.h"
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

  // The clock of the process leaps, so that it gives its calls up early.
  void LeapClock(const std::string& from, std::int64_t ms) { ahead_ms_[from] += ms; }

  // A coordinator that was replaced is there again for so long, and some calls reach it.
  void ComeBack(const KnownStarts& old, std::int64_t ms) {
    old_ = old;
    old_until_ms_ = world_.now_ms() + ms;
  }

  // Whatever was armed is forgotten, and every message passes.
  void Heal() {
    armed_.clear();
    cut_until_ms_.clear();
    old_until_ms_ = 0;
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

  // Hands the parts of a stream of groups to `take`, in order, as far as they come.
  void Fetch(const ProcessPtr& from, const v1::FetchGroupsRequest& request,
             std::function<Status(const v1::FetchGroupsResponse&)> take, Reply<bool> done);

  // As CoordinatorClient does: tries again until there is an answer, or `give_up_ms` have passed
  // in which the coordinator was not paused.
  template <class Answer>
  void Retry(const ProcessPtr& from, std::int64_t give_up_ms,
             std::function<void(Reply<Answer>)> call, Reply<Answer> done) {
    auto backoff = std::make_shared<Backoff>(BackoffOptions{.max_ms = 1000}, dice_.Below(1000));
    TryAgain<Answer>(from, give_up_ms, NowOf(from) + give_up_ms, std::move(backoff),
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

  // By the clock of its machine.
  std::int64_t NowOf(const ProcessPtr& from) const {
    const auto ahead = ahead_ms_.find(from->name);
    return world_.now_ms() + (ahead == ahead_ms_.end() ? 0 : ahead->second);
  }

  // As the client does (AnsweredStart): what a call says of the coordinator that has answered last,
  // empty for none, and whether an answer of a start counts. Commands of the operator are processes
  // of their own.
  std::string StartKnownTo(const ProcessPtr& from) {
    return from->name == "operator" ? "" : answered_[from].Get();
  }

  bool Accepts(const ProcessPtr& from, const std::string& start);

  // As CoordinatorService::Admit, of the coordinator that a call reaches; kUnavailable without one.
  Status Admit(const std::string& named);

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
    const std::string named = StartKnownTo(from);
    for (int copy = 0; copy < copies; ++copy) {
      const auto start = std::make_shared<std::string>();  // that takes the call
      const Reply<Answer> reply = [this, from, finish, copy, answer_lost, fail_soon,
                                   start](Result<Answer> answer) {
        if (copy > 0) return;
        if (answer_lost || IsCut(from->name)) return fail_soon();
        auto kept = std::make_shared<Result<Answer>>(std::move(answer));
        world_.After(Latency(), from, [this, from, finish, kept, start] {
          if (!kept->ok() || Accepts(from, *start)) return finish(std::move(*kept));
          finish(Unavailable("another coordinator has replaced the one that answers"));
        });
      };
      const Gone gone = [pending, from] { return pending->finished || !from->alive; };
      world_.After(Latency() + delay_ms, nullptr, [this, make, reply, gone, named, start] {
        const Status admitted = Admit(named);
        if (!admitted.ok()) return reply(admitted);
        *start = node_.known_starts().name();
        Deliver(make(reply, gone));
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
      const std::int64_t at_ms = IsPaused(status) ? NowOf(from) + give_up_ms : give_up_at_ms;
      const std::int64_t wait_ms = backoff->NextMs();
      if (NowOf(from) + wait_ms >= at_ms) return done(std::move(answer));
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
  std::map<std::string, std::int64_t> ahead_ms_;
  std::map<ProcessPtr, AnsweredStart> answered_;
  KnownStarts old_;  // of a coordinator that has come back
  std::int64_t old_until_ms_ = 0;
};

}  // namespace buttress::simulation
