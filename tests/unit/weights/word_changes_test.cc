#include "lib/weights/word_changes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>

#include "lib/base/text/random.h"

namespace buttress {
namespace {

std::string RandomBytes(RandomStream& random, std::size_t size) {
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random.Below(256));
  return bytes;
}

// Sizes of every remainder, from no change to a change of every word, of any size and sign.
TEST(WordChangesTest, ChangesMakeTheNextBytesOfTheBase) {
  RandomStream random({5, 0});
  for (std::size_t size = 0; size < 3000; size += 1 + random.Below(7)) {
    const std::string base = RandomBytes(random, size);
    std::string next = base;
    for (std::uint64_t n = random.Below(1 + size / 4); n > 0; --n) {
      char& byte = next[random.Below(size)];
      byte = static_cast<char>(byte + static_cast<char>(random.Below(256)));
    }
    const auto changes = EncodeChanges(base, next);
    if (!changes) continue;
    ASSERT_LT(changes->size(), std::max<std::size_t>(next.size(), 1));
    std::string made = base;
    ASSERT_TRUE(ApplyChanges(*changes, made).ok());
    ASSERT_EQ(made, next) << size;
  }
}

TEST(WordChangesTest, AWordThatMovesByOneTakesTwoBytes) {
  std::string base(20000, '\x40'), next = base;
  for (std::size_t i = 0; i < 100; ++i) next[200 * i] = i % 2 == 0 ? '\x41' : '\x3f';
  EXPECT_EQ(EncodeChanges(base, next)->size(), 200U);
  EXPECT_EQ(EncodeChanges(base, base), "");
}

TEST(WordChangesTest, BytesThatAreAllOthersAreNotEncoded) {
  RandomStream random({6, 0});
  EXPECT_EQ(EncodeChanges(RandomBytes(random, 1000), RandomBytes(random, 1000)), std::nullopt);
}

TEST(WordChangesTest, MalformedChangesAreRefusedAndNothingElse) {
  // A word behind the end, a gap without a difference, integers without an end.
  for (const std::string changes : {"\x05\x01", "\x01", "\x80", "\x01\x80"}) {
    std::string bytes(10, 'a');
    EXPECT_EQ(ApplyChanges(changes, bytes).code(), StatusCode::kDataLoss);
  }
  RandomStream random({7, 0});
  for (int i = 0; i < 2000; ++i) {
    std::string bytes(random.Below(40), 'a');
    const std::size_t size = bytes.size();
    (void)ApplyChanges(RandomBytes(random, random.Below(30)), bytes);
    ASSERT_EQ(bytes.size(), size);
  }
}

}  // namespace
}  // namespace buttress
