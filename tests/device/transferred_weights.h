// What tests of native weight transfers share: the tensors, and a server that takes them.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lib/weights/safetensors.h"
#include "lib/weights/weight_files.h"
#include "tests/unit/rollout_worker/vllm/vllm_fixture.h"

namespace buttress {

using TensorBytes = std::map<std::string, std::string>;  // by name

// Writes the tensors of the table to the folder, with bytes that depend on `seed`.
inline TensorBytes WriteTensors(const std::string& folder,
                                const std::vector<SafetensorsWriter::Declared>& table, char seed) {
  TensorBytes tensors;
  for (const auto& tensor : table) {
    std::string& bytes = tensors[tensor.name];
    bytes.resize(DataBytes(tensor));
    for (std::size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<char>(seed + static_cast<char>(i % 251));
  }
  const auto written = WriteWeightFiles(folder, DivideWeights(table), [&](const std::string& name) {
    return std::string_view(tensors.at(name));
  });
  EXPECT_TRUE(written.ok()) << written.status().ToString();
  return tensors;
}

inline std::size_t WidthOf(const nlohmann::json& dtype_name) {
  return dtype_name == "float32" ? 4 : 2;
}

// A server that gives the calls of transfers to `receiver`, which must outlive it.
template <class Receiver>
ScriptedVllm::Settings TakesTransfers(const std::string& backend, Receiver& receiver) {
  ScriptedVllm::Settings settings;
  settings.transfer_backend = backend;
  settings.transfer = [&receiver](const std::string& path, const nlohmann::json& body) {
    return receiver.Handle(path, body);
  };
  return settings;
}

// From a buffer of a MiB on GPU `gpu`.
inline VllmConfig TransferConfig(const std::string& url, VllmWeights way, std::int64_t gpu) {
  VllmConfig config = ConfigOf({url});
  config.weights = way;
  config.transfer = {.gpu = gpu, .buffer_mib = 1};
  config.control_ms = 30000;
  return config;
}

// A version that the server names by its tag, as weights are that arrived by a transfer.
inline WeightManifest TransferredManifest(std::uint64_t step) {
  WeightManifest manifest = ManifestOf(step);
  manifest.canaries = ScriptedVllm::Canaries(ToString(manifest.version));
  return manifest;
}

}  // namespace buttress
