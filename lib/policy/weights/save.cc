#include <torch/types.h>

#include <array>
#include <nlohmann/json.hpp>
#include <vector>

#include "lib/base/os/file.h"
#include "lib/base/report/check.h"
#include "lib/policy/adapters/peft_folder.h"
#include "lib/policy/transformer.h"
#include "lib/weights/safetensors.h"

namespace buttress {
namespace {

// The files of a model folder besides weights and config.json. They are copied if they exist.
constexpr std::array<std::string_view, 8> kCompanions = {"generation_config.json",
                                                         "tokenizer.json",
                                                         "tokenizer_config.json",
                                                         "special_tokens_map.json",
                                                         "added_tokens.json",
                                                         "vocab.json",
                                                         "merges.txt",
                                                         "chat_template.jinja"};

Status CopyCompanions(const std::string& from, const std::string& to) {
  for (const std::string_view name : kCompanions) {
    const Result<std::string> bytes = ReadFile(JoinPath(from, name));
    if (bytes.ok()) {
      BUTTRESS_RETURN_IF_ERROR(WriteFileAtomic(JoinPath(to, name), *bytes));
    } else if (bytes.status().code() != StatusCode::kNotFound) {
      return bytes.status();
    }
  }
  return OkStatus();
}

// Writes the config.json of the source with the dtype of the written weights.
Status WriteConfig(const std::string& from, const std::string& to, std::string_view dtype) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::string text, ReadFile(JoinPath(from, "config.json")));
  auto config = nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!config.is_object()) return DataLoss(JoinPath(from, "config.json") + ": not a JSON object");
  const bool transformers_4 = config.contains("torch_dtype") && !config.contains("dtype");
  config[transformers_4 ? "torch_dtype" : "dtype"] = dtype;
  return WriteFileAtomic(JoinPath(to, "config.json"), config.dump(2) + "\n");
}

Status WriteWeights(const Transformer& model, const std::string& path) {
  std::vector<SafetensorsWriter::Declared> table;
  for (const auto& [name, tensor] : model.parameters()) {
    table.push_back({name, SafetensorsDtype(tensor), tensor.sizes().vec()});
  }
  BUTTRESS_ASSIGN_OR_RETURN(const auto writer,
                            SafetensorsWriter::Create(path, table, {{"format", "pt"}}));
  for (std::size_t unit = 0; unit < model.units().size(); ++unit) {
    const HeldUnit held = model.Hold(unit);
    for (const auto& [name, tensor] : model.units()[unit].parameters) {
      at::Tensor storage;
      BUTTRESS_RETURN_IF_ERROR(writer->Append(TensorBytes(tensor, storage)).Annotate(name));
    }
  }
  return writer->Finish().status();
}

}  // namespace

Status SaveModelFolder(const Transformer& model, const std::string& source_folder,
                       const std::string& folder, bool writes) {
  const bool adapted = model.adapters() != nullptr;
  std::vector<HeldUnit> held;  // adapters are small enough to be held together
  for (std::size_t unit = 0; unit < model.units().size() && (adapted || !writes); ++unit) {
    if (!model.units()[unit].trainable) continue;
    held.push_back(model.Hold(unit));
    if (!adapted) held.clear();
  }
  if (!writes) return OkStatus();
  if (adapted) return SaveAdapters(*model.adapters(), model.config(), source_folder, folder);
  BUTTRESS_RETURN_IF_ERROR(MakeFolders(folder));
  BUTTRESS_RETURN_IF_ERROR(WriteWeights(model, JoinPath(folder, "model.safetensors")));
  const bool half = model.weights().embedding_VD.scalar_type() == at::kBFloat16;
  BUTTRESS_RETURN_IF_ERROR(WriteConfig(source_folder, folder, half ? "bfloat16" : "float32"));
  return CopyCompanions(source_folder, folder);
}

NamedTensors CopyToHost(const Transformer& model, bool keeps) {
  NamedTensors copies;
  for (std::size_t unit = 0; unit < model.units().size(); ++unit) {
    if (!model.units()[unit].trainable) continue;
    const HeldUnit held = model.Hold(unit);
    if (!keeps) continue;
    for (const auto& [name, tensor] : model.units()[unit].parameters)
      copies.emplace_back(name, tensor.detach().to(at::kCPU, tensor.scalar_type(),
                                                   /*non_blocking=*/false, /*copy=*/true));
  }
  return copies;
}

std::string_view TensorBytes(const at::Tensor& tensor, at::Tensor& storage) {
  storage = tensor.detach().to(at::kCPU).contiguous();
  return {static_cast<const char*>(storage.const_data_ptr()), storage.nbytes()};
}

std::string SafetensorsDtype(const at::Tensor& tensor) {
  const at::ScalarType type = tensor.scalar_type();
  BUTTRESS_CHECK(type == at::kFloat || type == at::kBFloat16,
                 "parameters must be float32 or bfloat16");
  return type == at::kFloat ? "F32" : "BF16";
}

}  // namespace buttress
