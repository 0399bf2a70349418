// What is left of finished runs: `launch --seeds`, `page` and `compare` with the real programs.
#include <absl/strings/str_replace.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/runs/browser.h"
#include "tests/support/runs/launched_run.h"

namespace buttress::after_run_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::int64_t kRunMs = 120000;

// What `argv` prints; its exit code must be `expected`.
std::string Printed(const std::vector<std::string>& argv, int expected = 0) {
  const TempDir dir;
  const std::string log = JoinPath(dir.path(), "log");
  EXPECT_EQ(RunToEnd(argv, log, kRunMs), expected) << TextOf(log);
  return TextOf(log);
}

std::size_t Count(const std::string& text, std::string_view part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// A text of the newest step, as JSON writes it in the page.
std::string ATextOf(const std::string& run) {
  const std::string printed =
      Printed({SiblingProgram("buttress"), "samples", run, "--groups", "1", "--json"});
  const auto group = nlohmann::json::parse(printed.substr(0, printed.find('\n')), nullptr, false);
  return group["completions"][0]["text"].get<std::string>();
}

void ExpectPage(const std::string& run) {
  const std::string path = JoinPath(run, "page.html"), page = TextOf(path);
  EXPECT_THAT(page, AllOf(HasSubstr("\"causes\""), HasSubstr("Content-Security-Policy")));
  const std::string text = ATextOf(run);
  ASSERT_FALSE(text.empty());
  const TempDir dir;
  const std::string other = JoinPath(dir.path(), "other.html");
  EXPECT_THAT(Printed({SiblingProgram("buttress"), "page", run, "--out", other}), HasSubstr(other));
  if (RunToEnd({"sh", "-c", "command -v node"}, JoinPath(dir.path(), "log"), 10000) == 0) {
    const std::string shown =
        Printed({"node", BUTTRESS_SOURCE_DIR "/tests/support/runs/page_dom.js", other});
    EXPECT_THAT(shown, AllOf(HasSubstr("state: finished"), HasSubstr("where: step 3 of 3"),
                             HasSubstr("groups gave no signal"), HasSubstr(text)));
    EXPECT_THAT(shown, AllOf(HasSubstr("Entropy (nats per token)"), HasSubstr("problems: \n")));
  }
  if (!HasBrowser()) return;
  const Rendered rendered = Render("file://" + path);
  EXPECT_THAT(rendered.log, Not(HasSubstr("CONSOLE"))) << rendered.log;
  const std::string escaped =
      absl::StrReplaceAll(text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}});
  EXPECT_THAT(rendered.dom,
              AllOf(HasSubstr("step 3 of 3"), HasSubstr(escaped), HasSubstr("sampled</div>")));
}

TEST(AfterRunTest, SeedsAreRunOnceComparedAndEachHasAPage) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  LaunchedRun run(30, {"--set", "run.steps=3", "--set", "local.launch.workers=1", "--set",
                       "local.launch.learner_ranks=1", "--seeds", "2"});
  run.Start();
  ASSERT_EQ(run.Wait(kRunMs), 0) << run.Text();
  const std::string seeds = run.out() + "-seeds", printed = TextOf(run.log());
  EXPECT_THAT(printed, AllOf(HasSubstr("launch: seed 1, run 1 of 2"),
                             HasSubstr("launch: seed 2, run 2 of 2"),
                             HasSubstr("run-seeds: mean over 2 seeds"), HasSubstr("seed-2")));
  EXPECT_FALSE(std::filesystem::exists(run.out()));
  ExpectPage(JoinPath(seeds, "seed-1"));

  run.Start();  // both are finished
  ASSERT_EQ(run.Wait(kRunMs), 0) << run.Text();
  const std::string again = TextOf(run.log()).substr(printed.size());
  EXPECT_THAT(again, AllOf(HasSubstr("seed-1 is finished"), HasSubstr("seed-2 is finished"),
                           HasSubstr("mean over 2 seeds"), Not(HasSubstr("1 coordinator"))));

  run.Start({"--set", "run.optim.lr=1e-3"});
  EXPECT_EQ(run.Wait(kRunMs), 2) << run.Text();
  EXPECT_THAT(TextOf(run.log()), HasSubstr("differ in their seed alone"));

  const std::string html = JoinPath(seeds, "both.html"), json = JoinPath(seeds, "both.json");
  const std::string table =
      Printed({SiblingProgram("buttress"), "compare", JoinPath(seeds, "seed-1"),
               JoinPath(seeds, "seed-2"), "--out", html, "--json", json});
  EXPECT_THAT(table, AllOf(HasSubstr("run.seed: 1 | 2"), HasSubstr("prompt by prompt")));
  const std::string page = TextOf(html);
  // A line of each run in each of the four plots, and what the names of both runs stand for.
  EXPECT_EQ(Count(page, "<polyline fill=\"none\" stroke=\"#0969da\""), 4U);
  EXPECT_EQ(Count(page, "<polyline fill=\"none\" stroke=\"#cf222e\""), 4U);
  EXPECT_THAT(page, AllOf(HasSubstr(">seed-1</text>"), HasSubstr(">seed-2</text>")));
  const auto found = nlohmann::json::parse(TextOf(json), nullptr, false);
  ASSERT_EQ(found["runs"].size(), 2U);
  EXPECT_EQ(found["runs"][1]["steps"], 3);
  EXPECT_TRUE(found["runs"][1]["finished"]);
  EXPECT_GT(found["runs"][0]["tokens"], 0);
  EXPECT_EQ(found["seeds"][0]["held_out_after"]["runs"], 2);

  EXPECT_THAT(
      Printed({SiblingProgram("buttress"), "launch", run.yaml(), "--seeds", "2", "--hosts", "none"},
              2),
      HasSubstr("--seeds makes its runs on this machine alone"));
  EXPECT_THAT(Printed({SiblingProgram("buttress"), "page", run.out()}, 2), HasSubstr(run.out()));
}

}  // namespace
}  // namespace buttress::after_run_test
