#include "learner/sft/sft_chat.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "lib/base/os/file.h"
#include "lib/tokenizer/tokenizer.h"
#include "tests/support/fakes/byte_tokenizer.h"
#include "tests/support/golden_file.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Tokens = std::vector<std::int32_t>;
using ojson = nlohmann::ordered_json;

struct SeenTurn {
  Tokens context;  // all tokens before it
  Tokens trained;

  bool operator==(const SeenTurn&) const = default;
};

// The trained spans of all sequences, each with what comes before it.
std::vector<SeenTurn> TurnsOf(const SftChat& chat) {
  std::vector<SeenTurn> turns;
  for (const SftExample& example : chat.examples) {
    Tokens all = example.prompt;
    all.insert(all.end(), example.response.begin(), example.response.end());
    std::vector<TokenSpan> spans = example.trained;
    if (spans.empty()) spans.push_back({0, static_cast<std::int32_t>(example.response.size())});
    for (const TokenSpan& span : spans) {
      const auto begin = all.begin() + std::ssize(example.prompt) + span.begin;
      turns.push_back({Tokens(all.begin(), begin), Tokens(begin, begin + span.end - span.begin)});
    }
  }
  return turns;
}

// masks.json holds what transformers makes of the same conversations.
TEST(SftChatTest, TrainsTheTokensThatTransformersMarksAsTheAssistants) {
  const TempDir folder;
  std::filesystem::copy_file(BUTTRESS_GOLDEN_DIR "/tokenizer/tokenizer.json",
                             JoinPath(folder.path(), "tokenizer.json"));
  for (const auto& golden : ojson::parse(ReadGolden("chat_template/masks.json"))) {
    const std::string name = golden["template"];
    SCOPED_TRACE(name + " " + std::to_string(golden["turns"].size()));
    ASSERT_TRUE(WriteFileAtomic(JoinPath(folder.path(), "chat_template.jinja"),
                                ReadGolden("chat_template/" + name + ".jinja"))
                    .ok());
    const auto tokenizer = Tokenizer::Load(folder.path());
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
    const auto encoder =
        TextEncoder::Create(**tokenizer, {{"bos_token", ""}, {"date_string", "26 Jul 2024"}});
    ASSERT_TRUE(encoder.ok()) << encoder.status().ToString();
    const Tokens ends = {(*tokenizer)->TokenId("<|im_end|>")};
    const ojson tools = golden["variables"].value("tools", ojson());
    const auto chat = ExamplesOfChat(*encoder, golden["messages"], tools, 0, ends);
    ASSERT_TRUE(chat.ok()) << chat.status().ToString();
    std::vector<SeenTurn> expected;
    for (const auto& turn : golden["turns"])
      expected.push_back({turn["context"].get<Tokens>(), turn["trained"].get<Tokens>()});
    EXPECT_EQ(TurnsOf(*chat), expected);
    const bool whole = golden.contains("whole");
    EXPECT_EQ(chat->examples.size(), whole ? 1U : expected.size());
    EXPECT_EQ(chat->unended, name == "llama3" ? chat->turns : 0);
    if (!whole) continue;
    std::vector<SeenTurn> marked;
    const Tokens tokens = golden["whole"]["tokens"];
    for (const auto& span : golden["whole"]["spans"]) {
      const auto begin = tokens.begin() + span[0].get<int>();
      marked.push_back(
          {Tokens(tokens.begin(), begin), Tokens(begin, tokens.begin() + span[1].get<int>())});
    }
    EXPECT_EQ(TurnsOf(*chat), marked) << "of the whole conversation";
  }
}

// Reads the trained texts of a conversation, one byte a token. '$' ends a turn.
Result<std::vector<std::string>> TrainedTexts(const std::string& chat_template,
                                              const std::string& messages, std::size_t first = 0) {
  const ByteTokenizer tokenizer(chat_template);
  BUTTRESS_ASSIGN_OR_RETURN(const TextEncoder encoder, TextEncoder::Create(tokenizer));
  const Tokens ends = {'$'};
  BUTTRESS_ASSIGN_OR_RETURN(const SftChat chat,
                            ExamplesOfChat(encoder, ojson::parse(messages), {}, first, ends));
  std::vector<std::string> texts;
  for (const SeenTurn& turn : TurnsOf(chat))
    texts.push_back(*tokenizer.Decode(turn.trained, SpecialTokens::kKeep));
  return texts;
}

constexpr char kPlain[] =
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}${{ '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}";
constexpr char kTwoTurns[] =
    R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
        {"role": "user", "content": "c"}, {"role": "assistant", "content": "d"}])";

TEST(SftChatTest, ATurnIsTrainedUpToItsEndToken) {
  EXPECT_THAT(*TrainedTexts(kPlain, kTwoTurns), ElementsAre("b$", "d$"));
}

TEST(SftChatTest, MessagesBeforeTheFirstAreContext) {
  EXPECT_THAT(*TrainedTexts(kPlain, kTwoTurns, 2), ElementsAre("d$"));
}

TEST(SftChatTest, ABeginningOfAnswersThatPastTurnsLackIsNotExpectedOfThem) {
  const std::string thinking =
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}${% endfor %}"
      "{% if add_generation_prompt %}<assistant><think>{% endif %}";
  EXPECT_THAT(*TrainedTexts(thinking, kTwoTurns), ElementsAre("b$", "d$"));
}

TEST(SftChatTest, ConversationsThatCannotBeTrainedNameTheMessage) {
  EXPECT_THAT(TrainedTexts(kPlain, R"([{"role": "user", "content": "a"}])").status().message(),
              HasSubstr("no message of the role assistant"));
  EXPECT_THAT(TrainedTexts(kPlain, R"([{"role": "assistant", "content": "a"}])").status().message(),
              HasSubstr("message 0: is of the assistant"));
  EXPECT_THAT(TrainedTexts("{{ messages | length }}{{ messages[0].content }}", kTwoTurns)
                  .status()
                  .message(),
              HasSubstr("message 1: the chat template writes the messages before it in another"));
  EXPECT_THAT(TrainedTexts("x", kTwoTurns).status().message(),
              HasSubstr("message 1: the chat template writes nothing for it"));
}

}  // namespace
}  // namespace buttress
