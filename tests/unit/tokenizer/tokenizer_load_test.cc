// Tests the files that Tokenizer::Load accepts and refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "lib/tokenizer/bpe_tokenizer.h"
#include "lib/tokenizer/tokenizer.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/tokenizer/tokenizer_folder.h"

namespace buttress {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr std::string_view kConfig =
    R"({"eos_token": "<|im_end|>", "pad_token": {"content": "<|endoftext|>", "special": true},
  "chat_template": [{"name": "tool_use", "template": "T"}, {"name": "default", "template": "D"}]})";

std::string RefusalOf(std::string_view tokenizer_json, std::string_view config = "") {
  const auto tokenizer = LoadFrom(tokenizer_json, config);
  if (tokenizer.ok()) return "loaded";
  EXPECT_EQ(tokenizer.status().code(), StatusCode::kInvalidArgument);
  return tokenizer.status().message();
}

TEST(TokenizerLoadTest, ConfigDefinesTheRolesOfTokensAndTheTemplate) {
  const auto tokenizer = LoadFrom(ReadGolden("tokenizer/tokenizer.json"), kConfig);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  EXPECT_EQ((*tokenizer)->eos_token_id(), (*tokenizer)->TokenId("<|im_end|>"));
  EXPECT_EQ((*tokenizer)->pad_token_id(), (*tokenizer)->TokenId("<|endoftext|>"));
  EXPECT_EQ((*tokenizer)->TokenId("<|endoftext|>"), 600);
  EXPECT_EQ((*tokenizer)->TokenId("<|nothing|>"), -1);
  EXPECT_EQ((*tokenizer)->vocab_size(), 607);
  EXPECT_EQ((*tokenizer)->chat_template(), "D");
}

TEST(TokenizerLoadTest, WithoutConfigThereAreNoRoles) {
  const auto tokenizer = LoadFrom(ReadGolden("tokenizer/tokenizer.json"));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  EXPECT_EQ((*tokenizer)->eos_token_id(), -1);
  EXPECT_EQ((*tokenizer)->pad_token_id(), -1);
  EXPECT_EQ((*tokenizer)->chat_template(), "");
}

TEST(TokenizerLoadTest, TheTemplateFileOverridesTheConfig) {
  const TempDir folder;
  WriteFileIn(folder.path(), "tokenizer.json", ReadGolden("tokenizer/tokenizer.json"));
  WriteFileIn(folder.path(), "tokenizer_config.json", kConfig);
  WriteFileIn(folder.path(), "chat_template.jinja", "{{ 1 }}");
  const auto tokenizer = Tokenizer::Load(folder.path());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  EXPECT_EQ((*tokenizer)->chat_template(), "{{ 1 }}");
}

TEST(TokenizerLoadTest, FolderWithoutTokenizerIsNotFound) {
  const TempDir folder;
  const auto tokenizer = Tokenizer::Load(folder.path());
  ASSERT_FALSE(tokenizer.ok());
  EXPECT_EQ(tokenizer.status().code(), StatusCode::kNotFound);
}

struct RefusedCase {
  const char* patch;
  const char* message;
};

TEST(TokenizerLoadTest, MembersThatWouldChangeResultsAreRefusedByName) {
  const RefusedCase cases[] = {
      {R"({"model": {"type": "Unigram"}})", "model.type = 'Unigram' is not supported; BPE is"},
      {R"({"model": {"dropout": 0.1}})", "model.dropout = 0.1"},
      {R"({"model": {"end_of_word_suffix": "</w>"}})", "model.end_of_word_suffix = '</w>'"},
      {R"({"model": {"continuing_subword_prefix": "##"}})",
       "model.continuing_subword_prefix = '##'"},
      {R"({"model": {"novel": 1}})", "model.novel is not supported"},
      {R"({"model": {"merges": [["zz", "q"]]}})", "model.merges[0]: 'zz' is not in model.vocab"},
      {R"({"model": {"merges": ["a b c"]}})", "model.merges[0] = \"a b c\" is neither"},
      {R"({"model": {"vocab": {"!": -1}}})", "model.vocab['!'] = -1 is not a whole number"},
      {R"({"model": {"vocab": {"!": 1}}})", "is another token's id too"},
      {R"({"model": {"vocab": {"!": 4194304}}})",
       "4194304 is not a whole number from 0 to 4194303"},
      {R"({"normalizer": {"type": "NFKC"}})", "normalizer.type = 'NFKC' is not supported"},
      {R"({"normalizer": {"type": "Sequence", "normalizers": [{"type": "Lowercase"}]}})",
       "normalizer.normalizers[0].type = 'Lowercase'"},
      {R"({"pre_tokenizer": {"type": "Whitespace"}})", "pre_tokenizer.type = 'Whitespace'"},
      {R"({"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Whitespace"}]}})",
       "pretokenizers[0].type = 'Whitespace'"},
      {R"({"decoder": {"type": "CTC"}})", "decoder.type = 'CTC'"},
      {R"({"post_processor": {"type": "BertProcessing"}})",
       "post_processor.type = 'BertProcessing'"},
      {R"({"added_tokens": [{"id": 700, "content": "<x>"}]})",
       "added_tokens[0].id = 700, but '<x>' gets 600"},
      {R"({"added_tokens": [{"id": 600, "content": ""}]})", "added_tokens[0].content has 0 bytes"},
  };
  for (const RefusedCase& one : cases) {
    EXPECT_THAT(RefusalOf(PatchedTokenizer(json::parse(one.patch)).dump()), HasSubstr(one.message))
        << one.patch;
  }
}

