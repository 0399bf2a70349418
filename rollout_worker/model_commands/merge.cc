#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>

#include "lib/base/os/file.h"
#include "lib/base/report/status.h"
#include "lib/config/choice_option.h"
#include "lib/policy/adapters/peft_folder.h"
#include "lib/policy/transformer.h"
#include "rollout_worker/commands.h"
#include "rollout_worker/model_commands/model_flags.h"

namespace buttress {
namespace {

struct Flags {
  std::string model;
  std::string adapter;
  std::string out;
  ModelDtype dtype = ModelDtype::kFloat32;
};

Status Merge(const Flags& flags) {
  std::error_code error;
  if (std::filesystem::exists(JoinPath(flags.out, "config.json"), error))
    return AlreadyExists(flags.out + " already holds a model; name another folder");
  BUTTRESS_ASSIGN_OR_RETURN(const auto model, Transformer::Load(flags.model, flags.dtype, {}));
  BUTTRESS_ASSIGN_OR_RETURN(Adapters adapters, LoadAdapters(flags.adapter, model->config()));
  model->Merge(adapters);
  return SaveModelFolder(*model, flags.model, flags.out);
}

}  // namespace

int RunMerge(int argc, char** argv) {
  CLI::App app("Writes a model with the adapters of a PEFT folder added to its weights", "merge");
  Flags flags;
  app.add_option("--model", flags.model, "Hugging Face folder that the adapters were trained on")
      ->required();
  app.add_option("--adapter", flags.adapter, "PEFT folder, such as <out>/model of a run.lora")
      ->required();
  app.add_option("--out", flags.out, "folder to write the merged model to")->required();
  AddChoice(app, "--dtype", flags.dtype,
            "of the written weights, which are summed in float32; bfloat16 loses the part of a "
            "change that is below its precision");
  return RunCommand(app, argc, argv, [&] { return Merge(flags); });
}

}  // namespace buttress
