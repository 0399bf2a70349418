#include "lib/chat/tool_calls.h"

#include <gmock/gmock.h>

#include <tuple>

#include "tests/support/golden_file.h"

namespace buttress {
namespace {

using nlohmann::ordered_json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// The calls as text: f{"a":1} g{}.
std::string CallsOf(const AssistantMessage& message) {
  std::string text;
  for (const ToolCall& call : message.calls)
    text += (text.empty() ? "" : " ") + call.name + call.arguments.dump();
  return text;
}

std::string Calls(std::string_view text, ToolFormat format) {
  const AssistantMessage message = ReadAnswer(text, format);
  EXPECT_THAT(message.bad, IsEmpty()) << text;
  return CallsOf(message);
}

std::string Bad(std::string_view text, ToolFormat format) {
  const AssistantMessage message = ReadAnswer(text, format);
  EXPECT_THAT(message.calls, IsEmpty()) << text;
  return message.bad.size() == 1 ? message.bad[0] : std::to_string(message.bad.size()) + " bad";
}

TEST(ToolCallsTest, TheTemplateShowsTheFormat) {
  const auto format = [](const std::string& name) {
    return FormatOf(ReadGolden("chat_template/" + name + ".jinja"));
  };
  EXPECT_EQ(format("qwen2_5"), ToolFormat::kHermes);
  EXPECT_EQ(format("qwen3"), ToolFormat::kHermes);
  EXPECT_EQ(format("llama3"), ToolFormat::kLlama);
  EXPECT_EQ(FormatOf("{{ '[TOOL_CALLS] [' }}"), ToolFormat::kMistral);
  EXPECT_EQ(FormatOf("[func_name1(params_name1=params_value1)]"), ToolFormat::kPythonic);
  EXPECT_EQ(FormatOf("[func_name1(param1=value1)]"), ToolFormat::kPythonic) << "Llama 4";
  EXPECT_EQ(format("qwen_xml"), ToolFormat::kQwen);
  EXPECT_EQ(format("glm_xml"), ToolFormat::kGlm);
  EXPECT_EQ(FormatOf("no tools"), ToolFormat::kHermes);
}

TEST(ToolCallsTest, HermesCallsStandInTags) {
  const AssistantMessage message = ReadAnswer(
      "I look.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"b\": 1, \"a\": \"x\"}}\n"
      "</tool_call>\n<tool_call>{\"name\": \"g\", \"arguments\": {}}</tool_call>",
      ToolFormat::kHermes);
  EXPECT_EQ(CallsOf(message), R"(f{"b":1,"a":"x"} g{})") << "members keep their order";
  EXPECT_EQ(message.content, "I look.");
  EXPECT_EQ(Calls(R"(<tool_call>{"name": "f", "arguments": {}})", ToolFormat::kHermes), "f{}")
      << "an end that is a stop token is not in the text";
  EXPECT_EQ(ReadAnswer(" 7 </tool_call> tool_call>", ToolFormat::kHermes).content,
            " 7 </tool_call> tool_call>");
}

TEST(ToolCallsTest, BadHermesCallsSayWhy) {
  const auto bad = [](const std::string& body) {
    return Bad("<tool_call>" + body + "</tool_call>", ToolFormat::kHermes);
  };
  EXPECT_EQ(bad("{\"name\": \"f\", "), "tool call 1 is not JSON");
  EXPECT_EQ(bad("null"), "tool call 1 is not JSON");
  EXPECT_EQ(bad("[]"), "tool call 1 is no JSON object");
  EXPECT_EQ(bad(R"({"arguments": {}})"), "tool call 1 has no \"name\"");
  EXPECT_EQ(bad(R"({"name": 5, "arguments": {}})"), "tool call 1 has no \"name\"");
  EXPECT_EQ(bad(R"({"name": "f", "arguments": "{}"})"), "tool call 1 has no object \"arguments\"");
  EXPECT_EQ(
      bad(R"({"name": "f", "arguments": )" + std::string(100, '[') + std::string(100, ']') + "}"),
      "tool call 1 is not JSON");
  const AssistantMessage mixed =
      ReadAnswer(R"(<tool_call>x</tool_call><tool_call>{"name": "f", "arguments": {}}</tool_call>)",
                 ToolFormat::kHermes);
  EXPECT_EQ(CallsOf(mixed), "f{}");
  EXPECT_THAT(mixed.bad, SizeIs(1));
}

TEST(ToolCallsTest, ThoughtsCallNothing) {
  const std::string call = R"(<tool_call>{"name": "f", "arguments": {}}</tool_call>)";
  EXPECT_EQ(Calls("<think>" + call + "</think>no", ToolFormat::kHermes), "");
  EXPECT_EQ(Calls("<think>cut: " + call, ToolFormat::kHermes), "");
  const AssistantMessage message = ReadAnswer("<think>a</think>\n\nb " + call, ToolFormat::kHermes);
  EXPECT_EQ(CallsOf(message), "f{}");
  EXPECT_EQ(message.content, "<think>a</think>b");
}

TEST(ToolCallsTest, LlamaCallsAreTheWholeAnswer) {
  const std::string one = R"({"name": "f", "parameters": {"s": "a;}"}})";
  EXPECT_EQ(Calls(one, ToolFormat::kLlama), R"(f{"s":"a;}"})");
  EXPECT_EQ(Calls("<|python_tag|>" + one + "; " + one, ToolFormat::kLlama),
            R"(f{"s":"a;}"} f{"s":"a;}"})");
  EXPECT_EQ(Calls(R"({"type": "function", "name": "f", "arguments": {}})", ToolFormat::kLlama),
            "f{}");
  EXPECT_EQ(ReadAnswer(R"({"name": "Bo", "age": 7})", ToolFormat::kLlama).content,
            R"({"name": "Bo", "age": 7})");
  EXPECT_EQ(ReadAnswer(one + "\nDone.", ToolFormat::kLlama).content, "Done.");
  EXPECT_EQ(Bad(R"({"name": "f", "parameters": {)", ToolFormat::kLlama), "tool call 1 is not JSON");
  EXPECT_EQ(Bad("<|python_tag|>print(7)", ToolFormat::kLlama), "tool call 1 is not JSON");
}

