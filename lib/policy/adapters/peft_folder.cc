#include "lib/policy/adapters/peft_folder.h"

#include <c10/util/StringUtil.h>
#include <torch/types.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "lib/base/os/file.h"
#include "lib/policy/transformer.h"
#include "lib/policy/weights/finite_check.h"
#include "lib/weights/adapter_files.h"
#include "lib/weights/safetensors.h"

namespace buttress {
namespace {

using nlohmann::ordered_json;

// What an adapter_config.json has switched on changes the arithmetic; all of these must be off.
constexpr const char* kOff[] = {"use_dora",
                                "use_qalora",
                                "use_bdlora",
                                "lora_bias",
                                "bias",
                                "fan_in_fan_out",
                                "rank_pattern",
                                "alpha_pattern",
                                "modules_to_save",
                                "layer_replication",
                                "target_parameters",
                                "trainable_token_indices",
                                "alora_invocation_tokens"};

// How an adapter is drawn together with changes of the model, which its folder does not have.
constexpr std::string_view kChangesBase[] = {"pissa", "olora", "corda", "loftq"};

bool IsOff(const ordered_json& value) {
  return value.is_null() || value == false || value == "none" ||
         (value.is_structured() && value.empty());
}

// Of LoraConfig: all but the targets, which follow from the tensors.
Result<LoraConfig> ParseConfig(const std::string& path) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  const auto json = ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return DataLoss(path + ": not a JSON object");
  const auto kind = json.value("peft_type", ordered_json());
  if (kind != "LORA")
    return InvalidArgument(path + ": peft_type is " + kind.dump() + "; expected \"LORA\"");
  for (const char* key : kOff) {
    if (!json.contains(key) || IsOff(json[key])) continue;
    return InvalidArgument(
        c10::str(path, ": ", key, " is ", json[key].dump(),
                 ", which is not supported; train without it, or merge the adapter with peft "
                 "(merge_and_unload) and take the result as the model"));
  }
  const auto drawn = json.value("init_lora_weights", ordered_json());
  for (const std::string_view method : kChangesBase) {
    if (!drawn.is_string() || !drawn.get<std::string>().starts_with(method)) continue;
    return InvalidArgument(c10::str(
        path, ": init_lora_weights is ", drawn.dump(),
        ", which changes the model that the adapter is added to; save it with peft's "
        "path_initial_model_for_weight_conversion, which makes an adapter of the model as it was"));
  }
  const auto rank = json.value("r", ordered_json());
  const auto alpha = json.value("lora_alpha", ordered_json());
  if (!rank.is_number_integer() || rank.get<std::int64_t>() < 1)
    return DataLoss(c10::str(path, ": r is ", rank.dump(), "; expected a rank of 1 or more"));
  if (!alpha.is_number())
    return DataLoss(c10::str(path, ": lora_alpha is ", alpha.dump(), "; expected a number"));
  LoraConfig lora;
  lora.rank = rank.get<std::int64_t>();
  lora.alpha = alpha.get<double>();
  lora.rslora = json.value("use_rslora", ordered_json()) == true;
  return lora;
}

// The targets that a tensor of the file, such as "....self_attn.q_proj.lora_A.weight", is for.
std::vector<LoraTarget> TargetsIn(const SafetensorsFile& file) {
  std::vector<LoraTarget> targets;
  for (const ChoiceRow<LoraTarget>& row : kChoices<LoraTarget>) {
    const std::string part = "." + std::string(row.name) + ".lora_A.weight";
    if (std::ranges::any_of(file.tensors(),
                            [&](const TensorView& view) { return view.name.ends_with(part); }))
      targets.push_back(row.value);
  }
  return targets;
}

Result<at::Tensor> Read(const TensorView& view) {
  at::ScalarType type = at::kFloat;
  if (view.dtype == "BF16") type = at::kBFloat16;
  if (view.dtype == "F16") type = at::kHalf;
  if (type == at::kFloat && view.dtype != "F32")
    return DataLoss(view.name + " has dtype " + view.dtype + "; expected F32, BF16 or F16");
  const at::Tensor values = at::empty(view.shape, at::TensorOptions(type));
  BUTTRESS_RETURN_IF_ERROR(view.file->Read(view, values.mutable_data_ptr()));
  return values.to(at::kFloat);
}

Status ReadLayer(const SafetensorsFile& file, const BlockSpec& spec, std::size_t index,
                 const LoraConfig& lora, LayerAdapters& layer, std::set<std::string>& known) {
  for (const AdapterTensor& tensor : AdapterTensors(spec, lora)) {
    const std::string name = AdapterPrefix(index) + tensor.name;
    const TensorView* view = file.Find(name);
    if (view == nullptr)
      return InvalidArgument(name + " is missing; every block of the model needs one");
    if (view->shape != tensor.shape) {
      return InvalidArgument(c10::str(name, " has shape ", at::IntArrayRef(view->shape),
                                      "; the model and r = ", lora.rank, " need ",
                                      at::IntArrayRef(tensor.shape)));
    }
    BUTTRESS_ASSIGN_OR_RETURN(tensor.role(layer), Read(*view));
    known.insert(name);
  }
  return OkStatus();
}

Result<Adapters> Load(const SafetensorsFile& file, LoraConfig lora, const ModelConfig& model) {
  lora.targets = TargetsIn(file);
  if (lora.targets.empty()) {
    return InvalidArgument(
        "no tensor is the lora_A.weight of one of q_proj, k_proj, v_proj, o_proj, "
        "gate_proj, up_proj and down_proj");
  }
  BUTTRESS_RETURN_IF_ERROR(CheckTargets(lora, model));
  Adapters adapters = NoAdapters(lora, model);
  std::set<std::string> known;
  for (std::size_t i = 0; i < adapters.layers.size(); ++i) {
    BUTTRESS_RETURN_IF_ERROR(ReadLayer(file, model.blocks[i], i, lora, adapters.layers[i], known));
  }
  for (const TensorView& view : file.tensors()) {
    if (known.contains(view.name)) continue;
    return InvalidArgument(c10::str(view.name, " is not of a matrix of the model, ",
                                    model.architecture, " of ", model.blocks.size(), " blocks"));
  }
  BUTTRESS_RETURN_IF_ERROR(CheckFinite(NamedAdapters(adapters, model), "the adapter",
                                       "take an earlier one, or train it again"));
  return adapters;
}

}  // namespace

