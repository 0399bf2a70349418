#include "learner/output/publication.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "lib/base/os/file.h"
#include "lib/base/text/random.h"
#include "lib/policy/adapters/peft_folder.h"
#include "lib/weights/adapter_files.h"

namespace buttress {
namespace {

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
                                                        CoordinatorSource& source) {
  std::unique_ptr<Publication> started(new Publication(config));
  const LearnerConfig& local = config.local.learner;
  const std::string folder = JoinPath(config.local.out, "weights");
  BUTTRESS_RETURN_IF_ERROR(MakeFolders(folder));
  BUTTRESS_ASSIGN_OR_RETURN(started->server_,
                            WeightServer::Start(folder, local.listen, credentials));
  WeightStoreOptions options;
  options.folder = folder;
  options.run_id = source.run_id();
  options.sources = {local.advertise.empty() ? started->server_->address() : local.advertise};
  if (config.run.lora.on()) {
    const std::string& base = config.run.model.path;
    BUTTRESS_ASSIGN_OR_RETURN(const ModelConfig model, LoadModelConfig(base));
    options.weights_name = kAdapterWeightsName;
    options.companions = {{kAdapterConfigName, AdapterConfigText(config.run.lora, model, base)}};
  }
  BUTTRESS_ASSIGN_OR_RETURN(started->publisher_, WeightPublisher::Create(options));
  started->sync_ = std::make_unique<WeightSync>(
      *started->publisher_, [&source](const WeightManifest& m) { return source.Announce(m); });
  return started;
}

Status Publication::Publish(const PolicyVersion& version, Transformer& model) {
  published_bytes_ = 0;
  for (const auto& [name, tensor] : model.parameters())
    published_bytes_ += static_cast<double>(tensor.numel() * tensor.element_size());
  std::vector<Canary> canaries;
  if (NeedsCanaries(config_.local)) {
    BUTTRESS_ASSIGN_OR_RETURN(canaries, GreedyCanaries(model));
  }
  return sync_->Publish(
      version, model.share().weights ? CopyToHost(model, /*keeps=*/true) : model.parameters(),
      std::move(canaries));
}

Status Publication::GiveParts(const LocalSettings& local, Transformer& model) {
  if (NeedsCanaries(local)) BUTTRESS_RETURN_IF_ERROR(GreedyCanaries(model).status());
  CopyToHost(model, /*keeps=*/false);
  return OkStatus();
}

void Publication::Measure(StepMeasurements& measured) {
  measured.seconds_wait_weights = sync_->seconds_waited() - seconds_waited_;
  seconds_waited_ = sync_->seconds_waited();
  measured.published_bytes = published_bytes_;
  measured.unchanged_versions = static_cast<double>(sync_->unchanged_versions());
}

}  // namespace buttress
