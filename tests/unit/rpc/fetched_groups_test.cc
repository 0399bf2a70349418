#include "lib/rpc/fetched_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/test_group.h"

namespace buttress {
namespace {

class FetchedGroupsTest : public testing::Test {
 protected:
  FetchedGroupsTest() {
    request_.add_group_ids(7);
    request_.add_group_ids(8);
  }

  // Two parts of the group.
  Status Add(std::uint64_t id, bool whole = true) {
    v1::Group group = NewGroup(id);
    AppendCompletion(group, {1, 2}, Outcome::kCorrect, 1);
    const std::string bytes = EncodedGroup::Of(group).bytes;
    v1::FetchGroupsResponse part;
    part.set_group_id(id);
    part.set_data(bytes.substr(0, 5));
    Status added = groups_.Add(part);
    if (!whole || !added.ok()) return added;
    part.set_data(bytes.substr(5));
    part.set_last(true);
    return groups_.Add(part);
  }

  v1::FetchGroupsRequest request_;
  FetchedGroups groups_{request_};
};

TEST_F(FetchedGroupsTest, BeginsAnewAfterAStreamThatWasCut) {
  ASSERT_TRUE(Add(7).ok());
  ASSERT_TRUE(Add(8, /*whole=*/false).ok());
  EXPECT_EQ(groups_.Take().status().code(), StatusCode::kDataLoss);
  groups_.Clear();
  ASSERT_TRUE(Add(7).ok());
  ASSERT_TRUE(Add(8).ok());
  const auto groups = groups_.Take();
  ASSERT_TRUE(groups.ok());
  ASSERT_EQ(groups->size(), 2U);
  EXPECT_EQ(groups->front().head().group_id(), 7U);
  EXPECT_EQ(groups->back().head().group_id(), 8U);
}

TEST_F(FetchedGroupsTest, RefusesAGroupInThePlaceOfAnother) {
  const Status added = Add(8);
  EXPECT_EQ(added.code(), StatusCode::kDataLoss);
  EXPECT_THAT(added.message(), testing::HasSubstr("in the place of another group"));
}

TEST_F(FetchedGroupsTest, RefusesMoreGroupsThanWereAskedFor) {
  ASSERT_TRUE(Add(7).ok());
  ASSERT_TRUE(Add(8).ok());
  EXPECT_EQ(Add(9).code(), StatusCode::kDataLoss);
}

}  // namespace
}  // namespace buttress
