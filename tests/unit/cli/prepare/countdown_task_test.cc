#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "cli/prepare/task.h"
#include "lib/verify/verifier.h"

namespace buttress {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

std::unique_ptr<Task> Make(const CountdownOptions& options) {
  Result<std::unique_ptr<Task>> task = MakeCountdownTask(options);
  EXPECT_TRUE(task.ok()) << task.status().ToString();
  return *std::move(task);
}

CountdownOptions QuickstartOptions() {
  CountdownOptions options;
  options.kinds = {{.share = 1, .numbers = 4, .operators = "+-"}};
  options.use = NumberUse::kExactlyOnce;
  return options;
}

struct Fraction {
  std::int64_t top;
  std::int64_t bottom;
};

// Searches all ways of combining the values pairwise for one that gives `target`, in fractions.
bool Reaches(const std::vector<Fraction>& values, std::int64_t target) {
  if (values.size() == 1) return values[0].top == target * values[0].bottom;
  for (std::size_t i = 0; i < values.size(); ++i) {
    for (std::size_t j = 0; j < values.size(); ++j) {
      if (i == j) continue;
      const Fraction a = values[i];
      const Fraction b = values[j];
      std::vector<Fraction> results = {{a.top * b.bottom + b.top * a.bottom, a.bottom * b.bottom},
                                       {a.top * b.bottom - b.top * a.bottom, a.bottom * b.bottom},
                                       {a.top * b.top, a.bottom * b.bottom}};
      if (b.top != 0) results.push_back({a.top * b.bottom, a.bottom * b.top});
      for (const Fraction& result : results) {
        std::vector<Fraction> rest = {result};
        for (std::size_t k = 0; k < values.size(); ++k) {
          if (k != i && k != j) rest.push_back(values[k]);
        }
        if (Reaches(rest, target)) return true;
      }
    }
  }
  return false;
}

bool ReachesWithSome(const std::vector<std::int64_t>& numbers, std::int64_t target) {
  for (unsigned chosen = 1; chosen < (1U << numbers.size()); ++chosen) {
    std::vector<Fraction> values;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if ((chosen >> i & 1U) != 0) values.push_back({numbers[i], 1});
    }
    if (Reaches(values, target)) return true;
  }
  return false;
}

TEST(CountdownTask, WritesTheFormatOfTheQuickstart) {
  const auto task = Make(QuickstartOptions());
  RandomStream random({.seed = 1, .stream = 0});
  for (int i = 0; i < 500; ++i) {
    const TaskProblem problem = *task->Draw(random);
    EXPECT_THAT(problem.prompt, MatchesRegex("[1-9][1-9][1-9][1-9]>[0-9][0-9][0-9]:"));
    EXPECT_THAT(problem.solution, MatchesRegex("[1-9][+-][1-9][+-][1-9][+-][1-9]"));
    EXPECT_THAT(problem.guess, MatchesRegex("[1-9][+-][1-9][+-][1-9][+-][1-9]"));
  }
}

TEST(CountdownTask, EveryTargetIsReachableBySearch) {
  CountdownOptions options;
  options.kinds = {{.share = 1, .numbers = 4, .operators = "+-*/"}};
  options.max_number = 30;
  options.min_target = -50;
  options.max_target = 200;
  const auto task = Make(options);
  RandomStream random({.seed = 2, .stream = 0});
  for (int i = 0; i < 300; ++i) {
    const TaskProblem problem = *task->Draw(random);
    const CountdownProblem parsed = *ParseCountdown(problem.answer);
    EXPECT_GE(parsed.target, -50);
    EXPECT_LE(parsed.target, 200);
    for (const std::int64_t number : parsed.numbers)
      EXPECT_TRUE(number >= 1 && number <= 30) << number;
    EXPECT_TRUE(ReachesWithSome(parsed.numbers, parsed.target)) << problem.answer;
  }
}

