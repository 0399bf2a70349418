// `buttress new-model`: a Hugging Face folder to start a cold start from.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "cli/command.h"
#include "cli/new_model_folder.h"

namespace buttress {

std::function<Status()> AddNewModel(CLI::App& app) {
  struct Flags {
    std::string folder;
    NewModelOptions model;
  };

  const auto flags = std::make_shared<Flags>();
  app.add_option("--out", flags->folder, "folder to write")->required();
  app.add_option("--characters", flags->model.characters,
                 "every character of prompts and responses; each becomes a token");
  app.add_option("--text", flags->model.text,
                 "instead: JSONL whose strings a byte-level BPE in Qwen2's manner is learned from");
  app.add_option("--tokens", flags->model.tokens, "tokens of the BPE, special ones included")
      ->capture_default_str();
  app.add_option("--vocab", flags->model.vocab,
                 "rows of the embedding; 0: as many as there are tokens")
      ->capture_default_str();
  app.add_option("--layers", flags->model.layers, "decoder layers")->capture_default_str();
  app.add_option("--hidden", flags->model.hidden, "width")->capture_default_str();
  app.add_option("--heads", flags->model.heads,
                 "attention heads; vLLM serves head sizes of 32, 64, 80, 96 and 128")
      ->capture_default_str();
  app.add_option("--kv-heads", flags->model.kv_heads, "key-value heads; 0: as many as heads")
      ->capture_default_str();
  app.add_option("--intermediate", flags->model.intermediate, "width of the feed-forward layers")
      ->capture_default_str();
  app.add_option("--max-positions", flags->model.max_positions,
                 "tokens of prompt and response at most")
      ->capture_default_str();
  app.add_option("--rope-theta", flags->model.rope_theta, "base of the rotary positions")
      ->capture_default_str();
  app.add_flag("--tied", flags->model.tied, "the output layer is the embedding");
  return [flags]() -> Status {
    BUTTRESS_RETURN_IF_ERROR(WriteNewModel(flags->model, flags->folder));
    std::printf("new-model: %s\n", flags->folder.c_str());
    return OkStatus();
  };
}

}  // namespace buttress
