// The page of a report in a browser, on the screen of a phone.
#include <gmock/gmock.h>

#include "cli/explain/report.h"
#include "cli/svg_plot.h"
#include "lib/explain/post_mortem.h"
#include "tests/support/runs/browser.h"

namespace buttress {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kHostile[] = "<script>document.title='owned'</script>";

// Names without a blank, as those of files and hosts, cannot be broken between words.
std::string Long(const std::string& name) { return name + std::string(200, 'x'); }

std::string PageWithLongNames() {
  PostMortem post_mortem(CauseRules{}, nullptr);
  for (std::int64_t step = 1; step <= 20; ++step) {
    std::vector<GroupFacts> groups(6);
    for (std::size_t k = 0; k < groups.size(); ++k) {
      groups[k].step = step;
      groups[k].prompt_id = Long(std::to_string(k) + kHostile);
      groups[k].source = Long(k < 3 ? "a" : "b");
      groups[k].sampler = Long(k % 2 == 0 ? "c" : "d");
      groups[k].where = Long("1.jsonl:");
      for (int i = 0; i < 4; ++i) {
        groups[k].completions.emplace_back().SetRewards(k < 2 ? 1 : k > 3 ? i % 2 : 0);
        groups[k].completions.back().tokens = 100;
      }
    }
    EXPECT_TRUE(post_mortem.Add(groups).ok());
  }
  return ReportHtml({Long("/runs/"), Long("dump"), {Long("remark"), kHostile}},
                    post_mortem.Finish());
}

// A window has a least width that a phone has not, so the page is shown in a frame.
TEST(ReportBrowserTest, ThePageFitsThePhoneWithEveryPartOpen) {
  if (!HasBrowser()) GTEST_SKIP() << kNoBrowser;
  const TempDir dir;
  const std::string path = JoinPath(dir.path(), "frame.html");
  const std::string frame =
      "<iframe id=\"f\" style=\"width:390px;height:844px;border:0\" srcdoc=\"" +
      EscapeXml(PageWithLongNames()) +
      "\"></iframe><p id=\"seen\"></p><script>onload = () => {"
      "const page = document.getElementById('f').contentDocument;"
      "for (const part of page.querySelectorAll('details')) part.open = true;"
      "const count = (name) => page.querySelectorAll(name).length;"
      "const fits = page.documentElement.scrollWidth <= page.documentElement.clientWidth;"
      "document.getElementById('seen').textContent = `seen: fits ${fits}, ${count('svg')} svg, "
      "lines ${count('polyline') > 5}, ${count('details[open]')} parts, ${count('h1 ~ p b')} "
      "conclusion, titled ${page.title.slice(0, 13)} end`;};</script>";
  ASSERT_TRUE(WriteFileAtomic(path, frame).ok());
  const Rendered page = Render("file://" + path);
  EXPECT_THAT(page.log, Not(HasSubstr("CONSOLE"))) << page.log;
  const std::size_t seen = page.dom.find("\"seen\">");
  ASSERT_NE(seen, std::string::npos) << page.log;
  EXPECT_EQ(
      page.dom.substr(seen, page.dom.find("</p>", seen) - seen),
      "\"seen\">seen: fits true, 1 svg, lines true, 4 parts, 1 conclusion, titled explain /runs "
      "end");
}

}  // namespace
}  // namespace buttress
