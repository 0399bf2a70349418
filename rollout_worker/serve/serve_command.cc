#include "rollout_worker/serve/serve_command.h"

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <sstream>

#include "lib/base/net/address.h"
#include "lib/base/net/secret.h"
#include "lib/base/os/clock.h"
#include "lib/base/os/shutdown.h"
#include "lib/base/report/log.h"
#include "lib/chat/tool_calls.h"
#include "lib/config/choice_option.h"
#include "lib/data/template_argument_option.h"
#include "rollout_worker/commands.h"
#include "rollout_worker/embedded_engine.h"
#include "rollout_worker/model_commands/model_flags.h"
#include "rollout_worker/serve/api.h"

namespace buttress {
namespace {

constexpr std::chrono::milliseconds kStep(100);
constexpr std::int64_t kMaxKeyBytes = 65536;
constexpr std::int64_t kQueuedPerRunning = 3;  // the engine takes four times what it runs

struct ServeFlags {
  ModelPathConfig model;
  WorkerConfig worker;
  ServeOptions options;
  std::string adapter;
  std::string name;
  std::string key_file;
  ToolFormat tools = ToolFormat::kAuto;
  std::map<std::string, std::string> template_arguments;
  std::int64_t max_queued = -1;  // -1: the most that the engine takes
  std::int64_t drain_s = 30;
};

Result<std::vector<std::string>> ReadKeys(const std::string& path) {
  std::vector<std::string> keys;
  if (path.empty()) return keys;
  BUTTRESS_ASSIGN_OR_RETURN(const std::string text, ReadSecretFile(path, kMaxKeyBytes));
  std::istringstream lines(text);
  for (std::string key; lines >> key;) keys.push_back(key);
  if (keys.empty()) return InvalidArgument(path + ": expected an API key on each line");
  return keys;
}

Result<ServedModel> Describe(const ServeFlags& flags, const Tokenizer& tokenizer) {
  const WorkerConfig& worker = flags.worker;
  BUTTRESS_ASSIGN_OR_RETURN(TextEncoder encoder,
                            TextEncoder::Create(tokenizer, flags.template_arguments));
  ServedModel model{.name = flags.name, .tokenizer = &tokenizer, .encoder = std::move(encoder)};
  if (model.name.empty()) model.name = flags.model.path;
  BUTTRESS_ASSIGN_OR_RETURN(model.config, LoadModelConfig(flags.model.path));
  model.max_tokens = std::min(model.config.max_positions, worker.kv_cache_tokens);
  model.max_running = worker.max_running;
  const std::int64_t most_queued = kQueuedPerRunning * worker.max_running;
  if (flags.max_queued > most_queued) {
    return InvalidArgument("--max-queued " + std::to_string(flags.max_queued) +
                           "; expected at most three times --max-running, " +
                           std::to_string(most_queued));
  }
  model.most_open = worker.max_running + (flags.max_queued < 0 ? most_queued : flags.max_queued);
  model.tools =
      flags.tools == ToolFormat::kAuto ? FormatOf(tokenizer.chat_template()) : flags.tools;
  model.dtype = flags.model.dtype;
  return model;
}

// Lets the open calls end, and their clients read what is left.
void WaitForCalls(ServeApi& api, std::int64_t seconds) {
  api.Drain();
  const std::int64_t until_ms = RealClock().MonotonicMs() + seconds * 1000;
  while (api.calls() > 0 && RealClock().MonotonicMs() < until_ms)
    std::this_thread::sleep_for(kStep);
  if (api.calls() > 0)
    Log(kWarn, "answers are cut, because the time to drain is over", {{"open", api.calls()}});
}

Status Serve(const ServeFlags& flags) {
  ServeOptions options = flags.options;
  BUTTRESS_ASSIGN_OR_RETURN(options.keys, ReadKeys(flags.key_file));
  const auto tokenizer = Tokenizer::Load(flags.model.path);
  BUTTRESS_RETURN_IF_ERROR(AsInput(tokenizer.status()));
  BUTTRESS_ASSIGN_OR_RETURN(const ServedModel model, Describe(flags, **tokenizer));
  BUTTRESS_ASSIGN_OR_RETURN(const auto engine,
                            MakeEmbeddedEngine(flags.model, flags.worker, {}, tokenizer->get()));
  if (!flags.adapter.empty()) {
    WeightManifest adapter;
    adapter.folder = flags.adapter;
    BUTTRESS_RETURN_IF_ERROR(engine->UpdateWeights(adapter));
  }
  BUTTRESS_ASSIGN_OR_RETURN(const auto api, ServeApi::Start(options, *engine, model));
  std::printf("serving %s on http://%s\n", model.name.c_str(),
              BoundAddress(options.listen, api->port()).c_str());
  std::fflush(stdout);
  while (!WaitForShutdown(kStep)) {
  }
  WaitForCalls(*api, flags.drain_s);
  return OkStatus();
}

void AddFlags(CLI::App& app, ServeFlags& flags) {
  WorkerConfig& worker = flags.worker;
  worker.threads = 0;
  worker.max_running = 64;
  flags.options.listen = "127.0.0.1:8000";
  app.add_option("--model", flags.model.path, "Hugging Face folder")->required();
  app.add_option("--adapter", flags.adapter, "PEFT folder of adapters for the model");
  app.add_option("--listen", flags.options.listen, "host:port; port 0 picks a free one")
      ->capture_default_str();
  app.add_option("--served-model-name", flags.name, "default: --model as it is given");
  AddChoice(app, "--dtype", flags.model.dtype, "parameters and activations");
  AddChoice(app, "--device", worker.device, "where the model runs");
  app.add_option("--gpu", worker.gpu, "GPU of --device cuda, counted from 0; default: the first")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--threads", worker.threads, "default: one per core")->check(CLI::PositiveNumber);
  app.add_option("--max-running", worker.max_running, "completions decoded together at most")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--max-queued", flags.max_queued,
                 "completions that wait at most; beyond it a request gets a 429; default: three "
                 "times --max-running, which is the bound")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--kv-cache-tokens", worker.kv_cache_tokens, "bound of the key-value cache")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--api-key-file", flags.key_file,
                 "file with a key on each line, one of which clients must send; default: none");
  AddChoice(app, "--tool-format", flags.tools, "how the model writes tool calls");
  AddTemplateArgument(app, flags.template_arguments);
  app.add_flag("--weight-updates", flags.options.weight_calls,
               "answer the calls by which a trainer brings new weights from a folder of this "
               "machine");
  app.add_option("--drain-s", flags.drain_s, "seconds for open completions after SIGTERM")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
}

}  // namespace

int RunServe(int argc, char** argv) {
  CLI::App app("Answers the OpenAI API with a model folder", "serve");
  ServeFlags flags;
  AddFlags(app, flags);
  SetLogRole("serve");
  return RunCommand(app, argc, argv, [&] { return Serve(flags); });
}

}  // namespace buttress
