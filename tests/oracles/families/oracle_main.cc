// family_oracle FOLDER REQUEST OUT: runs the model in FOLDER, with the adapters of the folder that
// `adapter` of the JSON file REQUEST names, if it does, on the sequences and prompts of REQUEST.
// Writes OUT/results.safetensors (logits, log-probs of the learner and of the engine, gradients of
// the summed log-probs, greedy tokens) and the saved model OUT/model. compare.py asks and judges.
#include <torch/types.h>
#include <torch/utils.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "lib/base/os/file.h"
#include "lib/policy/adapters/adapted_model.h"
#include "lib/policy/decode/cached_decoder.h"
#include "lib/policy/decode/generator.h"
#include "lib/policy/transformer.h"
#include "lib/weights/safetensors.h"
#include "tests/support/named_gradients.h"

namespace buttress {
namespace {

using Named = std::vector<std::pair<std::string, at::Tensor>>;

// Adds the logits and log-probs of each sequence, packed into one batch, and the gradients.
void AddNumbers(Transformer& model, const nlohmann::json& request, Named& results) {
  const PassTokens tokens = ScoredSequences(request["sequences"]);
  {
    const at::NoGradGuard no_grad;
    const auto logits = model.Logits(model.Hidden(tokens.tokens_N, tokens.lengths))
                            .split_with_sizes(tokens.lengths);
    for (std::size_t i = 0; i < logits.size(); ++i)
      results.emplace_back("logits." + std::to_string(i), logits[i]);
  }
  ModelPass pass(model, tokens, {.temperature = request["temperature"].get<double>()});
  const at::Tensor& logprobs = pass.output().logprobs_M;
  results.emplace_back("logprobs", logprobs.detach());
  NamedGradients gradients(model);
  pass.Backward(pass.GradientOf(logprobs.sum()), gradients);
  for (auto& [name, sum] : gradients.sums) results.emplace_back("gradient." + name, sum);
}

// Adds the log-probs of each sequence as the decoder with the cache computes them.
void AddEngineLogprobs(Transformer& model, const nlohmann::json& request, Named& results) {
  const at::NoGradGuard no_grad;
  CachedDecoder decoder(model);
  std::vector<at::Tensor> all;
  for (const auto& sequence : request["sequences"]) {
    const auto tokens = sequence.get<std::vector<std::int64_t>>();
    const auto length = static_cast<std::int64_t>(tokens.size());
    KvCache cache(model.config(), model.weights().embedding_VD.scalar_type(), decoder.device(),
                  BlocksFor(length));
    const auto blocks = cache.Allocate(BlocksFor(length));
    std::vector<CacheRow> rows;
    for (std::int64_t t = 0; t + 1 < length; ++t) {
      const auto token = static_cast<std::int32_t>(tokens[static_cast<std::size_t>(t)]);
      rows.push_back({token, t, blocks.data()});
    }
    const at::Tensor logits = decoder.Logits(decoder.Run(rows, {}, cache));
    const double temperature = request["temperature"];
    all.push_back(at::log_softmax(logits.to(at::kFloat) / temperature, -1)
                      .gather(1, torch::tensor(tokens).narrow(0, 1, length - 1).unsqueeze(1))
                      .squeeze(1));
  }
  results.emplace_back("engine_logprobs", at::cat(all));
}

void AddGreedy(Transformer& model, const nlohmann::json& request, Named& results) {
  Generator generator(model, {.max_running = 8, .kv_cache_tokens = 2048});
  SamplingParams sampling;
  sampling.temperature = 0;
  sampling.max_tokens = request["new_tokens"];
  sampling.stop_token_ids = model.config().eos_token_ids;
  std::uint64_t key = 0;
  for (const auto& prompt : request["prompts"]) {
    const Status added = generator.Add(key++, prompt.get<std::vector<std::int32_t>>(), sampling);
    TORCH_CHECK(added.ok(), added.ToString());
  }
  while (generator.running() + generator.waiting() > 0) {
    for (const auto& done : generator.Step()) {
      results.emplace_back("greedy." + std::to_string(done.key),
                           torch::tensor(done.token_ids, torch::kInt32));
    }
  }
}

Status WriteResults(const std::string& path, const Named& results) {
  std::vector<SafetensorsWriter::Declared> table;
  Named floats;
  for (const auto& [name, tensor] : results)
    floats.emplace_back(name, tensor.to(at::kFloat).contiguous());
  for (const auto& [name, tensor] : floats)
    table.push_back({name, SafetensorsDtype(tensor), tensor.sizes().vec()});
  BUTTRESS_ASSIGN_OR_RETURN(const auto writer,
                            SafetensorsWriter::Create(path, table, {{"format", "pt"}}));
  for (const auto& [name, tensor] : floats) {
    at::Tensor storage;
    BUTTRESS_RETURN_IF_ERROR(writer->Append(TensorBytes(tensor, storage)));
  }
  return writer->Finish().status();
}

Status Run(const std::string& folder, const std::string& request_path, const std::string& out) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::string text, ReadFile(request_path));
  const auto request = nlohmann::json::parse(text);
  const bool half = request["dtype"] == "bfloat16";
  BUTTRESS_ASSIGN_OR_RETURN(
      const auto model,
      Transformer::Load(folder, half ? ModelDtype::kBfloat16 : ModelDtype::kFloat32, {}));
  if (request.contains("adapter"))
    BUTTRESS_RETURN_IF_ERROR(AddAdapters(request["adapter"].get<std::string>(), *model));
  Named results;
  AddNumbers(*model, request, results);
  AddEngineLogprobs(*model, request, results);
  AddGreedy(*model, request, results);
  BUTTRESS_RETURN_IF_ERROR(WriteResults(JoinPath(out, "results.safetensors"), results));
  return SaveModelFolder(*model, folder, JoinPath(out, "model"));
}

}  // namespace
}  // namespace buttress

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fputs("usage: family_oracle FOLDER REQUEST OUT\n", stderr);
    return 2;
  }
  const buttress::Status status = buttress::Run(argv[1], argv[2], argv[3]);
  if (status.ok()) return 0;
  std::fprintf(stderr, "family_oracle: %s\n", status.ToString().c_str());
  return 1;
}
