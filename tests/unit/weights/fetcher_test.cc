#include "lib/weights/fetcher.h"

#include <gmock/gmock.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <thread>

#include "buttress/v1/weights.grpc.pb.h"
#include "lib/base/os/clock.h"
#include "lib/base/os/file.h"
#include "lib/base/thread/sync.h"
#include "lib/experience/codec.h"
#include "lib/rpc/channel.h"
#include "lib/weights/version_folder.h"
#include "lib/weights/weight_server.h"
#include "tests/support/runs/made_certificates.h"
#include "tests/support/runs/published_weights.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A deadline for events that are immediate unless the machine is busy. No test waits for its end.
constexpr std::int64_t kPatienceMs = 30000;

// A Weights service that sends what `script` writes to each call.
class ScriptedServer : public v1::Weights::Service {
 public:
  using Writer = grpc::ServerWriter<v1::WeightChunk>;
  using Script = std::function<grpc::Status(grpc::ServerContext& context, std::uint64_t offset,
                                            Writer& writer)>;

  explicit ScriptedServer(Script script) : script_(std::move(script)) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    address_ = "127.0.0.1:" + std::to_string(port);
  }

  grpc::Status Fetch(grpc::ServerContext* context, const v1::FetchWeightsRequest* request,
                     Writer* writer) override {
    {
      MutexLock lock(mutex_);
      offsets_.push_back(request->offset());
    }
    return script_(*context, request->offset(), *writer);
  }

  const std::string& address() const { return address_; }

  // Returns when all calls have ended.
  void Stop() { server_->Shutdown(); }

  std::vector<std::uint64_t> offsets() {
    MutexLock lock(mutex_);
    return offsets_;
  }

 private:
  Script script_;
  Mutex mutex_;
  std::vector<std::uint64_t> offsets_ GUARDED_BY(mutex_);
  std::string address_;
  std::unique_ptr<grpc::Server> server_;
};

v1::WeightChunk Chunk(const std::string& file, std::uint64_t offset, std::size_t bytes) {
  v1::WeightChunk chunk;
  chunk.set_offset(offset);
  chunk.set_data(file.substr(offset, bytes));
  chunk.set_crc32(static_cast<std::uint32_t>(
      ::crc32_z(0, reinterpret_cast<const Bytef*>(chunk.data().data()), chunk.data().size())));
  return chunk;
}

class GrpcFetcherTest : public ::testing::Test {
 protected:
  GrpcFetcherTest() {
    publisher_ = *WeightPublisher::Create({.folder = published_.path()});
    manifest_ = PublishLarge(*publisher_, {1, 5, ""}, 3 << 20);
    file_ = *ReadFile(JoinPath(manifest_.folder, "model.safetensors"));
  }

  std::unique_ptr<WeightFetcher> Fetcher(std::int64_t patience_ms = kPatienceMs) {
    GrpcFetcherOptions options;
    options.patience_ms = patience_ms;
    options.on_transfer = [this](const WeightTransfer& transfer) {
      transfers_.push_back(transfer);
    };
    return MakeGrpcFetcher({.folder = fetched_.path(), .keep = 2}, std::move(options));
  }

  Result<WeightManifest> FetchFrom(std::vector<std::string> sources,
                                   std::int64_t patience_ms = kPatienceMs) {
    WeightManifest manifest = manifest_;
    manifest.sources = std::move(sources);
    manifest.folder = "/not/here";
    return Fetcher(patience_ms)->Fetch(manifest);
  }

  void ExpectHere(const Result<WeightManifest>& local) {
    ASSERT_TRUE(local.ok()) << local.status().ToString();
    EXPECT_EQ(local->folder, VersionFolder(fetched_.path(), manifest_.version));
    EXPECT_EQ(*ReadFile(JoinPath(local->folder, "model.safetensors")), file_);
    EXPECT_EQ(ListVersions(fetched_.path()).size(), 1U);
  }

  TempDir published_;
  TempDir fetched_;
  std::unique_ptr<WeightPublisher> publisher_;
  WeightManifest manifest_;
  std::string file_;
  std::vector<WeightTransfer> transfers_;
};

