#include "lib/weights/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "lib/base/os/file.h"
#include "lib/base/text/digest.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string FloatBytes(const std::vector<float>& values) {
  std::string bytes(values.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// The bytes of a file with this header and these data.
std::string FileBytes(const std::string& header, const std::string& data) {
  std::string bytes;
  for (std::size_t i = 0; i < 8; ++i) bytes += static_cast<char>((header.size() >> (8 * i)) & 0xff);
  return bytes + header + data;
}

class SafetensorsTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& bytes) {
    const std::string path = JoinPath(dir_.path(), name);
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
    return path;
  }

  TempDir dir_;
};

TEST_F(SafetensorsTest, WrittenTensorsAreReadBackAndTheDigestIsThatOfTheFile) {
  const std::string path = JoinPath(dir_.path(), "model.safetensors");
  const std::vector<SafetensorsWriter::Declared> table = {
      {"b", "F32", {2, 2}}, {"a", "U8", {3}}, {"empty", "F32", {0, 4}}};
  auto writer = SafetensorsWriter::Create(path, table, {{"format", "pt"}});
  ASSERT_TRUE(writer.ok()) << writer.status().ToString();
  ASSERT_TRUE((*writer)->Append(FloatBytes({1, 2, 3, 4})).ok());
  ASSERT_TRUE((*writer)->Append("xyz").ok());
  ASSERT_TRUE((*writer)->Append("").ok());
  EXPECT_FALSE(std::filesystem::exists(path));  // Finish renames the file
  auto digest = (*writer)->Finish();
  ASSERT_TRUE(digest.ok()) << digest.status().ToString();
  EXPECT_EQ(*digest, Sha256Of(*ReadFile(path)));
  EXPECT_EQ((*writer)->data_begin() % 8, 0U);

  auto file = SafetensorsFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  ASSERT_EQ((*file)->tensors().size(), 3U);
  EXPECT_EQ((*file)->Find("b")->data, FloatBytes({1, 2, 3, 4}));
  EXPECT_THAT((*file)->Find("b")->shape, ElementsAre(2, 2));
  EXPECT_EQ((*file)->Find("a")->data, "xyz");
  EXPECT_EQ((*file)->Find("c"), nullptr);
}

TEST_F(SafetensorsTest, ForgottenPagesLeaveTheMemoryAndAreReadAgain) {
  const std::string path = JoinPath(dir_.path(), "model.safetensors");
  const std::int64_t count = 1 << 20;
  auto writer = SafetensorsWriter::Create(path, {{"a", "U8", {count}}}, {});
  ASSERT_TRUE(writer.ok());
  const std::string bytes(static_cast<std::size_t>(count), 'x');
  ASSERT_TRUE((*writer)->Append(bytes).ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  auto file = SafetensorsFile::Open(path);
  ASSERT_TRUE(file.ok());
  const std::string_view data = (*file)->Find("a")->data;
  const auto resident = [] {  // kB of mapped files
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;)
      if (std::int64_t kb = 0; word == "RssFile:" && status >> kb) return kb;
    return std::int64_t{0};
  };
  ASSERT_EQ(data, bytes);
  const std::int64_t before = resident();
  ForgetPages(data);
  EXPECT_LT(resident(), before - 900);
  EXPECT_EQ(data, bytes);
}

