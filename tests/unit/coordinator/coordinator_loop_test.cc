#include "coordinator/coordinator_loop.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <memory>

#include "lib/base/digest.h"
#include "lib/base/file.h"
#include "tests/support/byte_tokenizer.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

// Short enough that its end is not taken for a stall of the process.
constexpr std::int64_t kLeaseMs = 2000;

class SteppedClock : public Clock {
 public:
  std::int64_t MonotonicMs() const override { return now_ms_; }

  std::int64_t UnixMs() const override { return now_ms_; }

  void Pass(std::int64_t ms) { now_ms_ += ms; }

 private:
  std::atomic<std::int64_t> now_ms_ = 1000;
};

// A request that does what the test says and counts how often the loop looks at it.
class ScriptedRequest : public LoopRequest {
 public:
  using Script = std::function<std::optional<Status>(Turn& turn, bool last)>;

  explicit ScriptedRequest(Script script, Awaited awaited = Awaited::kChanges,
                           std::int64_t hold_ms = 0)
      : script_(std::move(script)), awaited_(awaited), hold_ms_(hold_ms) {}

  std::optional<Status> Apply(Turn& turn, bool last) override {
    ++looks_;
    return script_(turn, last);
  }

  bool is_submission() const override { return submission_; }

  void make_submission() { submission_ = true; }

  Awaited awaits() const override { return awaited_; }

  std::int64_t hold_ms() const override { return hold_ms_; }

  bool cancelled() const override {
    ++looks_;
    return false;
  }

  void Answer(const Status& status) override {
    const auto answer = answer_;  // Wait may end this object before set_value returns
    answer->set_value(status);
  }

  Status Wait() { return answer_->get_future().get(); }

  int looks() const { return looks_; }

 private:
  const Script script_;
  const Awaited awaited_;
  const std::int64_t hold_ms_;
  bool submission_ = false;
  mutable std::atomic<int> looks_ = 0;
  const std::shared_ptr<std::promise<Status>> answer_ = std::make_shared<std::promise<Status>>();
};

class CoordinatorLoopTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string path = JoinPath(folder_.path(), "prompts.jsonl");
    ASSERT_TRUE(WriteFileAtomic(path, "{\"prompt\": \"x\", \"answer\": \"1\"}\n").ok());
    prompts_ = *PromptFile::Open(path, DataConfig(), tokenizer_);
    ledger_ = *Ledger::Open(JoinPath(folder_.path(), "ledger.db"));
    payloads_ = *PayloadStore::Open(JoinPath(folder_.path(), "payloads"), ledger_->payload_end());
    SchedulerOptions options;
    options.prompts = 2;
    options.lease_ms = kLeaseMs;
    LedgerChanges changes;
    Scheduler scheduler = *Scheduler::Restore(options, {}, clock_.MonotonicMs(), changes);
    ASSERT_TRUE(scheduler.RegisterLearner({}, 1, "", changes).ok());
    ASSERT_TRUE(scheduler.Announce(1, {{1, 0, Sha256Of("w")}, ""}, changes).ok());
    scheduler.RegisterWorker("a", 1, {}, clock_.MonotonicMs(), changes);
    ASSERT_TRUE(ledger_->Write(changes).ok());
    RunTerms terms;
    terms.max_hold_ms = 1000 * kLeaseMs;
    metrics_ = std::make_unique<CoordinatorMetrics>(registry_, RunConfig(), "", folder_.path());
    loop_ = std::make_unique<CoordinatorLoop>(CoordinatorLoop::Parts{terms,
                                                                     std::move(scheduler),
                                                                     PromptSource(*prompts_, {}),
                                                                     *ledger_,
                                                                     *payloads_,
                                                                     *metrics_,
                                                                     clock_,
                                                                     {},
                                                                     true});
  }

  void TearDown() override {
    loop_->Drain();
    EXPECT_TRUE(loop_->Stop().ok());
  }

  Status Call(ScriptedRequest::Script script) {
    ScriptedRequest request(std::move(script));
    EXPECT_TRUE(loop_->Post(&request));
    return request.Wait();
  }

  // An Exchange of worker `a` that names `held`.
  static Result<ExchangeReply> Exchange(Turn& turn, std::vector<LeaseRef> held,
                                        std::int64_t capacity) {
    WorkerExchange exchange;
    exchange.worker_id = "a";
    exchange.incarnation = 1;
    exchange.held = std::move(held);
    exchange.capacity = capacity;
    return turn.scheduler.Exchange(exchange, turn.now_ms, turn.changes);
  }

  TempDir folder_;
  ByteTokenizer tokenizer_;
  SteppedClock clock_;
  Metrics registry_{"coordinator"};
  std::unique_ptr<PromptFile> prompts_;
  std::unique_ptr<Ledger> ledger_;
  std::unique_ptr<PayloadStore> payloads_;
  std::unique_ptr<CoordinatorMetrics> metrics_;
  std::unique_ptr<CoordinatorLoop> loop_;
};