std::string RefusalOfPattern(const std::string& pattern) {
  json patch;
  patch["pre_tokenizer"]["type"] = "Sequence";
  patch["pre_tokenizer"]["pretokenizers"] =
      json::array({{{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}},
                   {{"type", "ByteLevel"}, {"use_regex", false}}});
  return RefusalOf(PatchedTokenizer(patch).dump());
}

TEST(TokenizerLoadTest, PatternsWithAnotherMeaningInOnigurumaAreRefused) {
  for (const char* pattern :
       {R"(\w+)", R"(\h)", "(?i)a", "(?m:.)", "[a-z&&b]", "[[:alpha:]]", "a{,3}", "a{1,2}+",
        R"([^\S])", R"(\K)", R"((a)\1)", "(*ACCEPT)", "[]a]", R"(\pL)", R"(\x41)"}) {
    EXPECT_THAT(RefusalOfPattern(pattern), HasSubstr("may read it otherwise than Oniguruma"))
        << pattern;
  }
  EXPECT_THAT(RefusalOfPattern("(a"), HasSubstr("missing closing parenthesis"));
  EXPECT_EQ(RefusalOfPattern(R"([^\s\p{L}]?\p{N}{1,3}|(?i:a|b)(?!c)\d)"), "loaded");
}

TEST(TokenizerLoadTest, APatternThatBacktracksTooMuchIsAnError) {
  json patch;
  patch["pre_tokenizer"]["type"] = "Sequence";
  patch["pre_tokenizer"]["pretokenizers"] = json::array(
      {{{"type", "Split"}, {"pattern", {{"Regex", "(?:a|a)*[bd]"}}}, {"behavior", "Isolated"}},
       {{"type", "ByteLevel"}, {"use_regex", false}}});
  const auto tokenizer = LoadFrom(PatchedTokenizer(patch).dump());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  const auto ids = (*tokenizer)->Encode(std::string(1000, 'a'));
  ASSERT_FALSE(ids.ok());
  EXPECT_EQ(ids.status().code(), StatusCode::kResourceExhausted);
}

TEST(TokenizerLoadTest, AConfigThatContradictsIsRefused) {
  const std::string tokenizer = ReadGolden("tokenizer/tokenizer.json");
  EXPECT_THAT(RefusalOf(tokenizer, R"({"eos_token": "<|eot|>"})"),
              HasSubstr("token '<|eot|>' is not in tokenizer.json"));
  EXPECT_THAT(RefusalOf(tokenizer, R"({"eos_token": 3})"), HasSubstr("eos_token = 3 is neither"));
  EXPECT_THAT(RefusalOf(tokenizer, R"({"add_prefix_space": true})"),
              HasSubstr("add_prefix_space = true"));
  EXPECT_THAT(RefusalOf(tokenizer, R"({"chat_template": [{"name": "x", "template": "y"}]})"),
              HasSubstr("named 'default'"));
  EXPECT_THAT(RefusalOf(tokenizer, R"({"added_tokens_decoder": {"5": {"content": "<|im_end|>"}}})"),
              HasSubstr("with id 5"));
  EXPECT_THAT(RefusalOf(tokenizer, "["), HasSubstr("not a JSON object"));
}

TEST(TokenizerLoadTest, EveryTruncationIsRefused) {
  const std::string text = ReadGolden("tokenizer/digits.json");
  const std::size_t end = text.find_last_of('}');
  for (std::size_t size = 0; size < end; ++size) {
    EXPECT_FALSE(ParseTokenizerJson(text.substr(0, size)).ok()) << size;
  }
  ASSERT_TRUE(LoadFrom(text.substr(0, end + 1)).ok());
  const std::string large = ReadGolden("tokenizer/tokenizer.json");
  for (std::size_t size = 0; size + 2 < large.size(); size += 17) {
    EXPECT_FALSE(ParseTokenizerJson(large.substr(0, size)).ok()) << size;
  }
}

}  // namespace
}  // namespace buttress
