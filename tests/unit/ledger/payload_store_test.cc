#include "lib/ledger/payload_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "lib/base/os/failpoint.h"
#include "lib/base/os/file.h"
#include "lib/base/text/digest.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

using ::testing::HasSubstr;

class PayloadStoreTest : public ::testing::Test {
 protected:
  std::unique_ptr<PayloadStore> Open(PayloadEnd end = {},
                                     std::uint64_t segment_bytes = kSegmentBytes) {
    Result<std::unique_ptr<PayloadStore>> store = PayloadStore::Open(path_, end, {}, segment_bytes);
    EXPECT_TRUE(store.ok()) << store.status().ToString();
    return store.ok() ? *std::move(store) : nullptr;
  }

  static Result<PayloadRef> Append(PayloadStore& store, const std::string& bytes,
                                   const LeaseRef& lease = {1, 1}) {
    return store.Append(lease, bytes, Sha256Of(bytes));
  }

  // Lets the next call at the point `name` fail.
  static void FailNext(const std::string& name) {
    ::setenv("BUTTRESS_FAILPOINTS", (name + ":fail:1").c_str(), 1);
    EXPECT_TRUE(ArmFailpoints().ok());
    ::unsetenv("BUTTRESS_FAILPOINTS");
  }

  static PayloadEnd EndOf(const PayloadRef& ref) {
    return {ref.segment, ref.offset + kPayloadHeaderBytes + ref.bytes};
  }

  TempDir folder_;
  const std::string path_ = folder_.path() + "/payloads";
  const std::string first_segment_ = path_ + "/00000001.seg";
};

TEST_F(PayloadStoreTest, AppendedPayloadsAreReadBack) {
  const std::unique_ptr<PayloadStore> store = Open();
  const PayloadRef a = *Append(*store, "first");
  const PayloadRef b = *Append(*store, "");
  const PayloadRef c = *Append(*store, std::string(100000, 'c'));
  ASSERT_TRUE(store->Sync().ok());
  EXPECT_EQ(*store->Read(c), std::string(100000, 'c'));
  EXPECT_EQ(*store->Read(b), "");
  EXPECT_EQ(*store->Read(a), "first");
}

TEST_F(PayloadStoreTest, ATornTailIsCutOffAndOverwritten) {
  PayloadRef kept;
  {
    const std::unique_ptr<PayloadStore> store = Open();
    kept = *Append(*store, "kept");
    ASSERT_TRUE(Append(*store, "never acknowledged").ok());
  }
  std::ofstream(first_segment_, std::ios::app) << "torn";
  const std::unique_ptr<PayloadStore> store = Open(EndOf(kept));
  EXPECT_EQ(std::filesystem::file_size(first_segment_), 36);  // 32 + 4
  const PayloadRef next = *Append(*store, "next");
  EXPECT_EQ(next.offset, 36);
  EXPECT_EQ(*store->Read(kept), "kept");
  EXPECT_EQ(*store->Read(next), "next");
}

TEST_F(PayloadStoreTest, AnyFlippedByteOfARecordIsDataLossOfThatRecordAlone) {
  const std::unique_ptr<PayloadStore> store = Open();
  const PayloadRef ref = *Append(*store, "payload");
  const PayloadRef other = *Append(*store, "other");
  const std::string whole = *ReadFile(first_segment_);
  for (std::uint64_t at = 0; at < ref.end().offset; ++at) {
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ 1);
    std::ofstream(first_segment_, std::ios::binary) << flipped;
    const Result<std::string> bytes = store->Read(ref);
    EXPECT_EQ(bytes.status().code(), StatusCode::kDataLoss) << "byte " << at;
    EXPECT_THAT(bytes.status().message(),
                HasSubstr("00000001.seg: the record at byte 0 is not what was written"));
    EXPECT_EQ(*store->Read(other), "other");
  }
}

TEST_F(PayloadStoreTest, ARecordOfAnotherGroupIsNamed) {
  const std::unique_ptr<PayloadStore> store = Open();
  const PayloadRef ref = *Append(*store, "payload", {7, 2});
  PayloadRef stale = ref;
  ++stale.check;
  EXPECT_THAT(store->Read(stale).status().message(), HasSubstr("group 7 under lease 2 is there"));
}