TEST_F(CoordinatorLoopTest, ARenewalThatWaitsInTheQueueKeepsItsLease) {
  std::vector<LeaseRef> held;
  ASSERT_TRUE(Call([](Turn&, bool) { return OkStatus(); }).ok());  // prompts are drawn
  ASSERT_TRUE(Call([&](Turn& turn, bool) {
                const ExchangeReply reply = *Exchange(turn, {}, 2);
                for (const GrantedLease& lease : reply.leases) held.push_back(lease.ref);
                return OkStatus();
              }).ok());
  ASSERT_EQ(held.size(), 2U);

  // The loop is busy until the leases have run out; the renewal is posted meanwhile.
  std::promise<void> busy, expired;
  ScriptedRequest slow([&](Turn&, bool) {
    busy.set_value();
    expired.get_future().wait();
    return OkStatus();
  });
  ASSERT_TRUE(loop_->Post(&slow));
  busy.get_future().wait();
  std::size_t revoked = 0;
  ScriptedRequest renewal([&](Turn& turn, bool) {
    revoked = Exchange(turn, held, 0)->revoked.size();
    return OkStatus();
  });
  clock_.Pass(kLeaseMs + 500);
  expired.set_value();
  ASSERT_TRUE(loop_->Post(&renewal));
  ASSERT_TRUE(slow.Wait().ok());
  ASSERT_TRUE(renewal.Wait().ok());
  EXPECT_EQ(revoked, 0U);

  // Without a renewal they end. The clock passes in two turns, because the loop takes a longer time
  // between two turns for a stall.
  const auto take_turn = [this] { return Call([](Turn&, bool) { return OkStatus(); }); };
  ASSERT_TRUE(take_turn().ok());
  clock_.Pass(kLeaseMs + 500);
  ASSERT_TRUE(take_turn().ok());
  ASSERT_TRUE(Call([&](Turn& turn, bool) {
                revoked = Exchange(turn, held, 0)->revoked.size();
                return OkStatus();
              }).ok());
  EXPECT_EQ(revoked, 2U);
}

TEST_F(CoordinatorLoopTest, ACallPassesTheLineOfSubmissions) {
  std::promise<void> busy, posted;
  ScriptedRequest slow([&](Turn&, bool) {
    busy.set_value();
    posted.get_future().wait();
    return OkStatus();
  });
  ASSERT_TRUE(loop_->Post(&slow));
  busy.get_future().wait();
  int applied = 0;
  std::vector<std::unique_ptr<ScriptedRequest>> submissions;
  for (int i = 0; i < 2000; ++i) {
    submissions.push_back(std::make_unique<ScriptedRequest>([&](Turn&, bool) {
      ++applied;
      return OkStatus();
    }));
    submissions.back()->make_submission();
    ASSERT_TRUE(loop_->Post(submissions.back().get()));
  }
  int applied_before = -1;
  ScriptedRequest call([&](Turn&, bool) {
    applied_before = applied;
    return OkStatus();
  });
  ASSERT_TRUE(loop_->Post(&call));
  posted.set_value();
  ASSERT_TRUE(call.Wait().ok());
  for (const auto& submission : submissions) ASSERT_TRUE(submission->Wait().ok());
  EXPECT_LE(applied_before, 200) << "those of the turn in which it was posted";
  EXPECT_EQ(applied, 2000);
  ASSERT_TRUE(slow.Wait().ok());
}

TEST_F(CoordinatorLoopTest, ATurnLooksOnlyAtParkedCallsThatItBringsSomething) {
  const auto waits = [](Turn&, bool last) {
    return last ? std::optional(OkStatus()) : std::nullopt;
  };
  ScriptedRequest news(waits, Awaited::kNews, 100 * kLeaseMs);
  ScriptedRequest groups(waits, Awaited::kGroups, 100 * kLeaseMs);
  ScriptedRequest changes(waits, Awaited::kChanges, 100 * kLeaseMs);
  // Takes all that may be leased, so that nothing is left for `groups`.
  const auto take = [](Turn& turn, bool) -> std::optional<Status> {
    EXPECT_TRUE(Exchange(turn, {}, 100).ok());
    return OkStatus();
  };
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Call(take).ok());
  for (ScriptedRequest* request : {&news, &groups, &changes}) ASSERT_TRUE(loop_->Post(request));
  const auto change_the_run = [](Turn& turn, bool) -> std::optional<Status> {
    turn.changes.run = turn.scheduler.run();
    return OkStatus();
  };
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(Call(change_the_run).ok());
  EXPECT_EQ(news.looks(), 1);
  EXPECT_EQ(groups.looks(), 1);
  EXPECT_GT(changes.looks(), 50);

  // Work that comes back goes to the call that waits for it.
  const auto give_back = [](Turn& turn, bool) -> std::optional<Status> {
    WorkerExchange exchange;
    exchange.worker_id = "a";
    exchange.incarnation = 1;
    exchange.returned = {{{1, 1}, ReturnReason::kDraining}};
    EXPECT_TRUE(turn.scheduler.Exchange(exchange, turn.now_ms, turn.changes).ok());
    return OkStatus();
  };
  ASSERT_TRUE(Call(give_back).ok());
  EXPECT_GT(groups.looks(), 1);
  EXPECT_EQ(news.looks(), 1);

  // An order is news for every worker.
  ASSERT_TRUE(Call([](Turn& turn, bool) -> std::optional<Status> {
                return turn.scheduler.OrderWorker({"a", WorkerOrder::kCordon, ""}, turn.changes);
              }).ok());
  EXPECT_GT(news.looks(), 1);

  loop_->Drain();
  for (ScriptedRequest* request : {&news, &groups, &changes}) EXPECT_TRUE(request->Wait().ok());
}

}  // namespace
}  // namespace buttress
