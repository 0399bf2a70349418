#include "rollout_worker/evaluation/local_models.h"

#include <ATen/Parallel.h>

#include <exception>
#include <filesystem>
#include <set>
#include <utility>
#include <vector>

#include "lib/base/os/file.h"
#include "lib/base/text/digest.h"
#include "lib/collectives/cuda_library.h"
#include "lib/config/choice.h"
#include "lib/policy/adapters/adapted_model.h"
#include "lib/policy/decode/generator.h"
#include "lib/policy/exception_status.h"
#include "lib/policy/stop_set.h"
#include "lib/policy/transformer.h"
#include "lib/policy/weights/finite_check.h"
#include "lib/tokenizer/tokenizer.h"
#include "lib/weights/part_file.h"
#include "rollout_worker/evaluation/sampler.h"

namespace buttress {
namespace {

// Decodes with the model in this process.
class ModelSampler : public EvalSampler {
 public:
  ModelSampler(Transformer& model, const Tokenizer& tokenizer, const WorkerConfig& worker)
      : model_(model),
        tokenizer_(tokenizer),
        threads_(static_cast<int>(worker.threads)),
        generator_(model,
                   {.max_running = worker.max_running, .kv_cache_tokens = worker.kv_cache_tokens}) {
  }

  Status Add(std::uint64_t key, const Prompt& prompt, const SamplingParams& sampling) override {
    return generator_.Add(key, prompt.token_ids, sampling, &tokenizer_);
  }

  Result<std::vector<SampledCompletion>> Step() override {
    try {
      return Decode();
    } catch (const std::exception& e) {
      return StatusOf(e, "lower local.worker.kv_cache_tokens or local.worker.max_running");
    }
  }

  std::int64_t open() const override { return generator_.running() + generator_.waiting(); }

  bool only_texts() const override { return false; }

 private:
  Result<std::vector<SampledCompletion>> Decode() {
    if (!std::exchange(prepared_, true)) at::set_num_threads(threads_);  // of this thread alone
    std::vector<SampledCompletion> completions;
    for (GeneratedSequence& sequence : generator_.Step()) {
      if (sequence.finish_reason == FinishReason::kError) {
        BUTTRESS_RETURN_IF_ERROR(
            CheckFinite(model_.parameters(), "the weights of the model", "evaluate another one"));
        return DataLoss(
            "the logits of the model are not finite, though its weights are; check its "
            "config.json, or evaluate it in float32");
      }
      SampledCompletion& completion = completions.emplace_back();
      completion.key = sequence.key;
      completion.finish_reason = sequence.finish_reason;
      completion.tokens = static_cast<std::int64_t>(sequence.token_ids.size());
      double sum = 0;
      for (const float logprob : sequence.logprobs) sum += logprob;
      completion.logprob = sum;
      completion.token_ids = std::move(sequence.token_ids);
    }
    return completions;
  }

  const Transformer& model_;
  const Tokenizer& tokenizer_;
  const int threads_;
  bool prepared_ = false;
  Generator generator_;
};

// The SHA-256 of the safetensors of a folder, in the order of their names.
Result<std::string> DigestOfWeights(const std::string& folder) {
  std::set<std::string> paths;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    if (it->path().extension() == ".safetensors") paths.insert(it->path().string());
  }
  std::string digests;
  for (const std::string& path : paths) {
    BUTTRESS_ASSIGN_OR_RETURN(const std::string digest, Sha256OfFile(path));
    digests += digest;
  }
  return ToHex(Sha256Of(digests));
}

Result<nlohmann::ordered_json> SettingsOfModel(const EvalOptions& options) {
  nlohmann::ordered_json settings = {{"model", options.model.path}};
  BUTTRESS_ASSIGN_OR_RETURN(settings["weights_sha256"], DigestOfWeights(options.model.path));
  settings["dtype"] = ChoiceName(options.model.dtype);
  if (!options.adapter.empty()) {
    settings["adapter"] = options.adapter;
    BUTTRESS_ASSIGN_OR_RETURN(settings["adapter_sha256"], DigestOfWeights(options.adapter));
  }
  return settings;
}

// kInvalidArgument for a folder of a run that is no Hugging Face folder.
Status CheckIsModel(const std::string& folder) {
  const auto has = [&folder](const char* name) {
    std::error_code none;
    return std::filesystem::exists(JoinPath(folder, name), none);
  };
  if (has("config.json")) return OkStatus();
  if (has("checkpoint.json"))
    return InvalidArgument(folder +
                           " is a checkpoint, whose weights the ranks divide; name the model, best "
                           "or evals/... of the run, or a copy of weights/... with its tokenizer");
  if (has("manifest.json"))
    return InvalidArgument(folder +
                           " has weights alone; name a copy that has config.json and the tokenizer "
                           "of the run's model next to them");
  if (has("model/config.json"))
    return InvalidArgument(folder + " is a run; name its model: " + JoinPath(folder, "model"));
  return OkStatus();
}

Result<EvalResult> EvaluateModel(const EvalOptions& options, const OpenEvalInputs& open) {
  BUTTRESS_RETURN_IF_ERROR(CheckIsModel(options.model.path));
  BUTTRESS_RETURN_IF_ERROR(CheckConversations(options));
  ModelDevice device{.cuda = options.worker.device == ComputeDevice::kCuda, .index = 0};
  if (device.cuda) {
    BUTTRESS_ASSIGN_OR_RETURN(device.index, OpenGpu(options.worker.gpu, "eval", "--device cpu"));
  }
  BUTTRESS_ASSIGN_OR_RETURN(const auto tokenizer, Tokenizer::Load(options.model.path));
  nlohmann::ordered_json settings;
  if (!options.results.empty()) {
    BUTTRESS_ASSIGN_OR_RETURN(settings, SettingsOfModel(options));
  }
  BUTTRESS_ASSIGN_OR_RETURN(const EvalInputs inputs, open(options, *tokenizer, settings));
  BUTTRESS_ASSIGN_OR_RETURN(const auto model,
                            Transformer::Load(options.model.path, options.model.dtype, device));
  if (!options.adapter.empty()) BUTTRESS_RETURN_IF_ERROR(AddAdapters(options.adapter, *model));
  SamplingParams sampling = options.sampling;
  BUTTRESS_RETURN_IF_ERROR(
      DecideStops(model->config(), tokenizer.get(), sampling).Annotate("run.sampling"));
  ModelSampler sampler(*model, *tokenizer, options.worker);
  return SampleAndScore(options, inputs, sampling, *tokenizer, sampler);
}

}  // namespace

const LocalModels kLocalModels = {EvaluateModel, LoadReferenceModel};

}  // namespace buttress
