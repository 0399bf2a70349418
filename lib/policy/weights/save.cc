#include <torch/types.h>

#include <array>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "lib/base/os/file.h"
#include "lib/base/report/check.h"
#include "lib/policy/adapters/peft_folder.h"
#include "lib/policy/transformer.h"
#include "lib/weights/safetensors.h"
#include "lib/weights/weight_files.h"

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

// Gives the units to the files one after another.
Status WriteWeights(const Transformer& model, const std::string& folder) {
  const std::vector<PlannedFile> files = DivideWeights(DeclaredTensors(model.parameters()));
  auto file = files.begin();
  std::size_t written = 0;  // tensors of the file
  std::unique_ptr<SafetensorsWriter> writer;
  for (std::size_t unit = 0; unit < model.units().size(); ++unit) {
    const HeldUnit held = model.Hold(unit);
    for (const auto& [name, tensor] : model.units()[unit].parameters) {
      if (writer == nullptr) {
        BUTTRESS_ASSIGN_OR_RETURN(
            writer, SafetensorsWriter::Create(JoinPath(folder, file->name), file->tensors,
                                              {{"format", "pt"}}));
      }
      at::Tensor storage;
      BUTTRESS_RETURN_IF_ERROR(writer->Append(TensorBytes(tensor, storage)).Annotate(name));
      if (++written < file->tensors.size()) continue;
      BUTTRESS_RETURN_IF_ERROR(writer->Finish().status());
      writer.reset();
      written = 0;
      ++file;
    }
  }
  // What another model left under the other name would be read in place of these.
  const bool one = files.size() == 1;
  std::error_code ignored;
  std::filesystem::remove(JoinPath(folder, one ? kWeightsIndexName : kWeightsName), ignored);
  if (one) return OkStatus();
  return WriteFileAtomic(JoinPath(folder, kWeightsIndexName), WeightsIndexText(files));
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
  BUTTRESS_RETURN_IF_ERROR(WriteWeights(model, folder));
  const bool half = model.weights().embedding_VD.scalar_type() == at::kBFloat16;
  BUTTRESS_RETURN_IF_ERROR(WriteConfig(source_folder, folder, half ? "bfloat16" : "float32"));
  return CopyCompanions(source_folder, folder);
}

NamedTensors CopyToHost(const Transformer& model,
                        const std::function<bool(const std::string&)>& keeps) {
  NamedTensors copies;
  for (std::size_t unit = 0; unit < model.units().size(); ++unit) {
    if (!model.units()[unit].trainable) continue;
    const HeldUnit held = model.Hold(unit);
    for (const auto& [name, tensor] : model.units()[unit].parameters) {
      if (!keeps(name)) continue;
      copies.emplace_back(name, tensor.detach().to(at::kCPU, tensor.scalar_type(),
                                                   /*non_blocking=*/false, /*copy=*/true));
    }
  }
  return copies;
}

std::vector<SafetensorsWriter::Declared> DeclaredTensors(const NamedTensors& tensors) {
  std::vector<SafetensorsWriter::Declared> table;
  for (const auto& [name, tensor] : tensors)
    table.push_back({name, SafetensorsDtype(tensor), tensor.sizes().vec()});
  return table;
}

BytesOfTensor BytesByName(const NamedTensors& tensors) {
  std::map<std::string, std::string_view> bytes;
  for (const auto& [name, tensor] : tensors) {
    BUTTRESS_CHECK(tensor.is_cpu() && tensor.is_contiguous(), "the bytes are read where they are");
    bytes[name] = {static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()};
  }
  return [bytes = std::move(bytes)](const std::string& name) { return bytes.at(name); };
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