TEST_F(PayloadStoreTest, ASegmentThatEndsEarlyIsKeptAndTheStoreGoesOnInTheNextOne) {
  PayloadRef kept;
  PayloadRef lost;
  {
    const std::unique_ptr<PayloadStore> store = Open();
    kept = *Append(*store, "kept");
    lost = *Append(*store, "lost");
  }
  std::filesystem::resize_file(first_segment_, lost.end().offset - 1);
  const std::string damaged = *ReadFile(first_segment_);
  for (int start = 0; start < 2; ++start) {
    const std::unique_ptr<PayloadStore> store = Open(EndOf(lost));
    const PayloadRef next = *Append(*store, "next");
    EXPECT_EQ(next.segment, 2);
    EXPECT_EQ(next.offset, 0);
    EXPECT_EQ(*store->Read(kept), "kept");
    EXPECT_THAT(store->Read(lost).status().message(),
                HasSubstr("the file ends after 35 of its 36"));
    EXPECT_EQ(*ReadFile(first_segment_), damaged);
  }
}

TEST_F(PayloadStoreTest, APlaceBehindTheEndThatIsTakenIsNotGivenTwice) {
  PayloadRef needed;
  PayloadRef dropped;
  {
    const std::unique_ptr<PayloadStore> store = Open();
    needed = *Append(*store, "needed");
    dropped = *Append(*store, "dropped");
  }
  const std::unique_ptr<PayloadStore> store =
      *PayloadStore::Open(path_, EndOf(needed), EndOf(dropped));
  EXPECT_EQ(Append(*store, "next")->segment, 2);
  EXPECT_EQ(*store->Read(dropped), "dropped");
}

TEST_F(PayloadStoreTest, AFolderWithoutSegmentsIsDataLoss) {
  std::filesystem::create_directories(path_);
  EXPECT_EQ(PayloadStore::Open(path_, {7, 1}).status().code(), StatusCode::kDataLoss);
}

TEST_F(PayloadStoreTest, AFolderThatIsNotMountedIsNoLossAndIsNotMade) {
  EXPECT_EQ(PayloadStore::Open(path_, {7, 1}).status().code(), StatusCode::kUnavailable);
  EXPECT_FALSE(std::filesystem::exists(path_)) << "it would be in the way of a folder moved back";
}

// A folder in its place would take new payloads, which the one that comes back hides.
TEST_F(PayloadStoreTest, AFolderOfWhichEveryGroupWasDroppedIsNotMadeAnewEither) {
  const PayloadEnd dropped = EndOf(*Append(*Open(), "dropped"));
  std::filesystem::rename(path_, path_ + "-away");
  const Status away = PayloadStore::Open(path_, {}, dropped).status();
  EXPECT_EQ(away.code(), StatusCode::kUnavailable);
  EXPECT_FALSE(std::filesystem::exists(path_));
  std::filesystem::create_directories(path_);  // the mount point
  EXPECT_EQ(PayloadStore::Open(path_, {}, dropped).status().code(), StatusCode::kDataLoss);
  EXPECT_THAT(away.message(), HasSubstr("make it with an empty file " + first_segment_));
  ASSERT_TRUE(WriteFileAtomic(first_segment_, "").ok());
  EXPECT_EQ(Append(**PayloadStore::Open(path_, {}, dropped), "next")->segment, 2);
}