TEST(CountdownTask, TheVerifierAcceptsEverySolutionInEveryFormat) {
  for (const PromptFormat format : {PromptFormat::kCompact, PromptFormat::kWords}) {
    for (const NumberUse use : {NumberUse::kAtMostOnce, NumberUse::kExactlyOnce}) {
      CountdownOptions options;
      options.kinds = {{.share = 1, .numbers = 2, .operators = "/"},
                       {.share = 2, .numbers = 6, .operators = "+-*/"}};
      options.max_number = 12;
      options.use = use;
      options.format = format;
      const auto task = Make(options);
      RewardConfig config;
      config.use_all = use == NumberUse::kExactlyOnce;
      const auto verifier = *MakeVerifier("countdown", config);
      RandomStream random({.seed = 3, .stream = 0});
      std::set<Outcome> guesses;
      for (int i = 0; i < 300; ++i) {
        const TaskProblem problem = *task->Draw(random);
        const auto judge = [&](const std::string& response) {
          return verifier->Verify({problem.prompt, response, problem.answer, {}, false}).outcome;
        };
        EXPECT_EQ(judge(problem.solution), Outcome::kCorrect) << problem.prompt << problem.solution;
        guesses.insert(judge(problem.guess));
      }
      EXPECT_EQ(guesses, (std::set<Outcome>{Outcome::kCorrect, Outcome::kWrong}));
    }
  }
}

TEST(CountdownTask, KindsAppearInTheirShares) {
  CountdownOptions options;
  options.kinds = {{.share = 0.3, .numbers = 2, .operators = "+"},
                   {.share = 0.3, .numbers = 4, .operators = "+"},
                   {.share = 0.4, .numbers = 5, .operators = "*"}};
  options.max_target = 100000;
  const auto task = Make(options);
  RandomStream random({.seed = 4, .stream = 0});
  std::map<std::size_t, int> counts;
  for (int i = 0; i < 4000; ++i)
    ++counts[ParseCountdown(task->Draw(random)->answer)->numbers.size()];
  // Five standard deviations of a binomial count.
  EXPECT_NEAR(counts[2], 1200, 145);
  EXPECT_NEAR(counts[4], 1200, 145);
  EXPECT_NEAR(counts[5], 1600, 155);
}

TEST(CountdownTask, LargeNumbersAreSeparatedByCommas) {
  CountdownOptions options;
  options.kinds = {{.share = 1, .numbers = 3, .operators = "+"}};
  options.min_number = 10;
  options.max_number = 99;
  options.use = NumberUse::kExactlyOnce;
  const auto task = Make(options);
  RandomStream random({.seed = 5, .stream = 0});
  EXPECT_THAT(task->Draw(random)->prompt,
              MatchesRegex("[1-9][0-9],[1-9][0-9],[1-9][0-9]>[0-9][0-9][0-9]:"));
}

TEST(CountdownTask, ErrorsNameOptionsOutOfRange) {
  const auto error = [](const std::function<void(CountdownOptions&)>& change) {
    CountdownOptions options;
    change(options);
    return MakeCountdownTask(options).status().message();
  };
  EXPECT_THAT(error([](CountdownOptions& o) { o.kinds[0].numbers = 1; }),
              HasSubstr("--numbers = 1; expected 2 to 16"));
  EXPECT_THAT(error([](CountdownOptions& o) { o.kinds[0].operators = "+^"; }),
              HasSubstr("--operators = '+^'"));
  EXPECT_THAT(error([](CountdownOptions& o) { o.kinds[0].operators = ""; }),
              HasSubstr("--operators = ''"));
  EXPECT_THAT(error([](CountdownOptions& o) { o.kinds[0].share = 0; }), HasSubstr("share"));
  EXPECT_THAT(error([](CountdownOptions& o) { o.max_number = 0; }),
              HasSubstr("--number-max = 0; expected 1 to"));
  EXPECT_THAT(error([](CountdownOptions& o) { o.max_target = -1; }),
              HasSubstr("--target-max = -1; expected 0 to"));
}

TEST(CountdownTask, UnreachableTargetsAreAnError) {
  CountdownOptions options;
  options.kinds = {{.share = 1, .numbers = 2, .operators = "+"}};
  options.min_target = 100;
  const auto task = Make(options);
  RandomStream random({.seed = 6, .stream = 0});
  EXPECT_THAT(task->Draw(random).status().message(), HasSubstr("gave no target from 100 to 999"));
}

TEST(CountdownTask, ParsesTheKindsOfAMix) {
  const Result<CountdownKind> kind = ParseCountdownKind("0.3:4:+-");
  ASSERT_TRUE(kind.ok());
  EXPECT_EQ(kind->share, 0.3);
  EXPECT_EQ(kind->numbers, 4);
  EXPECT_EQ(kind->operators, "+-");
  for (const char* text : {"", "0.3", "0.3:4", "x:4:+", "0.3:4x:+", "0.3::+"})
    EXPECT_FALSE(ParseCountdownKind(text).ok()) << text;
}

}  // namespace
}  // namespace buttress
