// The world of a simulated cluster: one clock, one queue of events, and everything random from one
// seed. Nothing in it waits, sleeps or runs beside something else, so that a seed gives the same
// story every time.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/os/clock.h"
#include "lib/base/text/random.h"

namespace buttress::simulation {

// A process of the cluster. Its events are dropped once it is dead, and wait while it is paused.
struct Process {
  std::string name;
  bool alive = true;
  std::int64_t paused_until_ms = 0;
};

using ProcessPtr = std::shared_ptr<Process>;

// Random numbers of one purpose, so that another number drawn elsewhere changes none of them.
class Dice {
 public:
  Dice(std::uint64_t seed, std::string_view purpose) : random_({seed, HashText(purpose)}) {}

  std::uint64_t Below(std::uint64_t bound) { return random_.Below(bound); }

  // A number from `least` to `most`.
  std::int64_t Between(std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(Below(static_cast<std::uint64_t>(most - least + 1)));
  }

  bool Chance(std::uint64_t percent) { return Below(100) < percent; }

 private:
  RandomStream random_;
};

// What happened how often, by name.
using Coverage = std::map<std::string, std::int64_t, std::less<>>;

class World {
 public:
  // Lines of the story go to `story`, which may be empty.
  World(std::uint64_t seed, std::function<void(const std::string&)> story)
      : seed_(seed), story_(std::move(story)) {}

  std::uint64_t seed() const { return seed_; }

  std::int64_t now_ms() const { return now_ms_; }

  // Calls `event` after `delay_ms`, as what `process` does; null: nobody's.
  void After(std::int64_t delay_ms, ProcessPtr process, std::function<void()> event);

  // Runs the next event; false if there is none, or the world has failed.
  bool RunNext();

  // Forgets the events that have not happened.
  void Clear() { events_ = {}; }

  bool tells() const { return story_ != nullptr; }

  template <class... Values>
  void Tell(fmt::format_string<Values...> form, Values&&... values) {
    if (tells()) TellLine(fmt::format(form, std::forward<Values>(values)...));
  }

  // Notes what is wrong: the first sentence counts.
  void Fail(const std::string& what);

  void Expect(bool holds, std::string_view what) {
    if (!holds) Fail(std::string(what));
  }

  const std::string& failure() const { return failure_; }

  void Count(std::string_view what, std::int64_t times = 1);

  Coverage& coverage() { return coverage_; }

 private:
  struct Event {
    std::int64_t at_ms;
    std::uint64_t order;
    ProcessPtr process;
    std::function<void()> run;

    // The last one of a std::priority_queue comes first.
    bool operator<(const Event& other) const {
      return std::pair(other.at_ms, other.order) < std::pair(at_ms, order);
    }
  };

  void TellLine(const std::string& line);

  const std::uint64_t seed_;
  const std::function<void(const std::string&)> story_;
  std::int64_t now_ms_ = 0;
  std::uint64_t next_order_ = 0;
  std::priority_queue<Event> events_;
  Coverage coverage_;
  std::string failure_;
};

// The clock of one machine, which a fault may set.
class MachineClock final : public Clock {
 public:
  explicit MachineClock(const World& world) : world_(world) {}

  std::int64_t MonotonicMs() const override {
    return shown_ms_ != 0 ? shown_ms_ : 1000 + world_.now_ms() + ahead_ms_;
  }

  std::int64_t UnixMs() const override { return MonotonicMs() + unix_ms_; }

  // The machine was suspended: its time leaps.
  void Leap(std::int64_t ms) { ahead_ms_ += ms; }

  // Somebody sets the clock, forwards or backwards.
  void Set(std::int64_t ms) { unix_ms_ += ms; }

  // Shows this time until it is told another; 0: the right one.
  void Show(std::int64_t ms) { shown_ms_ = ms; }

 private:
  const World& world_;
  std::int64_t ahead_ms_ = 0;
  std::int64_t unix_ms_ = 0;
  std::int64_t shown_ms_ = 0;
};

}  // namespace buttress::simulation