TEST_F(SafetensorsTest, AnOpenFileIsReadAsItWasOrRefused) {
  const std::string whole =
      FileBytes(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", FloatBytes({1, 2}));
  const std::string path = Write("model.safetensors", whole);
  const auto file = SafetensorsFile::Open(path);
  ASSERT_TRUE(file.ok());
  const TensorView& view = *(*file)->Find("a");
  EXPECT_EQ(view.file, file->get());
  std::vector<float> values(2);
  ASSERT_TRUE((*file)->Read(view, values.data()).ok());
  EXPECT_THAT(values, ElementsAre(1, 2));
  const std::string other = Write("other", whole);
  const auto changed = SafetensorsFile::Open(other);
  ASSERT_TRUE(changed.ok());
  std::filesystem::remove(path);
  EXPECT_TRUE((*file)->Read(view, values.data()).ok());
  std::filesystem::resize_file(other, whole.size() - 4);
  EXPECT_THAT((*changed)->Read(*(*changed)->Find("a"), values.data()).ToString(),
              HasSubstr(other + " was changed while it is in use; restore the file"));
  // The size of before, but another time.
  std::filesystem::resize_file(other, whole.size());
  std::filesystem::last_write_time(
      other, std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  EXPECT_EQ((*changed)->Read(*(*changed)->Find("a"), values.data()).code(), StatusCode::kDataLoss);
}

TEST_F(SafetensorsTest, AFileCutAtAnyByteIsRefused) {
  const std::string whole =
      FileBytes(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", FloatBytes({1, 2}));
  ASSERT_TRUE(SafetensorsFile::Open(Write("whole", whole)).ok());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    auto file = SafetensorsFile::Open(Write("cut", whole.substr(0, size)));
    ASSERT_FALSE(file.ok()) << "cut at " << size;
    EXPECT_EQ(file.status().code(), StatusCode::kDataLoss) << size;
  }
  EXPECT_FALSE(SafetensorsFile::Open(Write("long", whole + "x")).ok());
}

struct BadHeader {
  const char* header;
  const char* says;
};

TEST_F(SafetensorsTest, MalformedHeadersAreRefusedWithTheReason) {
  // Each header is followed by 8 bytes of data.
  const BadHeader cases[] = {
      {"[1]", "not a JSON object"},
      {"{", "not a JSON object"},
      {R"({"a":1})", "expected an object"},
      {R"({"a":{"dtype":"F32","shape":[2]}})", "data_offsets"},
      {R"({"a":{"dtype":"Q4","shape":[2],"data_offsets":[0,8]}})", "Q4"},
      {R"({"a":{"dtype":7,"shape":[2],"data_offsets":[0,8]}})", "dtype"},
      {R"({"a":{"dtype":"F32","shape":2,"data_offsets":[0,8]}})", "not a list"},
      {R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", "-2"},
      {R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,8]}})", "1.5"},
      {R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", "12"},
      {R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,8]}})",
       "overflows"},
      {R"({"a":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,8]}})",
       "non-negative integers"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", "outside"},
      {R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})", "outside"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0]}})", "not a pair"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "cover 4 of 8"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", "overlap or hole"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
       R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
       "overlap or hole"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
       R"("a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
       "in the header twice"},
      {"{}", "cover 0 of 8"},
      {R"({"a":{"dtype":"F32","shape":[[2]],"data_offsets":[0,8]}})", "nested deeper than 3"},
  };
  for (const BadHeader& bad : cases) {
    auto file = SafetensorsFile::Open(Write("bad", FileBytes(bad.header, "12345678")));
    ASSERT_FALSE(file.ok()) << bad.header;
    EXPECT_EQ(file.status().code(), StatusCode::kDataLoss) << bad.header;
    EXPECT_THAT(file.status().message(), HasSubstr(bad.says)) << bad.header;
  }
}

