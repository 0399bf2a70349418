// A model behind an OpenAI-compatible server. A vLLM needs no flags of a run: requests state every
// sampling field, and the text that the server returns is what is judged.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/net/retry.h"
#include "lib/http/http_client.h"
#include "lib/tokenizer/tokenizer.h"
#include "rollout_worker/evaluation/sampler.h"

namespace buttress {

struct OpenAiOptions {
  std::string url;             // "http://host:8000", with or without "/v1"; empty: no server
  std::string model;           // as /v1/models names it; empty: the only one that it has
  std::string api_key;         // empty: none
  std::int64_t requests = 64;  // open at the same time
  // Asks a vLLM that gets tokens for their log-probs. They are those of the distribution that is
  // sampled from under --logprobs-mode processed_logprobs, which the servers of a run have.
  bool logprobs = false;
  // Asks a vLLM that gets tokens for those of its completions, which it must return.
  bool token_ids = false;
};

// Stands for the tokenizer that only the server has: the tokens of a chat are the bytes of its
// messages as JSON.
class MessagesTokenizer : public Tokenizer {
 public:
  Result<std::vector<std::int32_t>> Encode(std::string_view text) const override;
  std::vector<std::int32_t> AddSpecialTokens(std::vector<std::int32_t> tokens) const override;
  Result<std::string> Decode(std::span<const std::int32_t> tokens, SpecialTokens) const override;
  std::string TokenBytes(std::int32_t token) const override;

  std::int32_t vocab_size() const override { return 256; }

  std::int32_t TokenId(std::string_view) const override { return -1; }

  std::int32_t AddedTokenId(std::string_view) const override { return -1; }

  std::int32_t eos_token_id() const override { return -1; }

  std::int32_t pad_token_id() const override { return -1; }

  const std::map<std::string, std::string>& special_tokens() const override { return no_tokens_; }

  const std::string& chat_template() const override { return template_; }

 private:
  const std::map<std::string, std::string> no_tokens_ = {};
  const std::string template_ = "{{ messages | tojson }}";
};

// Posts each completion to /v1/completions with the tokens of its prompt or, with `messages`, to
// /v1/chat/completions, where the server applies the chat template.
class OpenAiSampler : public EvalSampler {
 public:
  // Asks /v1/models. `messages` decodes the prompts, is null if they are tokens of the model, and
  // outlives the sampler. kInvalidArgument for an address without that call, or without the model;
  // kUnauthenticated; kUnavailable.
  static Result<std::unique_ptr<OpenAiSampler>> Open(const OpenAiOptions& options,
                                                     const Tokenizer* messages);

  const std::string& model() const { return options_.model; }

  // Whether it is vLLM, which takes sampling fields that OpenAI's API does not have.
  bool is_vllm() const { return is_vllm_; }

  // kInvalidArgument for sampling that the server cannot be asked for.
  Status Add(std::uint64_t key, const Prompt& prompt, const SamplingParams& sampling) override;

  // Waits for replies. A request that failed for want of a server begins kMostAttempts times, with
  // pauses that grow to ten seconds.
  Result<std::vector<SampledCompletion>> Step() override;

  std::int64_t open() const override {
    return static_cast<std::int64_t>(waiting_.size() + running_.size() + ended_.size());
  }

  bool only_texts() const override { return true; }

  static constexpr int kMostAttempts = 12;

 private:
  struct Call {
    std::uint64_t key = 0;
    std::string body;
    Backoff backoff;
    std::int64_t not_before_ms = 0;
  };

  OpenAiSampler(const OpenAiOptions& options, const Tokenizer* messages)
      : options_(options), messages_(messages) {}

  Status FindModel();
  HttpRequest Request(const std::string& call) const;
  Status CheckReply(const HttpReply& reply, const std::string& call) const;
  void Begin();
  Status End(Call call, const Result<HttpReply>& reply);
  Result<SampledCompletion> Read(const HttpReply& reply) const;

  OpenAiOptions options_;
  const Tokenizer* const messages_;
  bool is_vllm_ = false;
  std::int64_t positions_ = 0;  // of prompt and completion; 0: unknown
  std::deque<Call> waiting_;
  std::map<std::uint64_t, Call> running_;  // by transfer
  std::vector<std::pair<std::uint64_t, Result<HttpReply>>> replies_;
  std::vector<SampledCompletion> ended_;
  HttpClient http_;
};

}  // namespace buttress
