// Reads the parts of tokenizer.json that determine how text is encoded and decoded.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/tokenizer/added_tokens.h"
#include "lib/tokenizer/bpe.h"
#include "lib/tokenizer/decoder.h"
#include "lib/tokenizer/normalizer.h"
#include "lib/tokenizer/pre_tokenizer.h"

namespace buttress {

// Ids are below this; the largest known vocabulary has 262,144 tokens.
inline constexpr std::int32_t kTokenIdEnd = 1 << 22;

// The special tokens that tokenizer(text) of transformers puts around the tokens of a text.
struct TokenFrame {
  std::vector<std::int32_t> before;
  std::vector<std::int32_t> after;
};

struct TokenizerJson {
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  Bpe bpe;
  std::vector<AddedToken> added_tokens;
  TokenFrame frame;  // what the post-processor adds
  Decoder decoder;
};

// Returns kInvalidArgument with the member that is malformed, or that is not supported and could
// change results.
Result<TokenizerJson> ParseTokenizerJson(std::string_view text);

}  // namespace buttress