TEST_F(GrpcFetcherTest, AFetchedVersionIsServedToOtherWorkers) {
  const auto learner = *WeightServer::Start(published_.path(), "127.0.0.1:0");
  ExpectHere(FetchFrom({learner->address()}));

  // A worker that fetched the version serves it to another one.
  const auto relay = *WeightServer::Start(fetched_.path(), "127.0.0.1:0");
  TempDir second;
  WeightManifest manifest = manifest_;
  manifest.sources = {relay->address()};
  const auto local = MakeGrpcFetcher({.folder = second.path()}, {})->Fetch(manifest);
  ASSERT_TRUE(local.ok()) << local.status().ToString();
  EXPECT_EQ(*ReadFile(JoinPath(local->folder, "model.safetensors")), file_);
}

// 1,000 of 3 MiB have changed since the version that is here.
class ChangesTest : public GrpcFetcherTest {
 protected:
  ChangesTest() {
    ExpectHere(FetchFrom({learner_->address()}));
    base_ = JoinPath(VersionFolder(fetched_.path(), manifest_.version), "model.safetensors");
    manifest_ = PublishLarge(*publisher_, {1, 6, ""}, 3 << 20, 1000);
    file_ = *ReadFile(JoinPath(manifest_.folder, "model.safetensors"));
    transfers_.clear();
  }

  // Fetches the newer version, and returns the bytes that its file took.
  std::uint64_t Fetch() {
    const auto local = FetchFrom({learner_->address()});
    EXPECT_TRUE(local.ok()) << local.status().ToString();
    EXPECT_EQ(*ReadFile(JoinPath(local->folder, "model.safetensors")), file_);
    return transfers_.empty() ? 0 : transfers_.front().bytes;
  }

  std::unique_ptr<WeightServer> learner_ = *WeightServer::Start(published_.path(), "127.0.0.1:0");
  std::string base_;  // the file of the version that is here
};

TEST_F(ChangesTest, OnlyWhatChangedSinceTheNewestVersionIsSent) {
  const std::uint64_t bytes = Fetch();
  EXPECT_GE(bytes, 2000U);
  EXPECT_LE(bytes, 4000U);
}

TEST_F(ChangesTest, ADamagedBaseCostsTheWholeFile) {
  std::string damaged = *ReadFile(base_);
  damaged[damaged.size() / 2] ^= 1;
  ASSERT_TRUE(WriteFileAtomic(base_, damaged).ok());
  EXPECT_GT(Fetch(), file_.size() / 2);
}

TEST_F(ChangesTest, AShortBaseCostsTheWholeFile) {
  std::filesystem::resize_file(base_, 1000);
  EXPECT_EQ(Fetch(), file_.size());
}

TEST_F(ChangesTest, ASourceWithoutTheBaseSendsTheFile) {
  std::filesystem::remove_all(VersionFolder(published_.path(), {1, 5, ""}));
  EXPECT_EQ(Fetch(), file_.size());
}

TEST_F(GrpcFetcherTest, ChangesWithoutABaseAreRefused) {
  ScriptedServer liar([](grpc::ServerContext&, std::uint64_t, ScriptedServer::Writer& writer) {
    v1::WeightChunk chunk;
    chunk.set_changed_bytes(1000);
    writer.Write(chunk);
    return grpc::Status::OK;
  });
  EXPECT_EQ(FetchFrom({liar.address()}).status().code(), StatusCode::kDataLoss);
}

TEST_F(GrpcFetcherTest, VersionsOfAnotherRunDoNotTakeThePlaceOfThisOnes) {
  const auto old = *WeightPublisher::Create({.folder = fetched_.path(), .run_id = "old"});
  PublishSmall(*old, {1, 56, ""}, "aaaa");
  PublishSmall(*old, {1, 57, ""}, "bbbb");
  const auto learner = *WeightServer::Start(published_.path(), "127.0.0.1:0");
  ExpectHere(FetchFrom({learner->address()}));  // 1:5 stays, although the others seem newer
}

