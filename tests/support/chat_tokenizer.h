// The golden tokenizer with the special tokens of every chat template of tests/golden. The target
// defines BUTTRESS_GOLDEN_DIR and compiles tests/unit/tokenizer/tokenizer_folder.cc.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/unit/tokenizer/tokenizer_folder.h"

namespace buttress {

// The tokenizer with `chat_template`, which is text.
inline std::unique_ptr<Tokenizer> TokenizerWithTemplate(const std::string& chat_template) {
  nlohmann::json tokenizer = PatchedTokenizer(nlohmann::json::object());
  nlohmann::json& added = tokenizer["added_tokens"];
  for (const char* text : {"<|begin_of_text|>",
                           "<|start_header_id|>",
                           "<|end_header_id|>",
                           "<|eot_id|>",
                           "<s>",
                           "</s>",
                           "[INST]",
                           "[/INST]",
                           "[AVAILABLE_TOOLS]",
                           "[/AVAILABLE_TOOLS]",
                           "[TOOL_RESULTS]",
                           "[/TOOL_RESULTS]",
                           "<start_of_turn>",
                           "<end_of_turn>",
                           "[gMASK]",
                           "<sop>",
                           "<|system|>",
                           "<|user|>",
                           "<|assistant|>",
                           "<|observation|>"}) {
    nlohmann::json token = added.back();
    token.update({{"id", token["id"].get<int>() + 1}, {"content", text}, {"special", true}});
    added.push_back(token);
  }
  const nlohmann::json config = {
      {"bos_token", "<s>"}, {"eos_token", "</s>"}, {"chat_template", chat_template}};
  return *LoadFrom(tokenizer.dump(), config.dump());
}

// The same with a template of tests/golden/chat_template.
inline std::unique_ptr<Tokenizer> TokenizerOfFamily(const std::string& family) {
  return TokenizerWithTemplate(ReadGolden("chat_template/" + family + ".jinja"));
}

}  // namespace buttress
