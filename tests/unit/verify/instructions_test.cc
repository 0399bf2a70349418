// The meaning of each instruction follows IFEval: instructions.py of
// google-research/instruction_following_eval.
#include "lib/verify/instructions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/verify/verifier.h"

namespace buttress::instructions_test {
namespace {

using ::testing::HasSubstr;

struct Case {
  const char* id;
  const char* kwargs;
  const char* follows;
  const char* does_not;
};

TEST(Instructions, EachInstructionIsFollowedOrNot) {
  const Case cases[] = {
      {"keywords:existence", R"({"keywords": ["sun", "moon"]})", "The Sun and the moon", "The sun"},
      {"keywords:frequency", R"({"keyword": "ha", "frequency": 3, "relation": "at least"})",
       "Ha ha ha", "ha ha"},
      {"keywords:frequency", R"({"keyword": "a.b", "frequency": 1, "relation": "less than"})",
       "axb", "a.b"},
      {"keywords:forbidden_words", R"({"forbidden_words": ["cat"]})", "a category", "a Cat."},
      {"keywords:letter_frequency",
       R"({"letter": "q", "let_frequency": 2, "let_relation": "at least"})", "Q and q", "q"},
      {"length_constraints:number_sentences", R"({"num_sentences": 2, "relation": "at least"})",
       "One. Two!", "One, 3.5 two"},
      {"length_constraints:number_paragraphs", R"({"num_paragraphs": 2})", "a\n***\nb\n***\n",
       "a *** *** b"},
      {"length_constraints:number_words", R"({"num_words": 3, "relation": "less than"})",
       "zwei Wörter", "one two three"},
      {"length_constraints:nth_paragraph_first_word",
       R"({"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "Hello"})", "a\n\n\"hello, you",
       "a\n\nworld"},
      {"detectable_content:number_placeholders", R"({"num_placeholders": 2})", "[a] and [b c]",
       "[a]\n[b"},
      {"detectable_content:postscript", R"({"postscript_marker": "P.S."})", "text\nP. S. more",
       "text PS more"},
      {"detectable_content:postscript", R"({"postscript_marker": "P.P.S"})", "text\np.p.s more",
       "text p.s. more"},
      {"detectable_format:number_bullet_lists", R"({"num_bullets": 2})", "* a\n- b", "* a\n** b"},
      {"detectable_format:constrained_response", "{}", "Well. My answer is maybe.",
       "My answer is sure."},
      {"detectable_format:number_highlighted_sections", R"({"num_highlights": 2})", "*a* and *b c*",
       "*a* and * *"},
      {"detectable_format:multiple_sections",
       R"({"section_spliter": "SECTION", "num_sections": 2})", "SECTION 1\na\nSECTION 2\nb",
       "SECTION 1"},
      {"detectable_format:json_format", "{}", "```json\n{\"a\": 1}\n```", "{a: 1}"},
      {"detectable_format:title", "{}", "<<A title>>\ntext", "<< >>"},
      {"combination:two_responses", "{}", "one ****** two", "one ****** one"},
      {"combination:repeat_prompt", R"({"prompt_to_repeat": "Say it."})", "say it. It.",
       "It. Say it."},
      {"startend:end_checker", R"({"end_phrase": "Any other questions?"})",
       "x any other QUESTIONS?\"", "Any other questions? x"},
      {"startend:quotation", "{}", " \"all of it\" ", "\""},
      {"change_case:capital_word_frequency",
       R"({"capital_frequency": 2, "capital_relation": "less than"})", "NASA is", "NASA and ESA"},
      {"change_case:english_capital", "{}", "ALL, 3!", "ALL but One"},
      {"change_case:english_lowercase", "{}", "all, 3!", "all but One"},
      {"punctuation:no_comma", "{}", "none", "one, two"},
  };
  for (const Case& c : cases) {
    const auto kwargs = nlohmann::json::parse(c.kwargs);
    const Result<bool> yes = FollowsInstruction(c.id, kwargs, c.follows);
    const Result<bool> no = FollowsInstruction(c.id, kwargs, c.does_not);
    ASSERT_TRUE(yes.ok() && no.ok()) << c.id << ": " << yes.status().ToString();
    EXPECT_TRUE(*yes) << c.id << ": " << c.follows;
    EXPECT_FALSE(*no) << c.id << ": " << c.does_not;
  }
}

TEST(Instructions, AMissingOrInvalidArgumentIsNamed) {
  const auto error = [](const char* id, const char* kwargs) {
    return FollowsInstruction(id, nlohmann::json::parse(kwargs), "text").status().message();
  };
  EXPECT_THAT(error("keywords:existence", "{}"),
              HasSubstr("argument 'keywords' = nothing; expected a list of texts"));
  EXPECT_THAT(
      error("length_constraints:number_words", R"({"num_words": 2.5, "relation": "at least"})"),
      HasSubstr("'num_words' = 2.5"));
  EXPECT_THAT(error("length_constraints:number_words", R"({"num_words": 2, "relation": "about"})"),
              HasSubstr("\"about\""));
  EXPECT_THAT(
      error("keywords:frequency", R"({"keyword": null, "frequency": 1, "relation": "at least"})"),
      HasSubstr("keyword"));
  EXPECT_THAT(error("language:response_language", R"({"language": "fr"})"),
              HasSubstr("not one that can be checked"));
}

TEST(InstructionsVerifier, AcceptsRowsOfIfevalAndNamesTheBrokenInstruction) {
  const auto verifier = *MakeVerifier("instructions", RewardConfig{});
  const std::string_view row =
      R"({"instruction_id_list": ["punctuation:no_comma", "startend:quotation"],
                                   "kwargs": [{"num_words": null}, {}], "key": 7})";
  EXPECT_EQ(verifier->Verify({{}, "\"as asked\"", "", row, false}).outcome, Outcome::kCorrect);
  const Verdict broken = verifier->Verify({{}, "one, two", "", row, false});
  EXPECT_EQ(broken.outcome, Outcome::kWrong);
  EXPECT_EQ(broken.given, "not punctuation:no_comma, startend:quotation");
  EXPECT_EQ(verifier->Verify({{}, "", "", row, false}).outcome, Outcome::kWrong);
  EXPECT_EQ(verifier->Verify({{}, "text", "", "{}", false}).outcome, Outcome::kUnscorable);
  EXPECT_EQ(
      verifier
          ->Verify({{}, "text", R"({"instruction_id_list": ["a"], "kwargs": [{}, {}]})", "", false})
          .outcome,
      Outcome::kUnscorable);
}

}  // namespace
}  // namespace buttress::instructions_test
