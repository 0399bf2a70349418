#include "coordinator/loop/coordinator_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <csignal>
#include <functional>
#include <future>
#include <memory>
#include <thread>

#include "lib/base/os/file.h"
#include "lib/base/text/digest.h"
#include "lib/ledger/reader.h"
#include "lib/rpc/run_state.h"
#include "tests/support/fakes/byte_tokenizer.h"
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

  explicit ScriptedRequest(Script script, const RequestTerms& how = {})
      : LoopRequest(how), script_(std::move(script)) {}

  std::optional<Status> Apply(Turn& turn, bool last) override {
    ++looks_;
    return script_(turn, last);
  }

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
  mutable std::atomic<int> looks_ = 0;
  const std::shared_ptr<std::promise<Status>> answer_ = std::make_shared<std::promise<Status>>();
};

class CoordinatorLoopTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string path = JoinPath(folder_.path(), "prompts.jsonl");
    ASSERT_TRUE(WriteFileAtomic(path, "{\"prompt\": \"x\", \"answer\": \"1\"}\n").ok());
    RunSettings run;
    LedgerChanges changes;
    run.data.prompts = path;
    Prepare(run, changes);
    prompts_ = *PromptSet::Open(run, tokenizer_);
    ledger_ = *Ledger::Open(JoinPath(folder_.path(), "ledger.db"));
    payloads_ = *PayloadStore::Open(JoinPath(folder_.path(), "payloads"), ledger_->payload_end());
    SchedulerOptions options;
    options.sources = PromptMix::NewSources(*prompts_);
    options.prompts = 2;
    options.lease_ms = kLeaseMs;
    options.selection = run.data.selection;
    Scheduler scheduler = *Scheduler::Restore(options, {}, clock_.MonotonicMs(), changes);
    ASSERT_TRUE(scheduler.RegisterLearner({}, 1, "", changes).ok());
    ASSERT_TRUE(scheduler.Announce(1, {{1, 0, Sha256Of("w")}, ""}, changes).ok());
    ASSERT_TRUE(scheduler.RegisterWorker({"a", 1}, clock_.MonotonicMs(), changes).ok());
    ASSERT_TRUE(ledger_->Write(changes).ok());
    RunTerms terms;
    terms.max_hold_ms = 1000 * kLeaseMs;
    metrics_ = std::make_unique<CoordinatorMetrics>(registry_, RunConfig(), "", folder_.path());
    loop_ = std::make_unique<CoordinatorLoop>(LoopCore::Parts{terms,
                                                              std::move(scheduler),
                                                              PromptMix(*prompts_, run),
                                                              *ledger_,
                                                              *payloads_,
                                                              *metrics_,
                                                              clock_,
                                                              {},
                                                              true,
                                                              Disk()});
  }

  // Changes the run, and what the ledger has of it at the start.
  virtual void Prepare(RunSettings&, LedgerChanges&) {}

  void TearDown() override {
    loop_->Drain();
    EXPECT_TRUE(loop_->Stop().ok());
  }

  Status Call(ScriptedRequest::Script script) {
    ScriptedRequest request(std::move(script));
    EXPECT_TRUE(loop_->Post(&request));
    return request.Wait();
  }

  RunDisk Disk() {
    return {folder_.path(), [this] { return std::optional(free_bytes_.load()); }};
  }

  // A look at the run, as GetRunStatus is one; returns why the run is paused.
  std::string Look() {
    std::string paused = "no answer";
    ScriptedRequest look(
        [&](Turn& turn, bool) {
          paused = turn.paused;
          return OkStatus();
        },
        {.only_reads = true});
    EXPECT_TRUE(loop_->Post(&look));
    EXPECT_TRUE(look.Wait().ok());
    return paused;
  }

  // Takes one lease for worker `a`, which writes a row of its group.
  Status TakeLease(std::vector<LeaseRef>& held) {
    return Call([&held](Turn& turn, bool) {
      const ExchangeReply reply = *Exchange(turn, held, 1);
      for (const GrantedLease& lease : reply.leases) held.push_back(lease.ref);
      return OkStatus();
    });
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
  std::atomic<std::uint64_t> free_bytes_ = kResumeAtBytes;
  ByteTokenizer tokenizer_;
  SteppedClock clock_;
  Metrics registry_{"coordinator"};
  std::optional<PromptSet> prompts_;
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
  ASSERT_TRUE(loop_->Post(&renewal));
  expired.set_value();
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

// The one prompt of the dataset was constant in pass 0, which the ledger alone knows.
class SelectionLoopTest : public CoordinatorLoopTest {
 protected:
  void Prepare(RunSettings& run, LedgerChanges& changes) override {
    run.data.selection.mode = SelectionMode::kSpeed;
    run.data.selection.speed.rest = 1;
    changes.records[0] = {.last_constant = true, .last_pass = 0};
  }
};

TEST_F(SelectionLoopTest, ADrawReadsTheRecordOfThePrompt) {
  std::vector<LeaseRef> held;
  ASSERT_TRUE(TakeLease(held).ok());
  std::vector<std::uint64_t> passes;
  ASSERT_TRUE(Call([&passes](Turn& turn, bool) {
                for (const auto& [id, group] : turn.scheduler.groups().rows())
                  passes.push_back(group.prompt.pass);
                return OkStatus();
              }).ok());
  ASSERT_FALSE(passes.empty());
  EXPECT_EQ(passes.front(), 2);  // it rested in those before
}

// Broken clients that ask again and again do not fill the memory of the coordinator.
TEST_F(CoordinatorLoopTest, ParkedCallsAreBoundedByNumberAndBytes) {
  const auto waits = [](Turn&, bool last) {
    return last ? std::optional(OkStatus()) : std::nullopt;
  };
  std::vector<std::unique_ptr<ScriptedRequest>> polls;
  const auto park = [&](std::size_t bytes) {
    polls.push_back(std::make_unique<ScriptedRequest>(
        waits, RequestTerms{.hold_ms = kLeaseMs, .awaits = Awaited::kNews, .bytes = bytes}));
    const bool kept = loop_->Post(polls.back().get());
    if (!kept) polls.pop_back();
    return kept;
  };
  for (std::size_t i = 0; i < kMostCalls; ++i) ASSERT_TRUE(park(0));
  EXPECT_FALSE(park(0));
  while (metrics_->parked_calls.Value() < kMostCalls) std::this_thread::yield();
  clock_.Pass(kLeaseMs);
  for (const auto& poll : polls) EXPECT_TRUE(poll->Wait().ok());
  polls.clear();
  EXPECT_TRUE(park(kMostCallBytes)) << "an answered call makes room";
  EXPECT_FALSE(park(1));
  EXPECT_TRUE(park(0));
  loop_->Drain();
  for (const auto& poll : polls) EXPECT_TRUE(poll->Wait().ok());
}

TEST_F(CoordinatorLoopTest, ATurnLooksOnlyAtParkedCallsThatItBringsSomething) {
  const auto waits = [](Turn&, bool last) {
    return last ? std::optional(OkStatus()) : std::nullopt;
  };
  ScriptedRequest news(waits, {.hold_ms = 100 * kLeaseMs, .awaits = Awaited::kNews});
  ScriptedRequest groups(waits, {.hold_ms = 100 * kLeaseMs, .awaits = Awaited::kGroups});
  ScriptedRequest changes(waits, {.hold_ms = 100 * kLeaseMs, .awaits = Awaited::kChanges});
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

TEST_F(CoordinatorLoopTest, TooLittleRoomPausesTheRunUntilThereIsMore) {
  ASSERT_TRUE(Call([](Turn&, bool) { return OkStatus(); }).ok());  // prompts are drawn
  std::vector<LeaseRef> held;
  ASSERT_TRUE(TakeLease(held).ok());
  ASSERT_EQ(held.size(), 1U);
  ScriptedRequest parked([](Turn&, bool) { return std::nullopt; },
                         {.hold_ms = 100 * kLeaseMs, .awaits = Awaited::kNews});
  ASSERT_TRUE(loop_->Post(&parked));
  EXPECT_EQ(Look(), "");

  free_bytes_ = kPauseBelowBytes - 1;
  bool applied = false;
  const auto change = [&applied](Turn&, bool) {
    applied = true;
    return OkStatus();
  };
  const Status refused = Call(change);
  EXPECT_TRUE(IsPaused(refused)) << refused.ToString();
  EXPECT_FALSE(applied);
  EXPECT_TRUE(IsPaused(parked.Wait()));
  EXPECT_THAT(Look(), testing::HasSubstr("disk full: " + folder_.path() + " has 16.0 MiB free"));
  EXPECT_EQ(metrics_->paused.Value(), 1);

  // A little room is not enough to continue, and an hour of it costs no lease.
  free_bytes_ = kPauseBelowBytes;
  clock_.Pass(3600000);
  EXPECT_TRUE(IsPaused(Call(change)));
  free_bytes_ = kResumeAtBytes;
  clock_.Pass(2000);
  EXPECT_TRUE(Call(change).ok());
  EXPECT_EQ(Look(), "");
  EXPECT_EQ(metrics_->paused.Value(), 0);
  std::size_t revoked = 1;
  ASSERT_TRUE(Call([&](Turn& turn, bool) {
                revoked = Exchange(turn, held, 0)->revoked.size();
                return OkStatus();
              }).ok());
  EXPECT_EQ(revoked, 0U);
}

// A limit of the size of files stands in for a full disk: both make a write stop half way.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit tight = {.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &tight);
  }

  ~FullDisk() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int) = nullptr;
};

