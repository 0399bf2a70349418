#include "lib/tokenizer/pre_tokenizer.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/text/unicode.h"
#include "tests/support/golden_file.h"

namespace buttress {
namespace {

using Ranges = std::vector<std::pair<char32_t, char32_t>>;

// The code points at which a text is split.
Ranges PunctuationOf(const PreTokenizer& pre_tokenizer) {
  Ranges found;
  for (char32_t point = 0; point < 0x110000; ++point) {
    if (point >= 0xD800 && point < 0xE000) continue;
    std::string text = "a";
    AppendUtf8(point, text);
    const auto split = pre_tokenizer.Split(text + "a", true);
    EXPECT_TRUE(split.ok()) << split.status().ToString();
    if (!split.ok() || split->words.size() == 1) continue;
    if (!found.empty() && found.back().second + 1 == point) {
      found.back().second = point;
    } else {
      found.emplace_back(point, point);
    }
  }
  return found;
}

TEST(PreTokenizerTest, PunctuationIsThatOfTheTokenizersPackage) {
  const auto pre_tokenizer = PreTokenizer::FromJson({{"type", "Punctuation"}});
  ASSERT_TRUE(pre_tokenizer.ok()) << pre_tokenizer.status().ToString();
  EXPECT_EQ(PunctuationOf(*pre_tokenizer),
            ReadGoldenJson("tokenizer/punctuation.json").get<Ranges>());
}

}  // namespace
}  // namespace buttress
