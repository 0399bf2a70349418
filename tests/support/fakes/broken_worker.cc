// A worker that is broken, next to the others of a run, until it is sent SIGTERM. Prints the number
// of leases that it has got, one line for each time that this rises.
//
//   broken_worker RUN_FOLDER CASE
//
//   rubbish   submits each of broken_groups.h in turn
//   hangs     renews its leases for ever and never submits
//   unable    returns its leases at once, because it cannot load the weights, and asks for more
#include <fmt/core.h>

#include <cstdio>
#include <map>
#include <string>

#include "lib/base/os/file.h"
#include "lib/base/os/shutdown.h"
#include "lib/config/load.h"
#include "lib/config/run_folder.h"
#include "lib/rpc/coordinator_client.h"
#include "tests/support/fakes/broken_groups.h"

namespace buttress {
namespace {

constexpr std::chrono::milliseconds kPause(10);
constexpr std::int64_t kGiveUpMs = 3000;
constexpr std::uint64_t kIncarnation = 11;
constexpr std::uint32_t kCapacity = 4;
constexpr const char* kName = "broken";

class BrokenWorker {
 public:
  BrokenWorker(const std::string& out, const RunConfig& config, std::string fault)
      : client_({"", JoinPath(out, "coordinator.address"), kGiveUpMs}), fault_(std::move(fault)) {
    self_.set_worker_id(kName);
    self_.set_incarnation(kIncarnation);
    self_.set_config_sha256(RunConfigHash(config));
    self_.set_worker_secret(std::string(32, 'b'));
  }

  void Run() {
    std::map<std::uint64_t, v1::LeaseRef> held;
    for (v1::ExchangeRequest next; !WaitForShutdown(kPause);) {
      v1::ExchangeRequest request = std::exchange(next, {});
      request.set_worker_id(kName);
      request.set_incarnation(kIncarnation);
      request.set_run_id(self_.run_id());
      request.set_worker_secret(self_.worker_secret());
      request.set_capacity(held.empty() ? kCapacity : 0);
      request.set_wait_ms(200);
      // Newer weights would end the wait for groups.
      request.mutable_loaded_version()->set_learner_epoch(1U << 30);
      for (const auto& [id, ref] : held) *request.add_held() = ref;
      const auto response = client_.Exchange(request);
      if (!response.ok()) {
        if (const auto joined = client_.RegisterWorker(self_); joined.ok())
          self_.set_run_id(joined->run_id());
        continue;
      }
      for (const v1::LeaseRef& ref : response->revoked()) held.erase(ref.group_id());
      for (const v1::Lease& lease : response->leases()) Take(lease, held, next);
    }
  }

 private:
  void Take(const v1::Lease& lease, std::map<std::uint64_t, v1::LeaseRef>& held,
            v1::ExchangeRequest& next) {
    std::printf("%d\n", ++leases_);
    std::fflush(stdout);
    if (fault_ == "hangs") {
      held[lease.ref().group_id()] = lease.ref();
    } else if (fault_ == "unable") {
      v1::ReturnedLease& returned = *next.add_returned();
      *returned.mutable_ref() = lease.ref();
      returned.set_reason(v1::RETURN_REASON_WEIGHTS_UNAVAILABLE);
    } else {
      v1::Group group = HonestGroup(lease, kName, *FromProto(lease.min_version()));
      kBrokenGroups[static_cast<std::size_t>(leases_) % std::size(kBrokenGroups)].make(group);
      client_.SubmitGroup(self_, lease.ref(), EncodedGroup::Of(group)).status().IgnoreError();
    }
  }

  CoordinatorClient client_;
  v1::RegisterWorkerRequest self_;
  const std::string fault_;
  int leases_ = 0;
};

int Main(int argc, char** argv) {
  if (argc != 3) return ExitCode(InvalidArgument("broken_worker RUN_FOLDER CASE"));
  const auto config = LoadRunConfig(StoredConfigPath(argv[1]), {});
  if (!config.ok()) {
    std::fprintf(stderr, "broken_worker: %s\n", config.status().ToString().c_str());
    return ExitCode(config.status());
  }
  BrokenWorker(argv[1], *config, argv[2]).Run();
  return 0;
}

}  // namespace
}  // namespace buttress

int main(int argc, char** argv) {
  buttress::InstallShutdownHandlers();
  return buttress::Main(argc, argv);
}
