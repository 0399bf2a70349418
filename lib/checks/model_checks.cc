#include "lib/checks/model_checks.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "lib/base/os/file.h"
#include "lib/base/text/bounded_json.h"
#include "lib/config/paths.h"
#include "lib/config/token_bounds.h"
#include "lib/weights/adapter_files.h"
#include "lib/weights/safetensors.h"

namespace buttress {
namespace {

namespace fs = std::filesystem;

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

fs::path HubCache() {
  if (const std::string cache = Environment("HF_HUB_CACHE"); !cache.empty()) return cache;
  if (const std::string home = Environment("HF_HOME"); !home.empty()) return fs::path(home) / "hub";
  return fs::path(Environment("HOME")) / ".cache/huggingface/hub";
}

// The snapshot with a config.json that was written last.
std::optional<fs::path> NewestSnapshot(const fs::path& model) {
  std::optional<fs::path> newest;
  fs::file_time_type newest_time;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(model / "snapshots", error)) {
    if (!fs::exists(entry.path() / "config.json", error)) continue;
    const fs::file_time_type time = fs::last_write_time(entry.path(), error);
    if (error || (newest && time <= newest_time)) continue;
    newest = entry.path();
    newest_time = time;
  }
  return newest;
}

constexpr const char* kPath = "run.model.path";

bool CheckFolder(const std::string& path, Findings& findings) {
  std::error_code error;
  if (fs::is_directory(path, error)) return true;
  if (fs::exists(path, error)) {
    findings.Error(kPath, path + " is a file; name the folder with config.json in it");
  } else if (IsHubName(path)) {
    findings.Error(kPath, "no folder " + path + "; " + HubAdvice(path));
  } else {
    findings.Error(kPath, "no folder " + path +
                              "; name a Hugging Face folder: config.json, tokenizer.json and "
                              "safetensors");
  }
  return false;
}

void CheckWeights(const std::string& path, ModelFacts& facts, Findings& findings) {
  const auto weights = SafetensorsFolder::Open(path);
  if (!weights.ok()) {
    const bool absent = weights.status().code() == StatusCode::kNotFound;
    findings.Error("weights", weights.status().message() +
                                  (absent ? "; copy the weights into the folder, or make some with "
                                            "`buttress sft --model " +
                                                path + " --out DIR`"
                                          : "; copy the file again"));
    return;
  }
  const std::vector<std::string> names = (*weights)->names();
  for (const std::string& name : names) {
    std::int64_t elements = 1;
    for (const std::int64_t extent : (*weights)->Find(name)->shape) elements *= extent;
    facts.parameters += elements;
  }
  findings.Ok("weights", fmt::format("{} tensors, {} parameters", names.size(), facts.parameters));
}

void CheckTokenizer(const std::string& path, ModelFacts& facts, Findings& findings) {
  auto tokenizer = Tokenizer::Load(path);
  if (!tokenizer.ok()) {
    const bool absent = tokenizer.status().code() == StatusCode::kNotFound;
    findings.Error("tokenizer",
                   tokenizer.status().message() +
                       (absent ? "; copy tokenizer.json of the model into the folder, or save it "
                                 "with AutoTokenizer.from_pretrained(...).save_pretrained"
                               : ""));
    return;
  }
  facts.tokenizer = *std::move(tokenizer);
  const std::int64_t tokens = facts.tokenizer->vocab_size();
  if (facts.config && tokens > facts.config->vocab_size) {
    findings.Error("tokenizer",
                   fmt::format("tokenizer.json has {} tokens, the model's vocabulary {}; expected "
                               "no more than the vocabulary: take both from one model",
                               tokens, facts.config->vocab_size));
    return;
  }
  findings.Ok("tokenizer", fmt::format("{} tokens, {} chat template", tokens,
                                       facts.tokenizer->chat_template().empty() ? "no" : "with a"));
}

void CheckPositions(const RunSettings& run, const ModelConfig& model, Findings& findings) {
  const std::int64_t completion = MostBehindPrompt(run), positions = model.max_positions;
  if (completion >= positions) {
    findings.Error(run.env.on() ? "run.env.max_tokens" : "run.sampling.max_tokens",
                   fmt::format("{} tokens leave no place for a prompt in the {} positions of the "
                               "model; lower it",
                               completion, positions));
  } else {
    findings.Ok("positions",
                fmt::format("{}, for prompts of {} tokens at most", positions,
                            std::min(run.data.max_prompt_tokens, positions - completion)));
  }
}

}  // namespace

std::string HubAdvice(const std::string& name) {
  std::string folder = "models--" + name;
  folder.replace(folder.find('/'), 1, "--");
  const fs::path model = HubCache() / folder;
  if (const auto snapshot = NewestSnapshot(model)) {
    return fmt::format("{} is a name of Hugging Face's hub; its folder on this machine is {}", name,
                       snapshot->string());
  }
  const std::string target = name.substr(name.find('/') + 1);
  return fmt::format(
      "{} is a name of Hugging Face's hub and not in its cache {}; download it with `hf download "
      "{} "
      "--local-dir {}` and name that folder",
      name, HubCache().string(), name, target);
}

void CheckAdapter(const RunSettings& run, Findings& findings) {
  const std::string& folder = run.lora.adapter;
  if (folder.empty()) return;
  const char* const key = "run.lora.adapter";
  const auto text = ReadFile((fs::path(folder) / kAdapterConfigName).string());
  if (!text.ok()) {
    return findings.Error(key,
                          fmt::format("{} has no {}; name a folder of peft, such as <out>/model "
                                      "of a run with run.lora",
                                      folder, kAdapterConfigName));
  }
  const auto file = SafetensorsFile::Open((fs::path(folder) / kAdapterWeightsName).string());
  if (!file.ok()) return findings.Error(key, file.status().message() + "; copy the file again");
  const auto json = ParseBoundedJson(*text);
  const std::string base = json.ok() && json->is_object()
                               ? json->value("base_model_name_or_path", nlohmann::json()).dump()
                               : "";
  const std::string name = FileNameOf(run.model.path);
  if (base.find(name) == std::string::npos) {
    return findings.Warn(key, fmt::format("{} names {} as the model that it was trained on, and "
                                          "run.model.path is {}; check that they are the same",
                                          kAdapterConfigName, base, run.model.path));
  }
  findings.Ok(key, fmt::format("{} tensors", (*file)->tensors().size()));
}

ModelFacts CheckModel(const RunSettings& run, Findings& findings) {
  ModelFacts facts;
  const std::string& path = run.model.path;
  if (!CheckFolder(path, findings)) return facts;
  auto config = LoadModelConfig(path);
  if (config.ok()) {
    facts.config = *std::move(config);
    findings.Ok(kPath, fmt::format("{}, {} blocks", facts.config->architecture,
                                   facts.config->blocks.size()));
    CheckPositions(run, *facts.config, findings);
  } else {
    findings.Error(kPath, config.status().message());
  }
  CheckWeights(path, facts, findings);
  CheckTokenizer(path, facts, findings);
  return facts;
}

}  // namespace buttress