TEST(ToolCallsTest, MistralCallsFollowTheMark) {
  const std::string list = R"([{"name": "f", "arguments": {"x": [1]}, "id": "123456789"},)"
                           R"( {"name": "g", "arguments": {}}])";
  EXPECT_EQ(Calls("[TOOL_CALLS] " + list, ToolFormat::kMistral), R"(f{"x":[1]} g{})");
  EXPECT_EQ(Calls(list, ToolFormat::kMistral), R"(f{"x":[1]} g{})") << "the mark is special";
  const std::string named = R"([TOOL_CALLS]f[ARGS]{"x": 1}[TOOL_CALLS]g[CALL_ID]a1[ARGS]{})";
  EXPECT_EQ(Calls("Wait. " + named, ToolFormat::kMistral), R"(f{"x":1} g{})");
  EXPECT_EQ(ReadAnswer("Wait. " + named, ToolFormat::kMistral).content, "Wait.");
  EXPECT_EQ(Calls(R"(f{"x": 1}g{})", ToolFormat::kMistral), R"(f{"x":1} g{})");
  for (const char* answer : {"[1, 2]", "7", "x{1}", "The name{x}", "{}", ""})
    EXPECT_EQ(ReadAnswer(answer, ToolFormat::kMistral).content, answer);
  EXPECT_EQ(Bad("[TOOL_CALLS]!", ToolFormat::kMistral),
            "tool call 1 is neither a list nor a name with arguments");
  EXPECT_EQ(Bad("[TOOL_CALLS][{\"name\": ", ToolFormat::kMistral), "tool call 1 is not JSON");
  EXPECT_EQ(Bad("[TOOL_CALLS][7]", ToolFormat::kMistral), "tool call 1 is no JSON object");
}