bool HasAdapters(const std::string& folder) {
  std::error_code error;
  return std::filesystem::exists(JoinPath(folder, kAdapterConfigName), error);
}

std::string AdapterConfigText(const LoraConfig& lora, const ModelConfig& model,
                              const std::string& base) {
  std::vector<std::string> targets;
  const auto tensors = AdapterTensors(model.blocks.front(), lora);
  for (const ChoiceRow<LoraTarget>& row : kChoices<LoraTarget>) {
    const std::string part = "." + std::string(row.name) + ".";
    if (std::ranges::any_of(tensors, [&](const AdapterTensor& t) {
          return t.name.find(part) != std::string::npos;
        }))
      targets.emplace_back(row.name);
  }
  const ordered_json json = {{"peft_type", "LORA"},
                             {"task_type", "CAUSAL_LM"},
                             {"base_model_name_or_path", base},
                             {"r", lora.rank},
                             {"lora_alpha", lora.alpha},
                             {"use_rslora", lora.rslora},
                             {"target_modules", targets},
                             {"lora_dropout", 0.0},
                             {"bias", "none"},
                             {"fan_in_fan_out", false},
                             {"use_dora", false},
                             {"modules_to_save", nullptr},
                             {"inference_mode", true}};
  return json.dump(2) + "\n";
}

Result<Adapters> LoadAdapters(const std::string& folder, const ModelConfig& model) {
  if (!HasAdapters(folder)) {
    return NotFound(folder + " has no " + kAdapterConfigName +
                    "; expected a folder of peft, such as <out>/model of a run with run.lora");
  }
  BUTTRESS_ASSIGN_OR_RETURN(const LoraConfig lora,
                            ParseConfig(JoinPath(folder, kAdapterConfigName)));
  const std::string path = JoinPath(folder, kAdapterWeightsName);
  BUTTRESS_ASSIGN_OR_RETURN(const auto file, SafetensorsFile::Open(path));
  auto adapters = Load(*file, lora, model);
  if (adapters.ok()) return adapters;
  const bool foreign = adapters.status().code() == StatusCode::kInvalidArgument;
  const std::string fix =
      foreign ? "; the adapter is of another model: name the one that it was trained on" : "";
  return Status(adapters.status().code(), adapters.status().message() + fix).Annotate(path);
}

Status SaveAdapters(const Adapters& adapters, const ModelConfig& model, const std::string& base,
                    const std::string& folder) {
  BUTTRESS_RETURN_IF_ERROR(MakeFolders(folder));
  std::vector<SafetensorsWriter::Declared> table;
  const auto tensors = NamedAdapters(adapters, model);
  for (const auto& [name, tensor] : tensors)
    table.push_back({name, SafetensorsDtype(tensor), tensor.sizes().vec()});
  BUTTRESS_ASSIGN_OR_RETURN(
      const auto writer,
      SafetensorsWriter::Create(JoinPath(folder, kAdapterWeightsName), table, {{"format", "pt"}}));
  for (const auto& [name, tensor] : tensors) {
    at::Tensor storage;
    BUTTRESS_RETURN_IF_ERROR(writer->Append(TensorBytes(tensor, storage)).Annotate(name));
  }
  BUTTRESS_RETURN_IF_ERROR(writer->Finish().status());
  return WriteFileAtomic(JoinPath(folder, kAdapterConfigName),
                         AdapterConfigText(adapters.config, model, base));
}

}  // namespace buttress
