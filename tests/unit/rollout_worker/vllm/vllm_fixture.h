// A vLLM engine over scripted servers.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "rollout_worker/vllm/vllm_engine.h"
#include "tests/support/fakes/byte_tokenizer.h"
#include "tests/support/fakes/scripted_vllm.h"
#include "tests/support/temp_dir.h"

namespace buttress {

// The folders of the start model and of the versions, which vLLM ends without.
inline std::string WeightsFolder(const std::string& name) {
  static const TempDir dir;
  const std::string folder = dir.path() + "/" + name;
  std::filesystem::create_directories(folder);
  return folder;
}

inline const std::string kModelFolder = WeightsFolder("start");

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

inline std::unique_ptr<InferenceEngine> StartEngine(const VllmConfig& config, bool adapters = false,
                                                    InFlight in_flight = InFlight::kRecompute) {
  static const ByteTokenizer tokenizer;
  auto engine =
      MakeVllmEngine(StartModel(), config, PolicyVersion(), &tokenizer, adapters, in_flight);
  EXPECT_TRUE(engine.ok()) << engine.status().ToString();
  return engine.ok() ? *std::move(engine) : nullptr;
}

// Its group belongs to the first server.
inline SampleRequest RequestOf(std::int32_t index, std::int32_t max_tokens = 16) {
  SampleRequest request;
  request.id = {18, 2, index};
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
  manifest.folder = WeightsFolder("v1-" + std::to_string(step));
  manifest.canaries = ScriptedVllm::Canaries(manifest.folder);
  return manifest;
}

// The number of polls, 5 ms apart: 20 s. Unlike a clock, it does not count the time of a suspended
// machine.
inline constexpr int kPolls = 4000;

inline bool WaitUntil(const std::function<bool()>& holds) {
  for (int poll = 0; poll < kPolls; ++poll) {
    if (holds()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

struct ExpectedServer {
  std::string url;
  bool healthy = false;
  bool serving = false;
};

// Returns whether the servers of the engine reach the states `expected` within 20 s.
inline bool WaitForServers(const InferenceEngine& engine,
                           const std::vector<ExpectedServer>& expected) {
  return WaitUntil([&] {
    return std::ranges::equal(engine.stats().servers, expected,
                              [](const ServerState& state, const ExpectedServer& server) {
                                return state.url == server.url && state.healthy == server.healthy &&
                                       state.serving == server.serving;
                              });
  });
}

// Updates the weights and waits until every server serves them.
inline bool UpdateAll(InferenceEngine& engine, const WeightManifest& manifest) {
  const Status updated = engine.UpdateWeights(manifest);
  EXPECT_TRUE(updated.ok()) << updated.ToString();
  return WaitUntil([&] {
    return std::ranges::all_of(engine.stats().servers, [&](const ServerState& server) {
      return server.serving && server.weights_step == manifest.version.step;
    });
  });
}

// Checks that every token is the one that the weights of its segment give at its position.
inline void ExpectTokensOfSegments(const EngineResult& completion) {
  std::vector<std::int32_t> expected;
  for (std::size_t i = 0; i < completion.segments.size(); ++i) {
    const Segment& segment = completion.segments[i];
    const std::size_t end = i + 1 < completion.segments.size()
                                ? static_cast<std::size_t>(completion.segments[i + 1].first_token)
                                : completion.token_ids.size();
    const std::string folder =
        segment.version.step == 0 ? kModelFolder : ManifestOf(segment.version.step).folder;
    const auto tokens =
        ScriptedVllm::Tokens(folder, 3 + static_cast<std::size_t>(segment.first_token), 3 + end);
    expected.insert(expected.end(), tokens.begin(), tokens.end());
  }
  EXPECT_EQ(completion.token_ids, expected);
  EXPECT_EQ(completion.logprobs.size(), completion.token_ids.size());
}

inline std::int64_t Reloads(const ScriptedVllm& server) {
  const std::vector<std::string> calls = server.control_calls();
  return std::count(calls.begin(), calls.end(), "/collective_rpc");
}

}  // namespace buttress
