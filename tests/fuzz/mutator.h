// Makes inputs that are almost valid: real inputs with a few changes that keep most of their
// structure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace buttress {

// The same seed makes the same inputs. Thread safety: none.
class Mutator {
 public:
  // REQUIRES: `corpus` is not empty, and `dictionary` outlives this instance.
  Mutator(std::uint64_t seed, std::vector<std::string> corpus,
          std::span<const std::string_view> dictionary, std::size_t max_bytes)
      : random_(seed), pool_(std::move(corpus)), dictionary_(dictionary), max_bytes_(max_bytes) {}

  // Returns an input of the pool with one to eight changes. Some results replace their origin in
  // the pool, so that changes accumulate.
  std::string Next();

 private:
  std::size_t Below(std::size_t bound) { return static_cast<std::size_t>(random_() % bound); }

  void Change(std::string& text);
  void Nest(std::string& text);
  void ChangeNumber(std::string& text);

  std::mt19937_64 random_;
  std::vector<std::string> pool_;
  std::span<const std::string_view> dictionary_;
  std::size_t max_bytes_;
};

}  // namespace buttress
