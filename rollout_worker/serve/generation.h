// The answer to one request for completions, from its prompts to its last byte.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/os/clock.h"
#include "lib/base/web/api_port.h"
#include "rollout_worker/openai/engine_hub.h"
#include "rollout_worker/openai/reply.h"
#include "rollout_worker/openai/request.h"
#include "rollout_worker/openai/text_stream.h"
#include "rollout_worker/serve/served_model.h"

namespace buttress {

// The hub owns it from Start to the end of its last sample, and calls it on its thread.
class Generation final : public SampleWatcher {
 public:
  // Checks and encodes the request and submits its samples. An error is the answer to the call,
  // which is open still. What is passed by reference outlives the hub. If the client leaves, its
  // samples are cancelled.
  static Status Start(const std::shared_ptr<ApiCall>& call, OpenAiRequest request,
                      const ServedModel& model, ServeMetrics& metrics, EngineHub& hub);

  // For Start.
  Generation(std::shared_ptr<ApiCall> call, OpenAiRequest request, const ServedModel& model,
             ServeMetrics& metrics);

  bool streams() const override { return request_.stream; }

  void OnProgress(const EngineResult& so_far) override;
  void OnDone(EngineResult result) override;

 private:
  // What a choice has shown of itself.
  struct Shown {
    std::optional<TextStream> text;
    std::size_t tokens = 0;
    std::int64_t characters = 0;
    bool begun = false;
  };

  Result<std::vector<SampleRequest>> Samples();
  Result<std::vector<std::int32_t>> Encode(const OpenAiPrompt& prompt) const;
  Status CheckLength(const std::vector<std::int32_t>& prompt);
  void Fail(const Status& status);
  void AddTokens(const EngineResult& result, Shown& shown, OpenAiChoice& choice) const;
  Status ReadAnswerOf(const EngineResult& result, OpenAiChoice& choice) const;
  Status ReadCalls(FinishReason reason, OpenAiChoice& choice) const;
  void Send(Shown& shown, OpenAiChoice& choice);
  void End();

  const std::shared_ptr<ApiCall> call_;
  OpenAiRequest request_;
  const ServedModel& model_;
  ServeMetrics& metrics_;
  const OpenAiReply reply_;
  const std::int64_t begin_ms_ = RealClock().MonotonicMs();
  std::vector<std::vector<std::int32_t>> prompts_;
  std::string opening_;                // of the answer, at the end of the prompt: tool_choice
  std::vector<Shown> shown_;           // by choice
  std::vector<OpenAiChoice> choices_;  // that have ended, of an answer that is no stream
  OpenAiUsage usage_;
  std::size_t open_ = 0;  // samples
  bool begun_ = false;    // the stream
  bool failed_ = false;
};

}  // namespace buttress
