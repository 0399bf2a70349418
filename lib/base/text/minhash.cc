#include "lib/base/text/minhash.h"

#include <algorithm>

#include "lib/base/text/random.h"

namespace buttress {
namespace {

constexpr int kBinBits = 5;
static_assert(std::tuple_size_v<MinHash> == std::size_t{1} << kBinBits);

}  // namespace

void MinHasher::Add(std::uint64_t word) {
  third_ = second_;
  second_ = first_;
  first_ = word;
  ++words_;
  if (words_ >= 3) AddRun(MixSeed(MixSeed(third_, second_), first_));
}

void MinHasher::AddRun(std::uint64_t run) {
  std::uint64_t& least = least_[run >> (64 - kBinBits)];
  least = least == 0 ? std::max<std::uint64_t>(run, 1) : std::min(least, run);
}

MinHash MinHasher::Finish() {
  if (words_ < 3) AddRun(MixSeed(MixSeed(0, second_), first_));
  MinHash sketch{};
  for (std::size_t i = 0; i < sketch.size(); ++i) {
    const auto low_bits = static_cast<std::uint16_t>(least_[i]);
    sketch[i] = least_[i] != 0 && low_bits == 0 ? 1 : low_bits;
  }
  return sketch;
}

MinHash SketchTokens(std::span<const std::int32_t> token_ids) {
  MinHasher words;
  for (const std::int32_t token : token_ids)
    words.Add(MixSeed(1, static_cast<std::uint64_t>(token)));
  return words.Finish();
}

double Similarity(const MinHash& a, const MinHash& b) {
  int filled = 0;
  int equal = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == 0 && b[i] == 0) continue;
    ++filled;
    equal += a[i] == b[i] ? 1 : 0;
  }
  return filled == 0 ? 0.0 : static_cast<double>(equal) / filled;
}

}  // namespace buttress
