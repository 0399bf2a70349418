// A vLLM engine over scripted servers.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "rollout_worker/vllm/vllm_engine.h"
#include "tests/support/byte_tokenizer.h"
#include "tests/support/scripted_vllm.h"

namespace buttress {

inline constexpr char kModelFolder[] = "/models/start";

inline VllmConfig ConfigOf(const std::vector<std::string>& servers) {
  VllmConfig config;
  config.servers = servers;
  config.attempts = 3;
  config.revive_ms = 20;
  config.health_interval_ms = 20;
  return config;
}

inline ModelPathConfig StartModel() {
  ModelPathConfig model;
  model.path = kModelFolder;
  return model;
}

inline std::unique_ptr<InferenceEngine> StartEngine(const VllmConfig& config) {
  static const ByteTokenizer tokenizer;
  auto engine = MakeVllmEngine(StartModel(), config, PolicyVersion(), &tokenizer);
  EXPECT_TRUE(engine.ok()) << engine.status().ToString();
  return engine.ok() ? *std::move(engine) : nullptr;
}

inline SampleRequest RequestOf(std::int32_t index, std::int32_t max_tokens = 16) {
  SampleRequest request;
  request.id = {17, 2, index};
  request.prompt_token_ids = {1, 2, 3};
  request.sampling.max_tokens = max_tokens;
  request.sampling.stop_token_ids = {7};
  request.sampling.temperature = 0.7;
  request.sampling.seed = 90211 + static_cast<std::uint64_t>(index);
  return request;
}

// What the tokens of these positions are as text.
inline std::string TextAt(const std::string& weights, std::size_t begin, std::size_t end) {
  const auto tokens = ScriptedVllm::Tokens(weights, begin, end);
  return std::string(tokens.begin(), tokens.end());
}

// Polls until there are `count` results, for at most half a minute.
inline std::vector<EngineResult> PollFor(InferenceEngine& engine, std::size_t count) {
  std::vector<EngineResult> results;
  for (int i = 0; i < 150 && results.size() < count; ++i) {
    for (EngineResult& result : engine.Poll(std::chrono::milliseconds(200)))
      results.push_back(std::move(result));
  }
  EXPECT_EQ(results.size(), count);
  results.resize(count);
  return results;
}

inline WeightManifest ManifestOf(std::uint64_t step) {
  WeightManifest manifest;
  manifest.version = {1, step, std::string(32, static_cast<char>('a' + step))};
  manifest.folder = "/weights/v1-" + std::to_string(step);
  manifest.canaries = ScriptedVllm::Canaries(manifest.folder);
  return manifest;
}

}  // namespace buttress