TEST(ToolCallsTest, PythonicCallsHaveLiterals) {
  EXPECT_EQ(Calls(R"([f(a=1, b="x"), g()])", ToolFormat::kPythonic), R"(f{"a":1,"b":"x"} g{})");
  EXPECT_EQ(Calls("[f(a=[1, -2.5, (True, None)], b={'k': False,},)]", ToolFormat::kPythonic),
            R"(f{"a":[1,-2.5,[true,null]],"b":{"k":false}})");
  EXPECT_EQ(Calls(R"([f(s='it\'s \x41\u00e9\n', t="""a"b""", u=+1e3)])", ToolFormat::kPythonic),
            R"(f{"s":"it's Aé\n","t":"a\"b","u":1000.0})");
  for (const char* answer : {"[1, 2]", "f(a=1)", "[f]", "[7(a=1)]"})
    EXPECT_EQ(ReadAnswer(answer, ToolFormat::kPythonic).content, answer);
  EXPECT_EQ(ReadAnswer("[f()] Done.", ToolFormat::kPythonic).content, "Done.");
  EXPECT_THAT(Bad("[f(1)]", ToolFormat::kPythonic), HasSubstr("expected the name of an argument"));
  EXPECT_THAT(Bad("[f(a=g())]", ToolFormat::kPythonic), HasSubstr("expected a literal"));
  EXPECT_THAT(Bad("[f(a='x", ToolFormat::kPythonic), HasSubstr("expected the end of a text"));
  EXPECT_THAT(Bad("[f(a={1: 2})]", ToolFormat::kPythonic), HasSubstr("as the key"));
  EXPECT_THAT(Bad("[f(a=1-2)]", ToolFormat::kPythonic), HasSubstr("a number"));
  EXPECT_THAT(Bad("[f(a='\\u12')]", ToolFormat::kPythonic), HasSubstr("an escape"));
  EXPECT_THAT(Bad("[f(a=" + std::string(100000, '['), ToolFormat::kPythonic),
              HasSubstr("nested less deeply"));
  const AssistantMessage half = ReadAnswer("[f(a=1), g(b)]", ToolFormat::kPythonic);
  EXPECT_EQ(CallsOf(half), R"(f{"a":1})");
  EXPECT_THAT(half.bad, ElementsAre(HasSubstr("tool call 2")));
}

// A tool f with arguments of these schemas.
ordered_json ToolWith(const char* properties) {
  const ordered_json parameters = {{"type", "object"},
                                   {"properties", ordered_json::parse(properties)}};
  return ordered_json::array(
      {{{"type", "function"}, {"function", {{"name", "f"}, {"parameters", parameters}}}}});
}

// The arguments of the one call of f(a=VALUE) in both formats, which are the same.
std::string XmlArgument(const std::string& value, const char* schema) {
  const ordered_json tools = ToolWith((R"({"a": )" + std::string(schema) + "}").c_str());
  const AssistantMessage qwen = ReadAnswer("<tool_call>\n<function=f>\n<parameter=a>\n" + value +
                                               "\n</parameter>\n</function>\n</tool_call>",
                                           ToolFormat::kQwen, tools);
  const AssistantMessage glm = ReadAnswer(
      "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>" + value + "</arg_value>\n</tool_call>",
      ToolFormat::kGlm, tools);
  if (qwen.calls.size() != 1 || glm.calls.size() != 1) return "no call";
  EXPECT_EQ(qwen.calls[0].arguments, glm.calls[0].arguments) << value;
  return qwen.calls[0].arguments.value("a", ordered_json()).dump();
}

