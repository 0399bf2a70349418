#include "lib/verify/audit/variants.h"
#include "lib/verify/extract.h"

namespace buttress {
namespace {

std::string Replaced(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

}  // namespace

std::vector<FormatVariant> FormatVariants(std::string_view answer) {
  const std::string a(Trim(answer));
  const std::string boxed = "\\boxed{" + a + "}";
  const std::string wide =
      Replaced(Replaced(Replaced(a, "(", "\\left( "), ")", " \\right)"), "\\left\\left", "\\left");
  std::vector<FormatVariant> variants = {
      {"boxed", boxed},
      {"boxed in dollars", "So we find that it must be $" + boxed + "$."},
      {"boxed in a display", "Therefore\n\\[" + boxed + "\\]\n"},
      {"boxed after a wrong one",
       "First I thought of \\boxed{123456789}, which is too large. So it is " + boxed + "."},
      {"boxed behind thinking", "<think>Maybe \\boxed{123456789}.</think>\nIt is " + boxed},
      {"boxed, a special token behind", boxed + "<|im_end|>"},
      {"boxed, blanks inside", "\\boxed{ " + a + " }"},
      {"boxed, bold", "**" + boxed + "**"},
      {"boxed, dollars inside", "\\boxed{$" + a + "$}"},
      {"final answer is", "The final answer is $" + a + "$. I hope it is correct."},
      {"hashes", "First this, then that.\n#### $" + a + "$"},
      {"Answer:", "First this, then that.\nAnswer: $" + a + "$"},
      {"Answer: in bold", "**Answer:** $" + a + "$"},
      {"answer tags", "<answer>" + boxed + "</answer>"},
  };
  if (a.find("\\frac") != std::string::npos)
    variants.push_back({"display fractions", "\\boxed{" + Replaced(a, "\\frac", "\\dfrac") + "}"});
  if (a.find("\\\\") == std::string::npos && a.find('\\') != std::string::npos)
    variants.push_back({"doubled backslashes", "\\boxed{" + Replaced(a, "\\", "\\\\") + "}"});
  if (wide != a && a.find("\\left") == std::string::npos)
    variants.push_back({"\\left and \\right", "\\boxed{" + wide + "}"});
  return variants;
}

}  // namespace buttress
