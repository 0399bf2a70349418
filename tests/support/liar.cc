// A worker that lies to the programs of a run until it is sent SIGTERM, and prints what has come of
// it as lines of JSON: "refused" and "accepted" calls, "opened" connections, "told" lies about
// groups.
//
//   liar RUN_FOLDER CASE...
//
//   groups       leases groups and submits every lie of lies.h about them
//   strangers    leases groups as another worker each, and submits one lie about each
//   streams      announces large groups without a lease; sends nothing of half of them, and most of
//                the others
//   hoard        renews a lease for ever and never submits
//   turncoat     submits an honest group, then keeps as many as it gets until just before the limit
//                of a lease, gives them back without a fault, and begins anew
//   names        registers and renews with names and lists beyond every bound
//   connections  opens more connections to the coordinator than it has descriptors, and closes them
//   metrics      holds the port of metrics with connections that send a byte now and then
#include <fmt/core.h>
#include <sys/resource.h>

#include <atomic>
#include <cstdio>
#include <deque>
#include <functional>
#include <map>
#include <thread>

#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/shutdown.h"
#include "lib/config/load.h"
#include "lib/config/run_folder.h"
#include "lib/rpc/channel.h"
#include "lib/rpc/coordinator_client.h"
#include "lib/rpc/grpc_status.h"
#include "tests/support/lies.h"
#include "tests/support/loopback_connection.h"
#include "tests/support/raw_call.h"

namespace buttress {
namespace {

constexpr std::chrono::milliseconds kPause(100);
constexpr std::chrono::milliseconds kHold(3000);
constexpr std::int64_t kGiveUpMs = 3000;
constexpr std::uint64_t kIncarnation = 11;
constexpr std::uint64_t kMostOfAGroup = std::uint64_t{200} << 20;
constexpr int kStreams = 6;
constexpr int kConnections = 600;
constexpr std::uint32_t kTurncoatLeases = 8;
constexpr int kDripping = 300;
constexpr std::uint32_t kOwnAddress = 2;  // 127.0.0.2

// Thread-safe.
class Liar {
 public:
  Liar(std::string out, const RunConfig& config)
      : out_(std::move(out)),
        config_sha256_(RunConfigHash(config)),
        lease_limit_ms_(config.run.lease_limit_ms) {}

  CoordinatorClient Client() const {
    return CoordinatorClient({"", JoinPath(out_, "coordinator.address"), kGiveUpMs});
  }

  v1::RegisterWorkerRequest Self(const std::string& name) const {
    v1::RegisterWorkerRequest self;
    self.set_worker_id(name);
    self.set_incarnation(kIncarnation);
    self.set_config_sha256(config_sha256_);
    return self;
  }

  // The address in a file of the run folder; empty while there is none.
  std::string Address(const std::string& file) const {
    const auto text = ReadFile(JoinPath(out_, file));
    return text.ok() ? text->substr(0, text->find('\n')) : "";
  }

  int Port(const std::string& file) const {
    const std::string address = Address(file);
    return address.empty() ? 0 : std::stoi(address.substr(address.rfind(':') + 1));
  }

  std::int64_t lease_limit_ms() const { return lease_limit_ms_; }

  // Counts the answer to a lie.
  void Count(const Status& status) { ++(status.ok() ? accepted_ : refused_); }

  void CountOpened() { ++opened_; }

  void CountTold() { ++told_; }

  std::string Json() const {
    return fmt::format(R"({{"refused": {}, "accepted": {}, "opened": {}, "told": {}}})",
                       refused_.load(), accepted_.load(), opened_.load(), told_.load());
  }

