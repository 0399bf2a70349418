// tests/golden/peer_advantages.json: advantages that the code of verl, TRL, A-GRAE and AVSPO gives
// for 200 batches (make_peer_advantages.py), against those of the estimators here. Each case names
// its tolerance and in what the codes differ.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lib/base/os/file.h"
#include "lib/config/load.h"
#include "lib/rl/advantage/advantage.h"
#include "tests/unit/rl/advantage/batch.h"

namespace buttress {
namespace {

// `has_gaps`: the completions that are marked as missing have no reward.
TestBatch PeerBatch(const nlohmann::json& recorded, bool has_gaps) {
  TestGroups groups;
  std::vector<double> components;
  std::vector<std::int32_t> lengths;
  for (std::size_t k = 0; k < recorded["rewards"].size(); ++k) {
    auto& group = groups.emplace_back();
    for (std::size_t i = 0; i < recorded["rewards"][k].size(); ++i) {
      const auto reward = recorded["rewards"][k][i].get<double>();
      const bool missing = has_gaps && recorded["missing"][k][i].get<int>() != 0;
      group.push_back(missing ? std::optional<double>() : std::optional<double>(reward));
      components.insert(components.end(), {reward, recorded["parts"][k][i].get<double>()});
      lengths.push_back(recorded["lengths"][k][i].get<std::int32_t>());
    }
  }
  TestBatch batch(groups);
  batch.set_components(components);
  batch.set_lengths(lengths);
  return batch;
}

TEST(PeerAdvantagesTest, AreThoseOfTheReleasedCode) {
  const auto text = ReadFile(std::string(BUTTRESS_GOLDEN) + "/peer_advantages.json");
  ASSERT_TRUE(text.ok()) << text.status().message();
  const nlohmann::json recorded = nlohmann::json::parse(*text);
  ASSERT_EQ(recorded["batches"].size(), 200);
  ASSERT_EQ(recorded["cases"].size(), 16);
  for (const auto& peer : recorded["cases"]) {
    const auto options = ParseAlgorithm(peer["settings"].get<std::vector<std::string>>());
    ASSERT_TRUE(options.ok()) << options.status().message();
    int compared = 0;
    double worst = 0;
    std::size_t worst_batch = 0;
    for (std::size_t b = 0; b < recorded["batches"].size(); ++b) {
      if (peer["advantages"][b].is_null()) continue;
      const TestBatch batch = PeerBatch(recorded["batches"][b], peer["has_gaps"].get<bool>());
      const auto out = ComputeAdvantages(batch.input(), *options);
      ASSERT_TRUE(out.ok()) << out.status().message();
      const auto expected = peer["advantages"][b].get<std::vector<double>>();
      ASSERT_EQ(out->advantages.size(), expected.size());
      ++compared;
      for (std::size_t i = 0; i < expected.size(); ++i) {
        const double error =
            std::abs(out->advantages[i] - expected[i]) / std::max(1.0, std::abs(expected[i]));
        if (!(error <= worst)) worst_batch = b;
        worst = std::max(worst, error);
      }
    }
    EXPECT_LE(worst, peer["tolerance"].get<double>())
        << peer["name"] << ", batch " << worst_batch << "; named difference: " << peer["differs"];
    EXPECT_GE(compared, 35) << peer["name"];
  }
}

}  // namespace
}  // namespace buttress