TEST_F(CoordinatorLoopTest, ATurnThatDoesNotFitOnTheDiskIsWrittenLaterAndNotAcknowledgedBefore) {
  ASSERT_TRUE(Call([](Turn&, bool) { return OkStatus(); }).ok());  // prompts are drawn
  std::vector<LeaseRef> held;
  const auto leased_in_ledger = [this] {
    std::int64_t leased = 0;
    const auto reader = LedgerReader::Open(JoinPath(folder_.path(), "ledger.db"));
    EXPECT_TRUE((*reader)
                    ->ForEachGroup([&](const GroupRecord& record) {
                      leased += record.group.state == GroupState::kLeased ? 1 : 0;
                    })
                    .ok());
    return leased;
  };
  {
    const FullDisk full(1);
    const Status refused = TakeLease(held);
    EXPECT_TRUE(IsPaused(refused)) << refused.ToString();
    EXPECT_THAT(Look(), testing::AllOf(testing::HasSubstr("disk full"),
                                       testing::HasSubstr("SQLite: disk I/O error")));
    for (int i = 0; i < 5; ++i) {
      clock_.Pass(1500);
      EXPECT_TRUE(IsPaused(Call([](Turn&, bool) { return OkStatus(); })));
    }
    EXPECT_EQ(leased_in_ledger(), 0) << "what was refused is not durable";
  }
  clock_.Pass(1500);
  EXPECT_TRUE(Call([](Turn&, bool) { return OkStatus(); }).ok());
  EXPECT_EQ(leased_in_ledger(), 1) << "what the refused call had changed is written first";
  {
    const FullDisk full(1);
    EXPECT_EQ(leased_in_ledger(), 1) << "a full disk hides no lease from the check above";
  }
  // The worker, which was told of nothing, asks again and is given the same lease.
  std::vector<LeaseRef> again;
  ASSERT_TRUE(Call([&](Turn& turn, bool) {
                const ExchangeReply reply = *Exchange(turn, {}, 0);
                for (const GrantedLease& lease : reply.leases) again.push_back(lease.ref);
                return OkStatus();
              }).ok());
  EXPECT_EQ(again, held);
}

TEST_F(CoordinatorLoopTest, APayloadThatDoesNotFitPausesTheRunUntilAMebibyteFits) {
  const auto append = [](Turn& turn, bool) {
    auto payload = turn.payloads.Append({1, 1}, std::string(4000, 'x'), Sha256Of("x"));
    turn.full = payload.status();
    turn.payloads_appended = payload.ok();
    return payload.status();
  };
  ASSERT_TRUE(Call([](Turn&, bool) { return OkStatus(); }).ok());  // prompts are drawn
  {
    const FullDisk full(1000);
    EXPECT_EQ(Call(append).code(), StatusCode::kResourceExhausted);
    EXPECT_THAT(Look(), testing::HasSubstr("00000001.seg"));
    clock_.Pass(1500);
    EXPECT_TRUE(IsPaused(Call(append)));
  }
  clock_.Pass(1500);
  EXPECT_TRUE(Call(append).ok());
}

}  // namespace
}  // namespace buttress
