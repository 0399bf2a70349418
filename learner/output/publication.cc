#include "learner/output/publication.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "learner/output/folder_ranks.h"
#include "lib/base/os/file.h"
#include "lib/base/text/random.h"
#include "lib/policy/adapters/peft_folder.h"
#include "lib/weights/adapter_files.h"
#include "lib/weights/weight_files.h"

namespace buttress {
namespace {

constexpr double kFirstCheckSeconds = 30;
constexpr std::size_t kCanaries = 8;
constexpr std::size_t kPromptTokens = 4;
constexpr std::size_t kTokens = 4;
// Common tokens have low ids; the last ids of a vocabulary may have no text.
constexpr std::int64_t kMaxId = 1000;

std::vector<Canary> Prompts(std::int64_t vocab_size) {
  std::vector<Canary> canaries(kCanaries);
  const auto ids = static_cast<std::uint64_t>(std::min(vocab_size, kMaxId));
  for (std::size_t c = 0; c < kCanaries; ++c) {
    for (std::size_t i = 0; i < kPromptTokens; ++i)
      canaries[c].prompt_token_ids.push_back(static_cast<std::int32_t>(MixSeed(c, i) % ids));
  }
  return canaries;
}

// Appends the most probable next token of each canary. It runs all tokens again instead of caching
// keys and values, because they are few.
Status AppendToken(Transformer& model, std::vector<Canary>& canaries) {
  std::vector<std::int64_t> tokens, lengths, last_rows;
  for (const Canary& canary : canaries) {
    tokens.insert(tokens.end(), canary.prompt_token_ids.begin(), canary.prompt_token_ids.end());
    tokens.insert(tokens.end(), canary.token_ids.begin(), canary.token_ids.end());
    lengths.push_back(
        static_cast<std::int64_t>(canary.prompt_token_ids.size() + canary.token_ids.size()));
    last_rows.push_back(static_cast<std::int64_t>(tokens.size()) - 1);
  }
  const at::Device device = model.weights().embedding_VD.device();
  const at::Tensor hidden_ND = model.Hidden(torch::tensor(tokens, at::kLong).to(device), lengths);
  const at::Tensor logits =
      model.Logits(hidden_ND.index_select(0, torch::tensor(last_rows, at::kLong).to(device)));
  const auto [logprobs, ids] = at::log_softmax(logits.to(at::kFloat), -1).max(-1);
  const at::Tensor host_logprobs = logprobs.cpu(), host_ids = ids.cpu();
  for (std::size_t c = 0; c < canaries.size(); ++c) {
    const float logprob = host_logprobs.data_ptr<float>()[c];
    if (!std::isfinite(logprob))
      return DataLoss("the weights of the policy give log-prob " + std::to_string(logprob));
    canaries[c].token_ids.push_back(
        static_cast<std::int32_t>(host_ids.data_ptr<std::int64_t>()[c]));
    canaries[c].logprobs.push_back(logprob);
  }
  return OkStatus();
}

}  // namespace

bool NeedsCanaries(const LocalSettings& local) { return local.worker.engine == EngineKind::kVllm; }

Result<std::vector<Canary>> GreedyCanaries(Transformer& model) {
  const at::NoGradGuard no_grad;
  std::vector<Canary> canaries = Prompts(model.config().vocab_size);
  for (std::size_t i = 0; i < kTokens; ++i) BUTTRESS_RETURN_IF_ERROR(AppendToken(model, canaries));
  return canaries;
}

Result<std::unique_ptr<Publication>> Publication::Start(const RunConfig& config,
                                                        const Credentials& credentials,
                                                        CoordinatorSource& source,
                                                        Collective& control,
                                                        const Transformer& model) {
  std::unique_ptr<Publication> started(new Publication(config, control));
  const std::string folder = JoinPath(config.local.out, "weights");
  if (started->leads()) BUTTRESS_RETURN_IF_ERROR(started->ServeFrom(folder, credentials, source));
  BUTTRESS_ASSIGN_OR_RETURN(started->files_, started->DivideOver(folder, model));
  const std::vector<PlannedFile> own = started->files_.own();
  for (const PlannedFile& file : own)
    for (const auto& tensor : file.tensors) started->own_.insert(tensor.name);
  if (started->leads()) {
    started->sync_ = std::make_unique<WeightSync>(
        folder, started->files_, started->publisher_.get(),
        [&source](const WeightManifest& m) { return source.Announce(m); });
  } else if (!own.empty()) {
    started->sync_ = std::make_unique<WeightSync>(folder, started->files_);
  }
  return started;
}

Status Publication::ServeFrom(const std::string& folder, const Credentials& credentials,
                              CoordinatorSource& source) {
  const LearnerConfig& local = config_.local.learner;
  BUTTRESS_RETURN_IF_ERROR(MakeFolders(folder));
  BUTTRESS_ASSIGN_OR_RETURN(server_, WeightServer::Start(folder, local.listen, credentials));
  WeightStoreOptions options;
  options.folder = folder;
  options.run_id = source.run_id();
  options.sources = {local.advertise.empty() ? server_->address() : local.advertise};
  if (config_.run.lora.on()) {
    const std::string& base = config_.run.model.path;
    BUTTRESS_ASSIGN_OR_RETURN(const ModelConfig model, LoadModelConfig(base));
    options.companions = {{kAdapterConfigName, AdapterConfigText(config_.run.lora, model, base)}};
  }
  BUTTRESS_ASSIGN_OR_RETURN(publisher_, WeightPublisher::Create(options));
  return OkStatus();
}

// Gives each file to one of the ranks that see the folder. Adapters are one small file.
Result<FilesByRank> Publication::DivideOver(const std::string& folder,
                                            const Transformer& model) const {
  FilesByRank files{DivideWeights(DeclaredTensors(model.parameters())), {0}, control_.rank()};
  if (config_.run.lora.on())
    files.files = {{kAdapterWeightsName, DeclaredTensors(model.parameters())}};
  if (files.files.size() == 1) return files;
  BUTTRESS_ASSIGN_OR_RETURN(
      const std::vector<bool> sees,
      RanksThatSee(folder, control_,
                   std::chrono::milliseconds(config_.local.learner.collective_timeout_ms)));
  std::vector<int> seeing;
  for (int rank = 0; rank < control_.size(); ++rank) {
    if (sees[static_cast<std::size_t>(rank)]) seeing.push_back(rank);
  }
  for (std::size_t i = 1; i < files.files.size(); ++i)
    files.writers.push_back(seeing[i % seeing.size()]);
  return files;
}

Status Publication::WhileWaiting(double seconds) {
  if (!leads()) return OkStatus();
  if (seconds < kFirstCheckSeconds) {  // a wait begins
    next_check_ = kFirstCheckSeconds;
    check_is_old_ = check_.valid();
  }
  if (!check_.valid()) {
    if (seconds < next_check_) return OkStatus();
    next_check_ = 2 * seconds;
    const std::string folder = JoinPath(config_.local.out, "weights");
    check_ = std::async(std::launch::async, [folder] { return VerifyNewest(folder); });
  }
  if (check_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return OkStatus();
  const Status status = check_.get();
  if (status.ok() || check_is_old_) return OkStatus();
  return Unavailable("the newest published weights are damaged, so that no worker can load them: " +
                     status.message() + "; a learner that starts again publishes them anew");
}

// Makes the folder of a version before any rank writes to it.
Status Publication::Begin(const PolicyVersion& version) {
  Status begun;
  if (leads()) begun = publisher_->Begin(version, files_.files);
  if (leads() && begun.ok()) begun = ExpectFilesOfOthers();
  if (files_.files.size() == 1 || control_.size() == 1) return begun;
  return AgreeOn(begun, control_,
                 std::chrono::milliseconds(config_.local.learner.collective_timeout_ms));
}

Status Publication::ExpectFilesOfOthers() const {
  for (std::size_t i = 0; i < files_.files.size(); ++i) {
    if (files_.writers[i] == control_.rank()) continue;
    BUTTRESS_RETURN_IF_ERROR(ExpectWritten(publisher_->folder(), files_.files[i].name));
  }
  return OkStatus();
}

Status Publication::Publish(const PolicyVersion& version, Transformer& model) {
  BUTTRESS_RETURN_IF_ERROR(Drain());
  BUTTRESS_RETURN_IF_ERROR(Begin(version));
  published_bytes_ = 0;
  for (const auto& [name, tensor] : model.parameters())
    published_bytes_ += static_cast<double>(tensor.numel() * tensor.element_size());
  const bool divided = model.share().weights;
  std::vector<Canary> canaries;
  if (NeedsCanaries(config_.local) && (leads() || divided)) {
    BUTTRESS_ASSIGN_OR_RETURN(canaries, GreedyCanaries(model));
  }
  const auto is_own = [this](const std::string& name) { return own_.contains(name); };
  NamedTensors own;
  if (divided) {
    own = CopyToHost(model, is_own);
  } else {
    for (const auto& parameter : model.parameters())
      if (is_own(parameter.first)) own.push_back(parameter);
  }
  BUTTRESS_RETURN_IF_ERROR(LeaveDevice(model));
  if (sync_ == nullptr) return OkStatus();
  return sync_->Publish(version,
                        divided ? ParameterCopy::Of(std::move(own)) : ParameterCopy::Start(own),
                        std::move(canaries));
}

// The version lets the servers wake up, so that every rank comes first.
Status Publication::LeaveDevice(const Transformer& model) {
  if (!config_.local.worker.vllm.launch.colocate) return OkStatus();
  const at::Device device = model.units().front().flat.device();
  if (!device.is_cpu()) c10::getDeviceAllocator(device.type())->emptyCache();
  return control_.Barrier();
}

void Publication::Measure(StepMeasurements& measured) {
  measured.seconds_wait_weights = sync_->seconds_waited() - seconds_waited_;
  seconds_waited_ = sync_->seconds_waited();
  measured.published_bytes = published_bytes_;
  measured.unchanged_versions = static_cast<double>(sync_->unchanged_versions());
}

}  // namespace buttress
