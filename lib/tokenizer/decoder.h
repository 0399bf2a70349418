// Turns the texts of tokens into text: the decoder of a tokenizer.json.
#pragma once

#include <cstddef>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "lib/base/report/status.h"

namespace buttress {

// ByteLevel, ByteFallback, Fuse, Metaspace, Replace, Strip and a Sequence of these. Thread-safe.
class Decoder {
 public:
  // kInvalidArgument names a type that is not supported.
  static Result<Decoder> FromJson(const nlohmann::json& spec);

  // Returns the text of tokens, whose texts are valid UTF-8. Bytes that are not UTF-8 together
  // become U+FFFD.
  Result<std::string> Decode(std::vector<std::string> tokens) const;

  // Returns the bytes that a token adds to a text behind other tokens.
  Result<std::string> TokenBytes(const std::string& token) const;

 private:
  // Changes the texts of the tokens, or their number.
  using Step = std::function<Status(std::vector<std::string>& tokens)>;

  static Result<Step> MakeStep(const nlohmann::json& spec, const std::string& path);

  std::vector<Step> steps_;
  bool byte_level_ = false;     // has a ByteLevel step
  bool byte_fallback_ = false;  // has a ByteFallback step
};

}  // namespace buttress
