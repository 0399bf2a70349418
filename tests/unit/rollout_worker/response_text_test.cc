#include "rollout_worker/scoring/response_text.h"

#include <gtest/gtest.h>

#include "tests/support/fakes/byte_tokenizer.h"

namespace buttress {
namespace {

constexpr std::int32_t kPiece = 1000;  // the first token of PieceTokenizer

// Tokens from kPiece on are pieces of text; the others are bytes.
class PieceTokenizer : public ByteTokenizer {
 public:
  explicit PieceTokenizer(std::vector<std::string> pieces) : pieces_(std::move(pieces)) {}

  Result<std::string> Decode(std::span<const std::int32_t> tokens, SpecialTokens) const override {
    std::string text;
    for (const std::int32_t token : tokens) text += TokenBytes(token);
    return text;
  }

  std::string TokenBytes(std::int32_t token) const override {
    return token < kPiece ? ByteTokenizer::TokenBytes(token)
                          : pieces_[static_cast<std::size_t>(token - kPiece)];
  }

 private:
  const std::vector<std::string> pieces_;
};

std::string TextOfPieces(const std::vector<std::string>& pieces, FinishReason reason,
                         const SamplingParams& sampling) {
  const PieceTokenizer tokenizer(pieces);
  std::vector<std::int32_t> tokens;
  for (std::size_t i = 0; i < pieces.size(); ++i)
    tokens.push_back(kPiece + static_cast<std::int32_t>(i));
  return *ResponseText(tokenizer, tokens, reason, sampling);
}

TEST(ResponseTextTest, EndsBeforeTheStopStringThatTheLastTokenCompletes) {
  SamplingParams sampling;
  sampling.stop = {"</a>", "\n\n"};
  const auto text = [&](const std::vector<std::string>& pieces) {
    return TextOfPieces(pieces, FinishReason::kStop, sampling);
  };
  EXPECT_EQ(text({"4", "2", "</", "a", ">"}), "42");
  EXPECT_EQ(text({"4", "2</", "a>\nmore"}), "42");
  EXPECT_EQ(text({"42", "</a", "></a>"}), "42");
  EXPECT_EQ(text({"42", ".\n\n"}), "42.");
  EXPECT_EQ(text({"\n\n"}), "");
  sampling.include_stop = true;
  EXPECT_EQ(text({"4", "2</", "a>\nmore"}), "42</a>\nmore");
  sampling.include_stop = false;
  // A string that min_tokens passed over stays.
  EXPECT_EQ(text({"a\n\n", "b", "\n\n"}), "a\n\nb");
}

TEST(ResponseTextTest, IsWholeWhereNoStopStringEndedIt) {
  SamplingParams sampling;
  sampling.stop = {"</a>"};
  EXPECT_EQ(TextOfPieces({"4</a>"}, FinishReason::kLength, sampling), "4</a>");
  EXPECT_EQ(TextOfPieces({"42"}, FinishReason::kStop, sampling), "42");
  EXPECT_EQ(TextOfPieces({"42", "</a>"}, FinishReason::kStop, {}), "42</a>");
  sampling.stop_token_ids = {kPiece + 1};
  EXPECT_EQ(TextOfPieces({"42</a>", "."}, FinishReason::kStop, sampling), "42</a>");
  sampling.include_stop = true;
  EXPECT_EQ(TextOfPieces({"42", "."}, FinishReason::kStop, sampling), "42");
  EXPECT_EQ(TextOfPieces({"42", "</a>"}, FinishReason::kStop, sampling), "42</a>");
  EXPECT_EQ(TextOfPieces({}, FinishReason::kStop, sampling), "");
}

}  // namespace
}  // namespace buttress
