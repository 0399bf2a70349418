// A small model of the pipeline, driven in random order: no trained group is older than MaxAge, and
// some group is exactly that old.
#include "lib/rl/staleness.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "lib/base/text/random.h"

namespace buttress {
namespace {

struct Waiting {
  std::int64_t version;  // announced when it was leased
  bool ready;
  std::int64_t passed;  // by younger groups
};

class Pipeline {
 public:
  Pipeline(std::int64_t prompts, std::int64_t max_age, std::int64_t window, bool drops,
           std::uint64_t seed)
      : prompts_(prompts), max_age_(max_age), window_(window), drops_(drops), random_({seed, 0}) {}

  // Age of the oldest group trained in `steps` steps. Leases are granted as early as possible.
  std::int64_t OldestOf(std::int64_t steps) {
    while (version_ < steps) {
      LeaseAll();
      switch (random_.Below(3)) {
        case 0:
          FinishOne();
          break;
        case 1:
          TakeOne();
          break;
        default:
          DropOne();
          break;
      }
    }
    return oldest_;
  }

 private:
  void LeaseAll() {
    while (slots_ < ActiveSlotBudget(prompts_, max_age_)) {
      ++slots_;
      waiting_.push_back({version_, false, 0});
    }
  }

  void FinishOne() { waiting_[random_.Below(waiting_.size())].ready = true; }

  // The assembler takes one ready group whose older groups may all be passed once more. P groups
  // make a step, whose version releases their slots.
  void TakeOne() {
    const std::size_t i = random_.Below(waiting_.size());
    const bool may_pass =
        std::all_of(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(i),
                    [&](const Waiting& elder) { return elder.passed < window_ - 1; });
    if (!waiting_[i].ready || !may_pass) return;
    oldest_ = std::max(oldest_, version_ - waiting_[i].version);
    for (std::size_t elder = 0; elder < i; ++elder) ++waiting_[elder].passed;
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
    if (++taken_ == prompts_) {
      taken_ = 0;
      slots_ -= prompts_;
      ++version_;
    }
  }

  void DropOne() {
    if (!drops_ || random_.Below(8) > 0) return;
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(random_.Below(waiting_.size())));
    --slots_;
  }

  const std::int64_t prompts_;
  const std::int64_t max_age_;
  const std::int64_t window_;
  const bool drops_;
  RandomStream random_;
  std::deque<Waiting> waiting_;
  std::int64_t slots_ = 0;
  std::int64_t taken_ = 0;
  std::int64_t version_ = 0;
  std::int64_t oldest_ = 0;
};

TEST(StalenessProperty, NoTrainedGroupIsOlderThanTheBoundAndTheBoundIsReached) {
  for (std::int64_t prompts = 1; prompts <= 4; ++prompts) {
    for (std::int64_t max_age = 0; max_age <= 2; ++max_age) {
      // Beyond (S + 1) P groups no further group can pass.
      for (std::int64_t window = 1; window <= (max_age + 1) * prompts; ++window) {
        const std::int64_t bound = MaxAge(prompts, max_age, window);
        std::int64_t oldest = 0;
        for (std::uint64_t seed = 0; seed < 20; ++seed) {
          oldest = std::max(oldest, Pipeline(prompts, max_age, window, false, seed).OldestOf(60));
          EXPECT_LE(Pipeline(prompts, max_age, window, true, seed).OldestOf(60), bound);
        }
        EXPECT_EQ(oldest, max_age == 0 ? 0 : bound)
            << "P = " << prompts << ", S = " << max_age << ", W = " << window;
      }
    }
  }
}

TEST(StalenessTest, TheHeadroomIsTheSlotBudgetUnlessStepsAreTrainedAgain) {
  const std::int64_t active = 5;
  EXPECT_EQ(LeaseHeadroom(4, 1, 3, 3 * 4 + active), ActiveSlotBudget(4, 1) - active);
  // After a return from step 3 to step 1 two planned steps precede every new group, and no group
  // may be leased until one is trained.
  EXPECT_EQ(LeaseHeadroom(4, 1, 1, 1 * 4 + 2 * 4), 0);
  EXPECT_EQ(LeaseHeadroom(4, 1, 2, 2 * 4 + 1 * 4), 4);
}

}  // namespace
}  // namespace buttress
