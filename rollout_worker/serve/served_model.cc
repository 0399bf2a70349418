#include "rollout_worker/serve/served_model.h"

#include <map>

namespace buttress {
namespace {

// 0.01, 0.02, ... 655.
std::vector<double> SecondBounds() {
  std::vector<double> bounds;
  for (double bound = 0.01; bound < 1000; bound *= 2) bounds.push_back(bound);
  return bounds;
}

}  // namespace

Result<std::vector<std::int32_t>> EncodeChat(const ServedModel& model,
                                             const nlohmann::ordered_json& messages,
                                             bool add_generation_prompt,
                                             const nlohmann::ordered_json& tools,
                                             const nlohmann::ordered_json& arguments) {
  // Without a chat template the model's own encoder says so.
  if (arguments.is_null() || !model.encoder.has_chat_template())
    return model.encoder.EncodeMessages(messages, add_generation_prompt, tools);
  std::map<std::string, std::string> texts;
  for (const auto& [name, value] : arguments.items()) texts[name] = value.dump();
  BUTTRESS_ASSIGN_OR_RETURN(const TextEncoder encoder,
                            TextEncoder::Create(*model.tokenizer, texts));
  return encoder.EncodeMessages(messages, add_generation_prompt, tools);
}

ServeMetrics::ServeMetrics()
    : all("serve"),
      running(all.Gauge("buttress_serve_running", "Completions that are decoded.")),
      waiting(all.Gauge("buttress_serve_waiting", "Completions that wait to be decoded.")),
      prompt_tokens(all.Counter("buttress_serve_prompt_tokens_total",
                                "Tokens of the prompts that were answered.")),
      completion_tokens(all.Counter("buttress_serve_completion_tokens_total",
                                    "Tokens of completions in answers.")),
      first_token_seconds(all.Histogram("buttress_serve_first_token_seconds",
                                        "Time from a streamed request to its first token.",
                                        SecondBounds())),
      seconds(all.Histogram("buttress_serve_seconds",
                            "Time from a request for completions to the end of its answer.",
                            SecondBounds())) {}

void ServeMetrics::CountAnswer(std::string_view path, unsigned code) {
  all.Counter("buttress_serve_answers_total",
              "Answers by path and HTTP code; 499: the client left before.",
              {{"path", std::string(path)}, {"code", std::to_string(code)}})
      .Increment();
}

}  // namespace buttress