TEST_F(GrpcFetcherTest, AServerWithCredentialsRefusesClientsWithoutThem) {
  const MadeCertificates made;
  const auto learner =
      *WeightServer::Start(published_.path(), "127.0.0.1:0", made.Load(Program::kLearner));
  EXPECT_EQ(FetchFrom({learner->address()}).status().code(), StatusCode::kUnavailable);
  GrpcFetcherOptions options;
  options.credentials = made.Load(Program::kWorker);
  options.credentials.token = MadeCertificates().Load(Program::kWorker).token;
  WeightManifest manifest = manifest_;
  manifest.sources = {learner->address()};
  const WeightStoreOptions store{.folder = fetched_.path()};
  EXPECT_EQ(MakeGrpcFetcher(store, options)->Fetch(manifest).status().code(),
            StatusCode::kUnauthenticated);
  options.credentials = made.Load(Program::kLearner);
  EXPECT_EQ(MakeGrpcFetcher(store, options)->Fetch(manifest).status().code(),
            StatusCode::kUnauthenticated)
      << "a learner admits workers only, and does not know its own token";
  options.credentials = made.Load(Program::kWorker);
  ExpectHere(MakeGrpcFetcher(store, options)->Fetch(manifest));
}

TEST_F(GrpcFetcherTest, ABrokenTransferResumesWhereItEnded) {
  ScriptedServer server(
      [this](grpc::ServerContext&, std::uint64_t offset, ScriptedServer::Writer& writer) {
        writer.Write(Chunk(file_, offset, 1 << 20));
        return grpc::Status(grpc::StatusCode::UNAVAILABLE, "connection lost");
      });
  EXPECT_EQ(FetchFrom({server.address()}).status().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(ListVersions(fetched_.path()).empty());
  EXPECT_EQ(FetchFrom({server.address(), server.address()}).status().code(),
            StatusCode::kUnavailable);
  ExpectHere(FetchFrom({server.address()}));
  EXPECT_THAT(server.offsets(), ElementsAre(0, 1 << 20, 2 << 20, 3 << 20));
}

TEST_F(GrpcFetcherTest, ACorruptChunkIsRefusedAndTheNextSourceContinues) {
  ScriptedServer liar(
      [this](grpc::ServerContext&, std::uint64_t offset, ScriptedServer::Writer& writer) {
        writer.Write(Chunk(file_, offset, 1000));
        v1::WeightChunk chunk = Chunk(file_, offset + 1000, 1000);
        chunk.mutable_data()->front() ^= 1;
        writer.Write(chunk);
        return grpc::Status::OK;
      });
  const auto learner = *WeightServer::Start(published_.path(), "127.0.0.1:0");
  ExpectHere(FetchFrom({learner->address(), liar.address()}));
  ASSERT_EQ(transfers_.size(), 2U);
  EXPECT_FALSE(transfers_[0].from_publisher || transfers_[0].whole);
  EXPECT_EQ(transfers_[0].bytes, 1000U);
  EXPECT_TRUE(transfers_[1].from_publisher && transfers_[1].whole);
  EXPECT_EQ(transfers_[1].bytes, file_.size() - 1000);
}

TEST_F(GrpcFetcherTest, AWorkerThatHasTheVersionIsAskedBeforeTheLearner) {
  ScriptedServer learner([](grpc::ServerContext&, std::uint64_t, ScriptedServer::Writer&) {
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "must not be asked");
  });
  const auto relay = *WeightServer::Start(published_.path(), "127.0.0.1:0");
  ExpectHere(FetchFrom({learner.address(), relay->address()}));
  EXPECT_TRUE(learner.offsets().empty());
  ASSERT_EQ(transfers_.size(), 1U);
  EXPECT_FALSE(transfers_[0].from_publisher);
}

TEST_F(GrpcFetcherTest, AnUnreachableWorkerCostsOneAttemptAndIsAskedLastAfterwards) {
  const auto learner = *WeightServer::Start(published_.path(), "127.0.0.1:0");
  const auto fetcher = Fetcher();
  for (std::uint64_t step = 6; step < 8; ++step) {
    WeightManifest manifest = PublishLarge(*publisher_, {1, step, ""}, 1000);
    manifest.sources = {learner->address(), "127.0.0.1:1"};
    ASSERT_TRUE(fetcher->Fetch(manifest).ok());
  }
  ASSERT_EQ(transfers_.size(), 3U);
  EXPECT_FALSE(transfers_[0].from_publisher || transfers_[0].whole);
  EXPECT_TRUE(transfers_[1].from_publisher && transfers_[2].from_publisher);
}

