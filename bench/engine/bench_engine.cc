// Measures the embedded engine. For each line "<completions> <tokens>" on stdin, submits that many
// completions of random prompts at once and prints the seconds until the last one has ended.
// bench/engine/run.py runs it.
#include <c10/util/StringUtil.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>

#include "lib/base/os/clock.h"
#include "lib/base/text/random.h"
#include "lib/config/choice_option.h"
#include "rollout_worker/embedded_engine.h"

namespace buttress {
namespace {

constexpr std::chrono::milliseconds kPoll(1000);
constexpr std::int32_t kFirstToken = 3;
constexpr std::int32_t kTokens = 1000;

struct Flags {
  ModelPathConfig model;
  WorkerConfig worker;
  std::int64_t prompt_tokens = 64;
};

SampleRequest RandomRequest(std::uint64_t id, std::int64_t prompt_tokens, std::int32_t new_tokens) {
  RandomStream random({id, 0});
  SampleRequest request;
  request.id.group_id = id;
  for (std::int64_t i = 0; i < prompt_tokens; ++i) {
    request.prompt_token_ids.push_back(kFirstToken +
                                       static_cast<std::int32_t>(random.Uniform() * kTokens));
  }
  request.sampling.max_tokens = new_tokens;
  request.sampling.seed = id;
  return request;
}

Result<double> Time(InferenceEngine& engine, const Flags& flags, std::int64_t completions,
                    std::int32_t new_tokens) {
  static std::uint64_t next_id = 1;
  const double begin = MonotonicSeconds();
  for (std::int64_t i = 0; i < completions; ++i) {
    BUTTRESS_RETURN_IF_ERROR(
        engine.Submit(RandomRequest(next_id++, flags.prompt_tokens, new_tokens)));
  }
  for (std::int64_t ended = 0; ended < completions;) {
    for (const EngineResult& result : engine.Poll(kPoll)) {
      BUTTRESS_RETURN_IF_ERROR(result.status);
      if (static_cast<std::int32_t>(result.token_ids.size()) != new_tokens) {
        return FailedPrecondition(
            c10::str("a completion ended after ", result.token_ids.size(), " of ", new_tokens,
                     " tokens; the benchmark needs a model without end-of-sequence token"));
      }
      ++ended;
    }
  }
  return MonotonicSeconds() - begin;
}

Status Run(const Flags& flags) {
  BUTTRESS_ASSIGN_OR_RETURN(const auto engine,
                            MakeEmbeddedEngine(flags.model, flags.worker, PolicyVersion{}));
  std::int64_t completions = 0;
  std::int32_t new_tokens = 0;
  while (std::cin >> completions >> new_tokens) {
    BUTTRESS_ASSIGN_OR_RETURN(const double seconds, Time(*engine, flags, completions, new_tokens));
    std::printf("%.6f\n", seconds);
    std::fflush(stdout);
  }
  return OkStatus();
}

}  // namespace
}  // namespace buttress

int main(int argc, char** argv) {
  buttress::Flags flags;
  CLI::App app("Measures the embedded engine");
  app.add_option("model", flags.model.path, "Hugging Face folder")->required();
  AddChoice(app, "--dtype", flags.model.dtype, "dtype of the parameters");
  app.add_option("--threads", flags.worker.threads, "number of torch threads");
  app.add_option("--prompt-tokens", flags.prompt_tokens, "number of tokens of each prompt");
  CLI11_PARSE(app, argc, argv);
  const buttress::Status status = buttress::Run(flags);
  if (!status.ok()) std::fprintf(stderr, "bench_engine: %s\n", status.message().c_str());
  return buttress::ExitCode(status);
}
