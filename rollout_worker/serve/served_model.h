// The model that `buttress serve` answers with, and the measurements of its answers.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/report/metrics.h"
#include "lib/config/run_config.h"
#include "lib/data/text_encoder.h"
#include "lib/policy/model_config.h"
#include "lib/tokenizer/tokenizer.h"
#include "rollout_worker/openai/request.h"

namespace buttress {

struct ServedModel {
  std::string name = {};  // that requests name it by
  const Tokenizer* tokenizer = nullptr;
  TextEncoder encoder;
  ModelConfig config = {};
  std::int64_t max_tokens = 0;   // of a prompt with its completion
  std::int64_t max_running = 0;  // completions at once
  std::int64_t most_open = 0;    // completions that run or wait
  ToolFormat tools = ToolFormat::kHermes;
  ModelDtype dtype = ModelDtype::kFloat32;
};

// Returns the tokens of a chat by the chat template of the model. `arguments` are names that it
// reads as well, or null. kInvalidArgument for what the template does not take.
Result<std::vector<std::int32_t>> EncodeChat(const ServedModel& model,
                                             const nlohmann::ordered_json& messages,
                                             bool add_generation_prompt,
                                             const nlohmann::ordered_json& tools,
                                             const nlohmann::ordered_json& arguments);

// The metrics of a server. Thread-safe.
struct ServeMetrics {
  ServeMetrics();

  // Counts an answer; code 499 is a client that left before it was complete.
  void CountAnswer(std::string_view path, unsigned code);

  Metrics all;
  prometheus::Gauge& running;
  prometheus::Gauge& waiting;
  prometheus::Counter& prompt_tokens;
  prometheus::Counter& completion_tokens;
  prometheus::Histogram& first_token_seconds;
  prometheus::Histogram& seconds;
};

}  // namespace buttress