TEST(ToolCallsTest, XmlArgumentsHaveTheTypesOfTheirTool) {
  EXPECT_EQ(XmlArgument("7", R"({"type": "string"})"), R"("7")");
  EXPECT_EQ(XmlArgument("null", R"({"type": "string"})"), R"("null")");
  EXPECT_EQ(XmlArgument("\n if x:\n  y \n", R"({"type": "string"})"), R"("\n if x:\n  y \n")");
  EXPECT_EQ(XmlArgument(" 7 ", R"({"type": "integer"})"), "7");
  EXPECT_EQ(XmlArgument("7.0", R"({"type": "integer"})"), "7");
  EXPECT_EQ(XmlArgument("7.5", R"({"type": "integer"})"), R"("7.5")");
  EXPECT_EQ(XmlArgument("seven", R"({"type": "integer"})"), R"("seven")");
  EXPECT_EQ(XmlArgument("-2.5", R"({"type": "number"})"), "-2.5");
  EXPECT_EQ(XmlArgument("True", R"({"type": "boolean"})"), "true");
  EXPECT_EQ(XmlArgument("false", R"({"type": "boolean"})"), "false");
  EXPECT_EQ(XmlArgument("None", R"({"type": ["integer", "null"]})"), "null");
  EXPECT_EQ(XmlArgument("{'k': [1, True]}", R"({"type": "object"})"), R"({"k":[1,true]})");
  EXPECT_EQ(XmlArgument(R"(["a"])", R"({"anyOf": [{"type": "array"}, {"type": "null"}]})"),
            R"(["a"])");
  EXPECT_EQ(XmlArgument("[1", R"({"type": "array"})"), R"("[1")");
  EXPECT_EQ(XmlArgument("7", R"({"anyOf": [{"type": "string"}, {"type": "null"}]})"), R"("7")");
}

TEST(ToolCallsTest, QwenReadsFunctionsAndParameters) {
  const std::string call =
      "<function=f>\n<parameter=a>\n7\n</parameter>\n<parameter=b>\nx < y\n</parameter>\n"
      "</function>";
  const std::string whole = "<tool_call>\n" + call + "\n</tool_call>";
  const std::string read = R"(f{"a":"7","b":"x < y"})";
  EXPECT_EQ(Calls(whole, ToolFormat::kQwen), read) << "texts, for no tool says what else";
  EXPECT_EQ(Calls(whole + "\n" + whole, ToolFormat::kQwen), read + " " + read);
  EXPECT_EQ(Calls("<tool_call>" + call + call + "</tool_call>", ToolFormat::kQwen),
            read + " " + read);
  EXPECT_EQ(ReadAnswer("Wait.\n\n" + whole, ToolFormat::kQwen).content, "Wait.");
  EXPECT_EQ(Calls("Wait. " + call + "\n</tool_call>", ToolFormat::kQwen), read) << "no mark";
  EXPECT_EQ(Calls("<function=f></function>", ToolFormat::kQwen), "f{}");
  EXPECT_EQ(
      Calls("<tool_call><function=f><parameter=a>1<parameter=b>2</function>", ToolFormat::kQwen),
      R"(f{"a":"1","b":"2"})");
  const auto bad = [](const std::string& body) {
    return Bad("<tool_call>" + body + "</tool_call>", ToolFormat::kQwen);
  };
  EXPECT_EQ(bad(R"({"name": "f", "arguments": {}})"),
            "tool call 1 is not <function=NAME>...</function>");
  EXPECT_EQ(bad("<function=f g></function>"), "tool call 1 is not <function=NAME>...</function>");
  EXPECT_EQ(bad("<function=f>"), "tool call 1 has no <parameter=...> or </function>");
  EXPECT_EQ(bad("<function=f><parameter=a>cut"),
            "tool call 1 has a parameter without </parameter>");
}

TEST(ToolCallsTest, GlmReadsKeysAndValues) {
  const std::string call =
      "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>7</arg_value>\n<arg_key> b </arg_key>"
      "<arg_value>x < y</arg_value>\n</tool_call>";
  const std::string read = R"(f{"a":7,"b":"x < y"})";
  EXPECT_EQ(Calls(call, ToolFormat::kGlm), read) << "what they read as, for no tool says what else";
  EXPECT_EQ(Calls("Wait." + call + "\n" + call, ToolFormat::kGlm), read + " " + read);
  EXPECT_EQ(Calls("<tool_call>f</tool_call><tool_call>g\n", ToolFormat::kGlm), "f{} g{}");
  EXPECT_EQ(ReadAnswer("<think></think>\nWait.\n" + call, ToolFormat::kGlm).content,
            "<think></think>Wait.");
  const auto bad = [](const std::string& body) {
    return Bad("<tool_call>" + body + "</tool_call>", ToolFormat::kGlm);
  };
  EXPECT_EQ(bad(R"({"name": "f"})"), "tool call 1 is not NAME<arg_key>...</arg_key>...");
  EXPECT_EQ(bad("f<arg_key>a</arg_key>7"),
            "tool call 1 has no <arg_key>...</arg_key><arg_value>...</arg_value>");
  EXPECT_EQ(bad("f<arg_key>a</arg_key><arg_value>7"),
            "tool call 1 has no <arg_key>...</arg_key><arg_value>...</arg_value>");
}

// What follows the opening is as the models write it.
TEST(ToolCallsTest, AnAnswerThatBeginsWithTheOpeningIsACall) {
  const std::tuple<ToolFormat, const char*, const char*> kEndings[] = {
      {ToolFormat::kHermes, " {\"a\": 1}}\n</tool_call>",
       "{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>"},
      {ToolFormat::kLlama, " {\"a\": 1}}", "f\", \"parameters\": {\"a\": 1}}"},
      {ToolFormat::kMistral, " {\"a\": 1}}]", "[{\"name\": \"f\", \"arguments\": {\"a\": 1}}]"},
      {ToolFormat::kPythonic, "a=1)]", "f(a=1)]"},
      {ToolFormat::kQwen, "<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>",
       "f>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>"},
      {ToolFormat::kGlm, "<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n</tool_call>",
       "f\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n</tool_call>"}};
  for (const auto& [format, named, any] : kEndings) {
    const std::string expected = format == ToolFormat::kQwen ? R"(f{"a":"1"})" : R"(f{"a":1})";
    EXPECT_EQ(Calls(OpeningOfCall(format, "f") + named, format), expected);
    EXPECT_EQ(Calls(OpeningOfCall(format, "") + any, format), expected);
  }
}

}  // namespace
}  // namespace buttress
