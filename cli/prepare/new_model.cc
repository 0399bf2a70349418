// `buttress new-model`: writes a Hugging Face folder without weights, for `buttress sft`.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "cli/command.h"
#include "cli/prepare/new_model_folder.h"
#include "lib/config/choice_option.h"

namespace buttress {

std::function<Status()> AddNewModel(CLI::App& app) {
  struct Flags {
    std::string folder;
    NewModelOptions model;
  };

  const auto flags = std::make_shared<Flags>();
  app.add_option("--out", flags->folder, "folder to create")->required();
  AddChoice(app, "--family", flags->model.family, "family of the model");
  app.add_option("--characters", flags->model.characters,
                 "all characters of prompts and responses; each becomes a token");
  app.add_option("--text", flags->model.text,
                 "instead of --characters: JSONL from whose strings a byte-level BPE like Qwen2's "
                 "is trained");
  app.add_option("--tokens", flags->model.tokens,
                 "size of the BPE vocabulary, special tokens included")
      ->capture_default_str();
  app.add_option("--vocab", flags->model.vocab, "rows of the embedding; 0: the number of tokens")
      ->capture_default_str();
  app.add_option("--layers", flags->model.layers, "decoder layers")->capture_default_str();
  app.add_option("--hidden", flags->model.hidden, "hidden size")->capture_default_str();
  app.add_option("--heads", flags->model.heads,
                 "attention heads; vLLM serves head sizes of 32, 64, 80, 96 and 128")
      ->capture_default_str();
  app.add_option("--kv-heads", flags->model.kv_heads, "key-value heads; 0: equal to --heads")
      ->capture_default_str();
  app.add_option("--intermediate", flags->model.intermediate, "size of the feed-forward layers")
      ->capture_default_str();
  app.add_option("--max-positions", flags->model.max_positions,
                 "maximum tokens of prompt and response together")
      ->capture_default_str();
  app.add_option("--rope-theta", flags->model.rope_theta, "base of the rotary position embedding")
      ->capture_default_str();
  app.add_flag("--tied", flags->model.tied, "share the weights of embedding and output layer");
  return [flags]() -> Status {
    BUTTRESS_RETURN_IF_ERROR(WriteNewModel(flags->model, flags->folder));
    std::printf("new-model: %s\n", flags->folder.c_str());
    return OkStatus();
  };
}

}  // namespace buttress
