// Compares rendering with transformers' Jinja (tests/golden/make_chat_template_golden.py), and
// tests refusals and bounds.
#include "lib/jinja/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <string>

#include "tests/support/golden_file.h"

namespace buttress {
namespace {

using nlohmann::ordered_json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Result<std::string> Render(std::string_view source,
                           const ordered_json& messages = ordered_json::array(),
                           bool add_generation_prompt = false,
                           const ordered_json& variables = ordered_json::object()) {
  BUTTRESS_ASSIGN_OR_RETURN(const ChatTemplate chat_template, ChatTemplate::Parse(source));
  return chat_template.Render(messages, add_generation_prompt, variables);
}

std::string ErrorOf(std::string_view source) {
  const Result<std::string> text = Render(source);
  return text.ok() ? "rendered: " + *text : text.status().message();
}

TEST(ChatTemplateTest, StrftimeNowIsTheLocalTime) {
  const auto year = [] {
    const std::time_t now = std::time(nullptr);
    std::tm local{};
    ::localtime_r(&now, &local);
    return std::to_string(local.tm_year + 1900);
  };
  const std::string before = year();
  const auto text =
      Render("{% if strftime_now is defined %}{{ strftime_now('%Y|%%') }}{% endif %}");
  ASSERT_TRUE(text.ok()) << text.status().ToString();
  EXPECT_TRUE(*text == before + "|%" || *text == year() + "|%") << *text;
}

TEST(ChatTemplateTest, TemplatesOfEachFamilyRenderAsInTransformers) {
  const ordered_json golden = ReadGoldenJson("chat_template/renders.json");
  ASSERT_GE(golden["chats"].size(), 40U);
  for (const ordered_json& chat : golden["chats"]) {
    const std::string name = chat["template"];
    const Result<std::string> text = Render(ReadGolden("chat_template/" + name + ".jinja"),
                                            chat["messages"], chat["prompt"], chat["variables"]);
    ASSERT_TRUE(text.ok()) << name << ": " << text.status().ToString();
    EXPECT_EQ(*text, chat["text"].get<std::string>()) << name << " " << chat["messages"];
  }
}

TEST(ChatTemplateTest, EachConstructRendersAsInTransformers) {
  const ordered_json golden = ReadGoldenJson("chat_template/renders.json");
  ASSERT_GE(golden["snippets"].size(), 50U);
  for (const ordered_json& snippet : golden["snippets"]) {
    const std::string source = snippet[0];
    const Result<std::string> text =
        Render(source, golden["messages"], /*add_generation_prompt=*/true, golden["names"]);
    ASSERT_TRUE(text.ok()) << source << "\n" << text.status().ToString();
    EXPECT_EQ(*text, snippet[1].get<std::string>()) << source;
  }
}

TEST(ChatTemplateTest, FailuresOfTransformersFailWithTheirLine) {
  const ordered_json golden = ReadGoldenJson("chat_template/renders.json");
  ASSERT_GE(golden["failures"].size(), 25U);
  for (const ordered_json& failure : golden["failures"]) {
    const std::string source = failure[0];
    const Result<std::string> text =
        Render("\n\n" + source, golden["messages"], true, golden["names"]);
    ASSERT_FALSE(text.ok()) << source << " gives " << *text << "; in transformers: " << failure[1];
    EXPECT_EQ(text.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(text.status().message(), StartsWith("chat template, line 3: ")) << source;
  }
}

TEST(ChatTemplateTest, RaiseExceptionReturnsItsText) {
  EXPECT_EQ(ErrorOf("\n{% if true %}\n{{ raise_exception('roles must alternate') }}{% endif %}"),
            "chat template, line 3: roles must alternate");
}

TEST(ChatTemplateTest, UnsupportedConstructsAreNamedWithTheirLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"a\n{% include 'x' %}", "line 2: statement 'include' is not supported"},
      {"{{ 1 | sort }}", "line 1: filter 'sort' is not supported"},
      {"{{ 1 is divisibleby 2 }}", "line 1: test 'divisibleby' is not supported"},
      {"{{ 2 ** 3 }}", "operator '**' is not supported"},
      {"{{ f(*x) }}", "'*' before an argument is not supported"},
      {"{% for x in y recursive %}{% endfor %}", "'recursive' is not supported"},
      {"{{ strftime_now() }}", "strftime_now takes a format"},
      {"{{ cycler(1) }}", "function 'cycler' is not supported"},
      {"{{ ('a' | safe) + 'b' }}", "operator '+' with a text that filter 'safe' returned"},
      {"{{ 'a' + ('b' | safe | string) }}", "operator '+' with a text that filter 'safe'"},
      {"{{ 'a' | safe | trim }}", "filter 'trim' of a text that filter 'safe' returned"},
      {"{{ ('ab' | safe)[1:] }}", "a part of a text that filter 'safe' returned"},
      {"{% for x in [1] %}{% macro m() %}{% endmacro %}{% endfor %}", "a macro inside a loop"},
      {"{% for x in [1] %}{{ loop.cycle(1) }}{% endfor %}", "loop.cycle is not supported"},
      {"{{ 0x10 }}", "number '0x' is not supported"},
      {"{{ 'ß'.upper() }}", "the upper and lower case of 'ß' are not supported"},
      {"{{ '\\N{DASH}' }}", "the escape \\N is not supported"},
      {"{{ {1: 2} }}", "a key of type 'int' is not supported"},
      {"{{ é }}", "unexpected character 'é'"},
  };
  for (const auto& [source, message] : cases) {
    EXPECT_THAT(ErrorOf(source), HasSubstr(message)) << source;
  }
}

TEST(ChatTemplateTest, DepthStepsAndSizesAreBounded) {
  EXPECT_THAT(ErrorOf("{{ " + std::string(100000, '(') + "1" + std::string(100000, ')') + " }}"),
              HasSubstr("nested deeper"));
  EXPECT_THAT(ErrorOf("{{ " + std::string(100000, '-') + "1 }}"), HasSubstr("nested deeper"));
  std::string nots;
  for (int i = 0; i < 100000; ++i) nots += "not ";
  EXPECT_THAT(ErrorOf("{{ " + nots + "1 }}"), HasSubstr("nested deeper"));
  std::string sum = "1";
  for (int i = 0; i < 100000; ++i) sum += "+1";
  EXPECT_THAT(ErrorOf("{{ " + sum + " }}"), HasSubstr("nested deeper"));
  std::string ifs;
  for (int i = 0; i < 10000; ++i) ifs += "{% if 1 %}";
  EXPECT_THAT(ErrorOf(ifs), HasSubstr("nested deeper"));
  EXPECT_THAT(ErrorOf("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"),
              HasSubstr("nested deeper"));
  EXPECT_THAT(
      ErrorOf("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"),
      HasSubstr("steps"));
  EXPECT_THAT(ErrorOf("{{ 'x' * 999999999999 }}"), HasSubstr("too long"));
  EXPECT_THAT(ErrorOf("{{ range(999999999999) }}"), HasSubstr("too many numbers"));
  EXPECT_THAT(ErrorOf("{% set n = namespace(x='x') %}{% for i in range(99) %}{% set n.x = n.x + "
                      "n.x %}{% endfor %}"),
              HasSubstr("a text of more than"));
  EXPECT_THAT(ErrorOf("{% for i in range(99) %}{% set x = 'x' * 16000000 %}{% endfor %}"),
              HasSubstr("bytes in all"));
  EXPECT_THAT(ErrorOf("{% set n = namespace(x=[]) %}{% for i in range(99) %}{% set n.x = [n.x, "
                      "n.x] %}{% endfor %}"),
              HasSubstr("parts"));
  EXPECT_THAT(ErrorOf("{% set n = namespace(x=[]) %}{% for i in range(199) %}{% set n.x = [n.x] "
                      "%}{% endfor %}"),
              HasSubstr("nested"));
  EXPECT_THAT(ErrorOf("{% set n = namespace() %}{% set n.x = n %}"),
              HasSubstr("can hold neither a namespace"));
  EXPECT_THAT(ErrorOf("{% set n = namespace() %}{% set n.x = [n] %}"),
              HasSubstr("a namespace inside another value"));
  EXPECT_THAT(ErrorOf("{% for i in range(99) %}{{ 'x' * 9000000 }}{% endfor %}"),
              HasSubstr("the output is longer"));
  ordered_json nested = ordered_json::array();
  for (int i = 0; i < 5000; ++i) {
    ordered_json outer = ordered_json::array();
    outer.push_back(std::move(nested));
    nested = std::move(outer);
  }
  EXPECT_THAT(Render("{{ messages }}", nested).status().message(), HasSubstr("nested deeper"));
}

TEST(ChatTemplateTest, InvalidInputIsRefused) {
  EXPECT_THAT(ErrorOf("\xff"), HasSubstr("not UTF-8 at byte 0"));
  EXPECT_THAT(Render("x", ordered_json::array({"\xff"})).status().message(),
              HasSubstr("not UTF-8"));
  EXPECT_THAT(Render("x", ordered_json::array(), false, ordered_json::array()).status().message(),
              HasSubstr("not a JSON object"));
}

}  // namespace
}  // namespace buttress