// The number of bytes that this process has ever held at once.
std::int64_t PeakKilobytes() {
  rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

TEST_F(SafetensorsTest, AHeaderThatIsNoTableOfTensorsCostsNoMoreThanItsText) {
  const std::string deep(1000000, '[');
  std::string wide;
  for (int i = 0; i < 10000000; ++i) wide += "1,";
  std::string notes;
  for (int i = 0; i < 1000000; ++i) notes += "\"" + std::to_string(i) + "\":\"x\",";
  const std::string headers[] = {
      R"({"a":{"dtype":"F32","shape":)" + deep + R"(,"data_offsets":[0,8]}})",
      R"({"a":{"dtype":"F32","shape":[)" + wide + R"(1],"data_offsets":[0,8]}})",
      R"({"__metadata__":{)" + notes + R"("y":"z"}})"};
  std::vector<std::string> paths;
  for (const std::string& header : headers)
    paths.push_back(Write("h" + std::to_string(paths.size()), FileBytes(header, "12345678")));
  const std::int64_t before = PeakKilobytes();
  for (const std::string& path : paths) {
    const auto file = SafetensorsFile::Open(path);
    ASSERT_FALSE(file.ok());
    EXPECT_EQ(file.status().code(), StatusCode::kDataLoss);
  }
  EXPECT_LT(PeakKilobytes(), before + (100 << 10));
}

TEST_F(SafetensorsTest, AFifoIsRefusedAtOnce) {
  const std::string path = JoinPath(dir_.path(), "model.safetensors");
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(SafetensorsFile::Open(path).status().code(), StatusCode::kDataLoss);
}

TEST_F(SafetensorsTest, AHeaderLengthBeyondTheFileIsRefused) {
  EXPECT_FALSE(SafetensorsFile::Open(
                   Write("huge", std::string("\xff\xff\xff\xff\xff\xff\xff\xff", 8) + "{}"))
                   .ok());
  EXPECT_FALSE(
      SafetensorsFile::Open(Write("more", std::string("\x03\0\0\0\0\0\0\0", 8) + "{}")).ok());
}

TEST_F(SafetensorsTest, TheWriterRefusesInvalidTablesAndBytesOfAWrongSize) {
  const std::string path = JoinPath(dir_.path(), "m");
  EXPECT_FALSE(SafetensorsWriter::Create(path, {{"a", "F32", {1}}, {"a", "F32", {1}}}, {}).ok());
  EXPECT_FALSE(SafetensorsWriter::Create(path, {{"a", "F31", {1}}}, {}).ok());
  EXPECT_FALSE(SafetensorsWriter::Create(path, {{"a", "F32", {-1}}}, {}).ok());
  EXPECT_FALSE(SafetensorsWriter::Create(path, {{"__metadata__", "F32", {1}}}, {}).ok());
  auto writer = SafetensorsWriter::Create(path, {{"a", "F32", {1}}, {"b", "F32", {1}}}, {});
  ASSERT_TRUE(writer.ok());
  EXPECT_EQ((*writer)->Append("123").code(), StatusCode::kInvalidArgument);
  ASSERT_TRUE((*writer)->Append("1234").ok());
  EXPECT_FALSE((*writer)->Finish().ok());
  EXPECT_FALSE(std::filesystem::exists(path));
}

class SafetensorsFolderTest : public SafetensorsTest {
 protected:
  void WriteTensor(const std::string& file, const std::string& name) {
    Write(file,
          FileBytes(R"({")" + name + R"(":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "x"));
  }
};

TEST_F(SafetensorsFolderTest, ShardsAreFoundThroughTheIndex) {
  WriteTensor("one.safetensors", "a");
  WriteTensor("two.safetensors", "b");
  Write("model.safetensors.index.json",
        R"({"weight_map":{"a":"one.safetensors","b":"two.safetensors"}})");
  auto folder = SafetensorsFolder::Open(dir_.path());
  ASSERT_TRUE(folder.ok()) << folder.status().ToString();
  EXPECT_THAT((*folder)->names(), ElementsAre("a", "b"));
  EXPECT_EQ((*folder)->Find("b")->data, "x");
  EXPECT_EQ((*folder)->Find("c"), nullptr);
}

TEST_F(SafetensorsFolderTest, AnIndexThatIsWrongOrLeavesTheFolderIsRefused) {
  WriteTensor("one.safetensors", "a");
  Write("model.safetensors.index.json", R"({"weight_map":{"b":"one.safetensors"}})");
  EXPECT_THAT(SafetensorsFolder::Open(dir_.path()).status().message(),
              HasSubstr("lacks tensor 'b'"));
  Write("model.safetensors.index.json", R"({"weight_map":{"a":"../one.safetensors"}})");
  EXPECT_EQ(SafetensorsFolder::Open(dir_.path()).status().code(), StatusCode::kDataLoss);
  Write("model.safetensors.index.json",
        "{\"weight_map\":{\"a\":" + std::string(1000000, '[') + std::string(1000000, ']') + "}}");
  EXPECT_EQ(SafetensorsFolder::Open(dir_.path()).status().code(), StatusCode::kDataLoss);
  Write("model.safetensors.index.json", R"({"weight_map":[]})");
  EXPECT_EQ(SafetensorsFolder::Open(dir_.path()).status().code(), StatusCode::kDataLoss);
}

TEST_F(SafetensorsFolderTest, AnEmptyFolderIsNotFound) {
  EXPECT_EQ(SafetensorsFolder::Open(dir_.path()).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace buttress
