#include "rollout_worker/run_worker.h"

#include <unistd.h>

#include <algorithm>
#include <climits>
#include <memory>
#include <random>
#include <string>

#include "lib/base/net/address.h"
#include "lib/base/net/secret.h"
#include "lib/base/os/file.h"
#include "lib/base/report/log.h"
#include "lib/base/report/metrics.h"
#include "lib/base/text/digest.h"
#include "lib/base/text/random.h"
#include "lib/config/load.h"
#include "lib/config/load_credentials.h"
#include "lib/config/run_folder.h"
#include "lib/rpc/coordinator_client.h"
#include "lib/tokenizer/tokenizer.h"
#include "lib/verify/sandbox/sandbox.h"
#include "lib/verify/verifier.h"
#include "lib/weights/fetcher.h"
#include "lib/weights/part_file.h"
#include "lib/weights/weight_server.h"
#include "rollout_worker/worker.h"

namespace buttress {
namespace {

// The worker continues with the groups that it holds while the coordinator is unreachable, for this
// long.
constexpr std::int64_t kCoordinatorPatienceMs = 600000;
// The retries of one submission; the submitter repeats it.
constexpr std::int64_t kSubmitPatienceMs = 5000;
constexpr int kWeightVersionsKept = 2;

std::uint64_t RandomIncarnation() {
  std::random_device device;
  return static_cast<std::uint64_t>(device()) << 32 | device();
}

// Returns the secret of this worker. Under an id of the configuration it is that of the process
// before, which this one replaces.
Result<std::string> WorkerSecret(const LocalSettings& local) {
  if (local.worker.id.empty()) return MakeSecret();
  const std::string folder = JoinPath(local.out, "workers");
  BUTTRESS_RETURN_IF_ERROR(MakeFolders(folder));
  return KeptSecret(JoinPath(folder, local.worker.id + ".secret"));
}

// Serves the probes, and /metrics, whose address it writes to <out>/workers/<id>.metrics and
// returns. Returns an empty address if there is to be no such port, or it cannot be opened: the
// worker runs without metrics, but not without probes that are asked for.
Result<std::string> ServeMetrics(const LocalSettings& local, const Credentials& credentials,
                                 const std::string& worker_id, Metrics& metrics) {
  if (local.worker.probes != "off")
    BUTTRESS_RETURN_IF_ERROR(metrics.ServeProbes(local.worker.probes).status());
  if (local.worker.metrics == "off") return std::string();
  if (const Status served = metrics.Serve(local.worker.metrics, credentials); !served.ok()) {
    Log(kWarn, "the worker serves no metrics", {{"error", served.message()}});
    return std::string();
  }
  const std::string folder = JoinPath(local.out, "workers");
  const std::string address = BoundAddress(local.worker.metrics, metrics.port());
  BUTTRESS_RETURN_IF_ERROR(MakeFolders(folder));
  BUTTRESS_RETURN_IF_ERROR(
      WriteFileAtomic(JoinPath(folder, worker_id + ".metrics"), address + "\n"));
  return address;
}

// The fetcher of weights, and the server that relays them to other workers.
struct WeightTransport {
  std::unique_ptr<WeightFetcher> fetcher;
  std::unique_ptr<WeightServer> server;
  std::string address;  // of the server, as other workers reach it
};

Result<WeightTransport> OpenWeights(const LocalSettings& local, const Credentials& credentials,
                                    const std::string& worker_id, WorkerMetrics& metrics) {
  WeightTransport transport;
  if (local.worker.weights == WeightTransportKind::kShared) {
    transport.fetcher = MakeSharedFetcher();
    return transport;
  }
  WeightStoreOptions store;
  store.folder = local.worker.weights_dir.empty() ? JoinPath(local.out, "weights/" + worker_id)
                                                  : local.worker.weights_dir;
  store.keep = kWeightVersionsKept;
  BUTTRESS_RETURN_IF_ERROR(MakeFolders(store.folder));
  BUTTRESS_ASSIGN_OR_RETURN(transport.server,
                            WeightServer::Start(store.folder, local.worker.listen, credentials));
  GrpcFetcherOptions options;
  options.seed = HashText(worker_id);
  options.on_transfer = [&metrics](const WeightTransfer& transfer) { metrics.Count(transfer); };
  options.credentials = credentials;
  transport.address =
      local.worker.advertise.empty() ? transport.server->address() : local.worker.advertise;
  transport.fetcher = MakeGrpcFetcher(std::move(store), std::move(options));
  return transport;
}

struct Scoring {
  std::unique_ptr<ScoringPool> pool;
  std::unique_ptr<ControlScorer> controls;
};

Result<Scoring> StartScoring(const RunConfig& all, const Tokenizer& tokenizer, Metrics& metrics) {
  RewardConfig config = all.run.reward;
  config.python.output = RewardOutputPath(all.local.out);
  BUTTRESS_ASSIGN_OR_RETURN(const std::shared_ptr<const VerifierSet> verifiers,
                            VerifierSet::Make(config));
  ScoringOptions options = ScoringOptionsOf(config);
  options.threads = static_cast<std::size_t>(config.threads);
  BUTTRESS_ASSIGN_OR_RETURN(options.second, SecondVerifier::Make(config, metrics));
  options.noise = RewardNoise::Make(config.noise, all.run.seed, metrics);
  return Scoring{ScoringPool::Start(verifiers, tokenizer, options, metrics),
                 std::make_unique<ControlScorer>(verifiers, config, options.noise)};
}

}  // namespace

Result<std::string> WorkerIdOf(const WorkerConfig& config) {
  if (!config.id.empty()) {
    if (IsPlainFileName(config.id)) return config.id;
    return InvalidArgument("local.worker.id = '" + config.id +
                           "' becomes part of file names; use letters, digits, '-' and '_'");
  }
  char host[HOST_NAME_MAX + 1] = {};
  if (::gethostname(host, HOST_NAME_MAX) != 0)
    return Unavailable("this machine has no host name; set local.worker.id");
  constexpr std::size_t kSuffixBytes = 6;
  return std::string(host) + "-" + ToHex(MakeSecret().substr(0, kSuffixBytes));
}

Status RunWorker(const RunConfig& config, const Tokenizer& tokenizer, InferenceEngine& engine) {
  const LocalSettings& local = config.local;
  BUTTRESS_ASSIGN_OR_RETURN(const std::string worker_id, WorkerIdOf(local.worker));
  SetLogRole("rollout_worker/" + worker_id);
  BUTTRESS_ASSIGN_OR_RETURN(const Credentials credentials,
                            LoadCredentials(local.security, Program::kWorker));
  Metrics metrics("worker");
  WorkerMetrics worker_metrics(metrics);
  BUTTRESS_ASSIGN_OR_RETURN(const Scoring scoring, StartScoring(config, tokenizer, metrics));
  BUTTRESS_ASSIGN_OR_RETURN(const WeightTransport weights,
                            OpenWeights(local, credentials, worker_id, worker_metrics));
  BUTTRESS_ASSIGN_OR_RETURN(const std::string metrics_address,
                            ServeMetrics(local, credentials, worker_id, metrics));

  CoordinatorClientOptions coordinator = CoordinatorClientOptionsFrom(local, credentials);
  coordinator.give_up_after_ms = kCoordinatorPatienceMs;
  CoordinatorClient control_client(coordinator);
  coordinator.give_up_after_ms = kSubmitPatienceMs;
  CoordinatorClient submit_client(coordinator);
  v1::RegisterWorkerRequest self;
  self.set_worker_id(worker_id);
  self.set_incarnation(RandomIncarnation());
  BUTTRESS_ASSIGN_OR_RETURN(*self.mutable_worker_secret(), WorkerSecret(local));
  self.set_config_sha256(RunConfigHash(config));
  self.set_engine(std::string(ChoiceName(local.worker.engine)));
  self.set_weights_address(weights.address);
  self.set_metrics_address(metrics_address);
  WorkerRegistration registration(std::move(self));
  CoordinatorSession control(control_client, registration);
  CoordinatorSession submissions(submit_client, registration);
  Worker worker({control, submissions, engine, *scoring.pool, *scoring.controls, *weights.fetcher,
                 tokenizer, worker_metrics},
                WorkerOptions::From(config, worker_id));
  if (const std::string memory = OpenedSandboxText(); !memory.empty()) Log(kInfo, memory);
  return worker.Run();
}

}  // namespace buttress
