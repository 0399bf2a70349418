// Access to the folders and numbers that tests/golden/make_policy_golden.py writes with
// transformers.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lib/base/os/file.h"
#include "lib/policy/transformer.h"

namespace buttress {

inline std::string GoldenFolder(const std::string& name) {
  return std::string(BUTTRESS_GOLDEN) + "/" + name;
}

inline nlohmann::json GoldenNumbers() {
  const auto text = ReadFile(std::string(BUTTRESS_GOLDEN) + "/policy_logits.json");
  return nlohmann::json::parse(*text);
}

inline std::unique_ptr<Transformer> GoldenModel(const std::string& name,
                                                ModelDtype dtype = ModelDtype::kFloat32) {
  auto model = Transformer::Load(GoldenFolder(name), dtype, {});
  EXPECT_TRUE(model.ok()) << model.status().ToString();
  return *std::move(model);
}

inline at::Tensor TokensOf(const std::vector<std::int64_t>& tokens) {
  at::Tensor tensor =
      at::empty({static_cast<std::int64_t>(tokens.size())}, at::TensorOptions(at::kLong));
  std::copy(tokens.begin(), tokens.end(), tensor.data_ptr<std::int64_t>());
  return tensor;
}

inline double MaxDifference(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

}  // namespace buttress