TEST_F(GrpcFetcherTest, BytesWithAWrongDigestAreDiscarded) {
  ScriptedServer forger(
      [this](grpc::ServerContext&, std::uint64_t offset, ScriptedServer::Writer& writer) {
        std::string forged = file_;
        forged.back() = static_cast<char>(forged.back() ^ 1);
        for (; offset < forged.size(); offset += 1 << 20)
          writer.Write(Chunk(forged, offset, 1 << 20));
        return grpc::Status::OK;
      });
  const auto refused = FetchFrom({forger.address()});
  EXPECT_EQ(refused.status().code(), StatusCode::kDataLoss);
  EXPECT_THAT(refused.status().message(), HasSubstr("SHA-256"));
  EXPECT_TRUE(ListVersions(fetched_.path()).empty());
  // The next attempt starts from nothing.
  const auto learner = *WeightServer::Start(published_.path(), "127.0.0.1:0");
  ExpectHere(FetchFrom({learner->address(), forger.address()}));
}

TEST_F(GrpcFetcherTest, ChunksAtAWrongOffsetOrBeyondTheFileAreRefused) {
  ScriptedServer elsewhere(
      [this](grpc::ServerContext&, std::uint64_t offset, ScriptedServer::Writer& writer) {
        writer.Write(Chunk(file_, offset + 1, 10));
        return grpc::Status::OK;
      });
  EXPECT_EQ(FetchFrom({elsewhere.address()}).status().code(), StatusCode::kDataLoss);
  ScriptedServer endless(
      [this](grpc::ServerContext&, std::uint64_t offset, ScriptedServer::Writer& writer) {
        const std::string longer = file_ + std::string(1 << 20, 'x');
        for (; offset < longer.size(); offset += 1 << 20)
          writer.Write(Chunk(longer, offset, 1 << 20));
        return grpc::Status::OK;
      });
  EXPECT_EQ(FetchFrom({endless.address()}).status().code(), StatusCode::kDataLoss);
}

// A relay that sends what `next` makes, again and again, until the fetch has ended.
class SourceTest : public GrpcFetcherTest {
 protected:
  using Next = std::function<v1::WeightChunk(std::uint64_t offset)>;

  // Expects that the version comes from the publisher although the relay is there.
  void ExpectLeft(const Next& next) {
    std::atomic<bool> ended_by_itself = false;
    StopSignal fetched;
    ScriptedServer relay(
        [&](grpc::ServerContext& context, std::uint64_t offset, ScriptedServer::Writer& writer) {
          const std::int64_t deadline_ms = RealClock().MonotonicMs() + kPatienceMs;
          while (!context.IsCancelled() && RealClock().MonotonicMs() < deadline_ms) {
            const v1::WeightChunk chunk = next(offset);
            offset += chunk.data().size();
            writer.Write(chunk);
            fetched.WaitFor(std::chrono::milliseconds(5));
          }
          if (!context.IsCancelled()) ended_by_itself = true;
          return grpc::Status::OK;
        });
    const auto learner = *WeightServer::Start(published_.path(), "127.0.0.1:0");
    const auto fetcher = Fetcher(/*patience_ms=*/300);
    WeightManifest manifest = manifest_;
    manifest.sources = {learner->address(), relay.address()};
    auto local = fetcher->Fetch(manifest);
    // On a busy machine the learner may be too slow as well; the next fetch resumes its transfer.
    const std::int64_t deadline_ms = RealClock().MonotonicMs() + kPatienceMs;
    while (!local.ok() && RealClock().MonotonicMs() < deadline_ms) local = fetcher->Fetch(manifest);
    fetched.Stop();
    relay.Stop();
    ExpectHere(local);
    EXPECT_FALSE(ended_by_itself) << "the fetcher waited for the end of the relay";
    EXPECT_FALSE(transfers_.front().from_publisher);
    EXPECT_TRUE(transfers_.back().from_publisher);
  }
};