TEST_F(PayloadStoreTest, AFolderThatIsAwayIsToldFromALostSegmentAndGetsNoNewOne) {
  const std::unique_ptr<PayloadStore> store = Open({}, 64);
  const PayloadRef first = *Append(*store, std::string(40, 'a'));
  ASSERT_TRUE(Append(*store, std::string(40, 'b')).ok());
  std::filesystem::rename(path_, path_ + "-away");
  EXPECT_EQ(store->Read(first).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(store->CheckFolder().code(), StatusCode::kUnavailable);
  std::filesystem::create_directories(path_);  // the mount point
  EXPECT_EQ(store->CheckFolder().code(), StatusCode::kUnavailable);
  EXPECT_THAT(Append(*store, std::string(40, 'c')).status().message(),
              HasSubstr("is not there, or another one is in its place"));
  EXPECT_TRUE(std::filesystem::is_empty(path_));
  std::filesystem::remove(path_);
  std::filesystem::rename(path_ + "-away", path_);
  EXPECT_TRUE(store->CheckFolder().ok());
  EXPECT_EQ(*store->Read(first), std::string(40, 'a'));
  std::filesystem::remove(first_segment_);
  EXPECT_TRUE(store->CheckFolder().ok()) << "a segment is lost, and the folder is there";
}

// The second fdatasync of a file returns 0 although the first has lost the bytes.
TEST_F(PayloadStoreTest, AFailedSyncBreaksTheStoreForGood) {
  const std::unique_ptr<PayloadStore> store = Open();
  ASSERT_TRUE(Append(*store, "lost").ok());
  FailNext("payload_sync");
  EXPECT_EQ(store->Sync().code(), StatusCode::kUnavailable);
  EXPECT_EQ(store->Sync().code(), StatusCode::kUnavailable);
  EXPECT_EQ(Append(*store, "more").status().code(), StatusCode::kUnavailable);
}

TEST_F(PayloadStoreTest, AFailedSyncAtTheEndOfASegmentIsNotForgotten) {
  for (const char* point : {"payload_sync", "payload_folder_sync"}) {
    const std::unique_ptr<PayloadStore> store = Open({}, 64);
    ASSERT_TRUE(Append(*store, std::string(40, 'a')).ok());
    FailNext(point);
    EXPECT_EQ(Append(*store, std::string(40, 'b')).status().code(), StatusCode::kUnavailable);
    EXPECT_EQ(store->Sync().code(), StatusCode::kUnavailable) << point;
  }
}

TEST_F(PayloadStoreTest, AWriteThatFailsBreaksTheStoreUnlessTheDiskIsFull) {
  const std::unique_ptr<PayloadStore> store = Open();
  FailNext("payload_write");
  EXPECT_EQ(Append(*store, "lost").status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(store->Sync().code(), StatusCode::kUnavailable);
}

TEST_F(PayloadStoreTest, SegmentsAreBoundedAndEndedOnesCanBeDeleted) {
  const std::unique_ptr<PayloadStore> store = Open({}, 64);
  std::vector<PayloadRef> refs;
  for (int i = 0; i < 5; ++i)
    refs.push_back(*Append(*store, std::string(40, static_cast<char>('a' + i))));
  EXPECT_EQ(refs[4].segment, 5);
  EXPECT_EQ(*store->Read(refs[1]), std::string(40, 'b'));
  EXPECT_EQ(*store->DeleteBefore(3), 2);
  EXPECT_EQ(store->Read(refs[1]).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(*store->Read(refs[2]), std::string(40, 'c'));
  EXPECT_EQ(*store->DeleteBefore(100), 2);  // never the one that is written
  EXPECT_EQ(*store->Read(refs[4]), std::string(40, 'e'));
}

TEST_F(PayloadStoreTest, SegmentsBehindTheLastReferenceAreRemoved) {
  PayloadRef first;
  {
    const std::unique_ptr<PayloadStore> store = Open({}, 16);
    first = *Append(*store, "acknowledged");
    ASSERT_TRUE(Append(*store, "lost").ok());
  }
  const std::unique_ptr<PayloadStore> store = Open(EndOf(first), 16);
  EXPECT_FALSE(std::filesystem::exists(path_ + "/00000002.seg"));
  EXPECT_EQ(*store->Read(first), "acknowledged");
}

TEST_F(PayloadStoreTest, ARecordThatDoesNotFitOnTheDiskLeavesTheStoreUsable) {
  const std::unique_ptr<PayloadStore> store = Open();
  const PayloadRef kept = *Append(*store, "kept");
  // A file-size limit stands in for a full disk: both make a write stop half way.
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit tight = {.rlim_cur = 1000, .rlim_max = before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &tight);
  const Result<PayloadRef> refused = Append(*store, std::string(4000, 'x'));
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(refused.status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(std::filesystem::file_size(first_segment_), 36);
  EXPECT_EQ(*store->Read(*Append(*store, "next")), "next");
  EXPECT_EQ(*store->Read(kept), "kept");
}

}  // namespace
}  // namespace buttress