 private:
  const std::string out_;
  const std::string config_sha256_;
  const std::int64_t lease_limit_ms_;
  std::atomic<std::int64_t> refused_ = 0;
  std::atomic<std::int64_t> accepted_ = 0;
  std::atomic<std::int64_t> opened_ = 0;
  std::atomic<std::int64_t> told_ = 0;
};

v1::ExchangeRequest ExchangeOf(const std::string& name, std::uint32_t capacity) {
  v1::ExchangeRequest request;
  request.set_worker_id(name);
  request.set_incarnation(kIncarnation);
  request.set_capacity(capacity);
  request.set_wait_ms(200);
  // Newer weights would be news, which are told before there is a lease.
  request.mutable_loaded_version()->set_learner_epoch(1U << 30);
  return request;
}

void TellALie(Liar& liar, CoordinatorClient& client, const std::string& run_id,
              const std::string& self, const v1::Lease& lease, const Lie& lie) {
  Group group = HonestGroup(lease, self, *FromProto(lease.min_version()));
  lie.tell(group);
  const auto result =
      client.SubmitGroup(run_id, self, kIncarnation, lease.ref(), EncodedGroup::Of(group));
  // A lease that has ended meanwhile is no lie that passed.
  const bool taken = result.ok() && *result == v1::SUBMIT_RESULT_ACCEPTED;
  liar.Count(taken ? OkStatus() : InvalidArgument(lie.what));
  liar.CountTold();
}

// Who leases and lies, by the number of the lease.
struct Identity {
  std::function<std::string(std::size_t lease)> name;
  bool tells_all = false;  // every lie about each lease, the first of which ends it; else one
};

void LieInGroups(Liar& liar, const Identity& identity) {
  CoordinatorClient client = liar.Client();
  v1::ExchangeRequest request;
  for (std::size_t leases = 0; !WaitForShutdown(kPause);) {
    const std::string self = identity.name(leases);
    const auto joined = client.RegisterWorker(liar.Self(self));
    if (!joined.ok()) continue;
    if (request.worker_id() != self) request = ExchangeOf(self, 1);
    request.set_run_id(joined->run_id());
    const auto response = client.Exchange(request);
    request.clear_returned();
    if (!response.ok()) continue;
    for (const v1::Lease& lease : response->leases()) {
      const std::size_t first = leases++ % std::size(kLies);
      const std::size_t lies = identity.tells_all ? std::size(kLies) : 1;
      for (std::size_t i = 0; i < lies && !ShutdownRequested(); ++i)
        TellALie(liar, client, joined->run_id(), self, lease,
                 kLies[(first + i) % std::size(kLies)]);
      v1::ReturnedLease& returned = *request.add_returned();
      *returned.mutable_ref() = lease.ref();
      returned.set_reason(v1::RETURN_REASON_DRAINING);
    }
  }
}

void HoldStreams(Liar& liar) {
  while (!WaitForShutdown(kPause)) {
    const std::string address = liar.Address("coordinator.address");
    if (address.empty()) continue;
    const auto stub = v1::Coordinator::NewStub(MakeChannel(address));
    const IdleStreams idle(*stub, kStreams), nearly_sent(*stub, kStreams, kMostOfAGroup);
    liar.CountOpened();
    WaitForShutdown(kHold);
  }
}

void Hoard(Liar& liar) {
  CoordinatorClient client = liar.Client();
  std::map<std::uint64_t, v1::LeaseRef> held;
  while (!WaitForShutdown(kPause)) {
    const auto joined = client.RegisterWorker(liar.Self("hoarder"));
    if (!joined.ok()) continue;
    v1::ExchangeRequest request = ExchangeOf("hoarder", held.empty() ? 1 : 0);
    request.set_run_id(joined->run_id());
    for (const auto& [id, ref] : held) *request.add_held() = ref;
    const auto response = client.Exchange(request);
    if (!response.ok()) continue;
    for (const v1::LeaseRef& ref : response->revoked()) held.erase(ref.group_id());
    for (const v1::Lease& lease : response->leases()) {
      held[lease.ref().group_id()] = lease.ref();
      liar.CountOpened();
    }
  }
}

// Delivers the first group of each handful, by which it is a worker like any other.
void TurnCoat(Liar& liar) {
  CoordinatorClient client = liar.Client();
  std::map<std::uint64_t, v1::LeaseRef> held;
  std::int64_t give_back_ms = 0;
  while (!WaitForShutdown(kPause)) {
    const auto joined = client.RegisterWorker(liar.Self("turncoat"));
    if (!joined.ok()) continue;
    const bool gives_back = !held.empty() && RealClock().MonotonicMs() >= give_back_ms;
    v1::ExchangeRequest request = ExchangeOf("turncoat", held.empty() ? kTurncoatLeases : 0);
    request.set_run_id(joined->run_id());
    for (const auto& [id, ref] : held) {
      if (!gives_back) {
        *request.add_held() = ref;
        continue;
      }
      v1::ReturnedLease& returned = *request.add_returned();
      *returned.mutable_ref() = ref;
      returned.set_reason(v1::RETURN_REASON_DRAINING);
    }
    const auto response = client.Exchange(request);
    if (!response.ok()) continue;
    if (gives_back) held.clear();
    for (const v1::LeaseRef& ref : response->revoked()) held.erase(ref.group_id());
    if (held.empty() && response->leases_size() > 0) {
      const v1::Lease& lease = response->leases(0);
      const Group group = HonestGroup(lease, "turncoat", *FromProto(lease.min_version()));
      const auto result = client.SubmitGroup(joined->run_id(), "turncoat", kIncarnation,
                                             lease.ref(), EncodedGroup::Of(group));
      liar.Count(result.status());
      give_back_ms = RealClock().MonotonicMs() + liar.lease_limit_ms() * 3 / 4;
      for (int i = 1; i < response->leases_size(); ++i)
        held[response->leases(i).ref().group_id()] = response->leases(i).ref();
    }
  }
}

// An Exchange of `leases` leases, which take two bytes each.
v1::ExchangeRequest ListOf(int leases) {
  v1::ExchangeRequest request = ExchangeOf("lister", 0);
  for (int i = 0; i < leases; ++i) request.add_held();
  return request;
}

// The calls are serialized once, so that the processors that the liar may share with the run are
// left to it.
void SendBadNames(Liar& liar) {
  const std::string long_name(1 << 20, 'x');
  v1::RegisterWorkerRequest far = liar.Self("far");
  far.set_weights_address(long_name);
  const std::string service = "/buttress.v1.Coordinator/";
  const auto bytes_of = [](const auto& message) { return BytesOf(message.SerializeAsString()); };
  const std::pair<std::string, grpc::ByteBuffer> calls[] = {
      {service + "RegisterWorker", bytes_of(liar.Self("w0\nlevel=error forged"))},
      {service + "RegisterWorker", bytes_of(liar.Self(long_name))},
      {service + "RegisterWorker", bytes_of(far)},
      {service + "Exchange", bytes_of(ListOf(2000000))},  // refused by its bytes
      {service + "Exchange", bytes_of(ListOf(250000))},   // must be parsed for it
  };
  std::string address;
  std::shared_ptr<grpc::Channel> channel;
  while (!WaitForShutdown(kPause)) {
    const std::string now = liar.Address("coordinator.address");
    if (now.empty()) continue;
    if (now != address) channel = MakeChannel(address = now);
    for (const auto& [method, bytes] : calls) {
      grpc::ByteBuffer answer;
      liar.Count(FromGrpc(CallRaw(channel, method, bytes, answer)));
    }
  }
}

// Opens `count` connections to a port, says `word` on each now and then, and closes them.
void HoldConnections(Liar& liar, const std::string& address_file, int count,
                     const std::string& word) {
  while (!WaitForShutdown(kPause)) {
    const int port = liar.Port(address_file);
    if (port == 0) continue;
    std::deque<LoopbackConnection> held;
    while (static_cast<int>(held.size()) < count && !ShutdownRequested()) {
      if (held.emplace_back(kOwnAddress, port).open()) liar.CountOpened();
    }
    for (auto left = kHold; left.count() > 0 && !WaitForShutdown(kPause); left -= kPause) {
      for (LoopbackConnection& connection : held) connection.Send(word);
    }
  }
}

const std::map<std::string, std::function<void(Liar&)>>& Cases() {
  static const std::map<std::string, std::function<void(Liar&)>> cases = {
      {"groups",
       [](Liar& liar) {
         LieInGroups(liar, {[](auto) { return "liar"; }, true});
       }},
      {"strangers",
       [](Liar& liar) {
         LieInGroups(liar, {[](auto lease) { return "stranger" + std::to_string(lease); }});
       }},
      {"streams", HoldStreams},
      {"hoard", Hoard},
      {"turncoat", TurnCoat},
      {"names", SendBadNames},
      {"connections",
       [](Liar& liar) { HoldConnections(liar, "coordinator.address", kConnections, ""); }},
      {"metrics", [](Liar& liar) { HoldConnections(liar, "coordinator.metrics", kDripping, "G"); }},
  };
  return cases;
}

int Run(int argc, char** argv) {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
  if (argc < 3) return ExitCode(InvalidArgument("liar RUN_FOLDER CASE..."));
  const auto config = LoadRunConfig(StoredConfigPath(argv[1]), {});
  if (!config.ok()) {
    std::fprintf(stderr, "liar: %s\n", config.status().ToString().c_str());
    return ExitCode(config.status());
  }
  Liar liar(argv[1], *config);
  std::vector<std::jthread> threads;
  for (int i = 2; i < argc; ++i)
    threads.emplace_back([&liar, tell = Cases().at(argv[i])] { tell(liar); });
  std::string told;
  const auto tell_more = [&] {
    if (liar.Json() == told) return;
    told = liar.Json();
    std::printf("%s\n", told.c_str());
    std::fflush(stdout);
  };
  while (!WaitForShutdown(kPause)) tell_more();
  threads.clear();
  tell_more();
  return 0;
}

}  // namespace
}  // namespace buttress

int main(int argc, char** argv) {
  buttress::InstallShutdownHandlers();
  return buttress::Run(argc, argv);
}