TEST_F(SourceTest, ARelayThatSendsChunksWithoutBytesIsLeftForThePublisher) {
  ExpectLeft([this](std::uint64_t offset) { return Chunk(file_, offset, 0); });
}

// 20 kB/s, where 1 MiB/s is the least.
TEST_F(SourceTest, ARelayThatIsTooSlowIsLeftForThePublisher) {
  ExpectLeft([this](std::uint64_t offset) { return Chunk(file_, offset, 100); });
}

TEST_F(SourceTest, ATransferThatIsNoLongerWantedEnds) {
  ScriptedServer still([](grpc::ServerContext& context, std::uint64_t, ScriptedServer::Writer&) {
    while (!context.IsCancelled()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return grpc::Status::OK;
  });
  WeightManifest manifest = manifest_;
  manifest.sources = {still.address()};
  const auto cancelled = Fetcher()->Fetch(manifest, [&] { return !still.offsets().empty(); });
  EXPECT_EQ(cancelled.status().code(), StatusCode::kCancelled);
}

TEST_F(GrpcFetcherTest, ThePublisherIsAskedAfterTwoOthersAtMost) {
  const auto learner = *WeightServer::Start(published_.path(), "127.0.0.1:0");
  ExpectHere(FetchFrom({learner->address(), "127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"}));
  ASSERT_EQ(transfers_.size(), 3U);
  EXPECT_TRUE(transfers_.back().from_publisher);
}

TEST_F(GrpcFetcherTest, AnUnreachableSourceIsUnavailable) {
  EXPECT_EQ(FetchFrom({"127.0.0.1:1"}).status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(FetchFrom({}).status().code(), StatusCode::kFailedPrecondition);
}

TEST_F(GrpcFetcherTest, ACompleteVersionIsNotFetchedAgainUnlessItsBytesAreWrong) {
  const auto learner = *WeightServer::Start(published_.path(), "127.0.0.1:0");
  ExpectHere(FetchFrom({learner->address()}));
  ExpectHere(FetchFrom({"127.0.0.1:1"}));
  std::filesystem::resize_file(
      JoinPath(VersionFolder(fetched_.path(), manifest_.version), "model.safetensors"), 10);
  EXPECT_EQ(FetchFrom({"127.0.0.1:1"}).status().code(), StatusCode::kUnavailable);
  ExpectHere(FetchFrom({learner->address()}));
}

// Sends a request to the server and returns its status.
grpc::Status Ask(const WeightServer& server, const PolicyVersion& version, const std::string& file,
                 std::uint64_t offset) {
  const auto stub = v1::Weights::NewStub(MakeChannel(server.address()));
  grpc::ClientContext context;
  v1::FetchWeightsRequest request;
  *request.mutable_version() = ToProto(version);
  request.set_file(file);
  request.set_offset(offset);
  const auto reader = stub->Fetch(&context, request);
  v1::WeightChunk chunk;
  while (reader->Read(&chunk)) {
  }
  return reader->Finish();
}

TEST_F(GrpcFetcherTest, TheServerServesOnlyFilesThatAManifestNames) {
  const auto server = *WeightServer::Start(published_.path(), "127.0.0.1:0");
  const PolicyVersion version = manifest_.version;
  EXPECT_TRUE(Ask(*server, version, "model.safetensors", file_.size()).ok());
  EXPECT_EQ(Ask(*server, version, "manifest.json", 0).error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(Ask(*server, version, "../v1-5/model.safetensors", 0).error_code(),
            grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(Ask(*server, version, "/etc/passwd", 0).error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(Ask(*server, version, "", 0).error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(Ask(*server, {1, 6, ""}, "model.safetensors", 0).error_code(),
            grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(Ask(*server, {1, 5, std::string(32, 'x')}, "model.safetensors", 0).error_code(),
            grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(Ask(*server, version, "model.safetensors", file_.size() + 1).error_code(),
            grpc::StatusCode::OUT_OF_RANGE);
}

}  // namespace
}  // namespace buttress
