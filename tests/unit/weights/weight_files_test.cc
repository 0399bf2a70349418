#include "lib/weights/weight_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "lib/base/os/file.h"
#include "lib/base/text/digest.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::chrono::milliseconds kPatience{20000};

const std::vector<SafetensorsWriter::Declared> kTable = {
    {"a", "F32", {2, 2}}, {"b", "U8", {3}}, {"c", "U8", {40}}, {"d", "BF16", {1}}};

// The names of the tensors of each file.
std::vector<std::string> Divided(std::uint64_t limit) {
  std::vector<std::string> files;
  for (const PlannedFile& file : DivideWeights(kTable, limit)) {
    files.push_back(file.name + ":");
    for (const auto& tensor : file.tensors) files.back() += tensor.name;
  }
  return files;
}

TEST(WeightFilesTest, AFileEndsWhereTheNextTensorWouldExceedTheLimit) {
  EXPECT_THAT(Divided(61), ElementsAre("model.safetensors:abcd"));
  EXPECT_THAT(Divided(60), ElementsAre("model-00001-of-00002.safetensors:abc",
                                       "model-00002-of-00002.safetensors:d"));
  // A tensor that is larger than the limit has a file of its own.
  EXPECT_THAT(Divided(19), ElementsAre("model-00001-of-00003.safetensors:ab",
                                       "model-00002-of-00003.safetensors:c",
                                       "model-00003-of-00003.safetensors:d"));
  EXPECT_EQ(DivideWeights(kTable, 19)[0].data_bytes(), 19u);
}

TEST(WeightFilesTest, TheIndexIsThatOfTransformers) {
  EXPECT_EQ(WeightsIndexText(DivideWeights(kTable, 61)), "");
  const auto index = nlohmann::json::parse(WeightsIndexText(DivideWeights(kTable, 60)));
  EXPECT_EQ(index["metadata"]["total_size"], 61);
  EXPECT_EQ(index["weight_map"].size(), 4u);
  EXPECT_EQ(index["weight_map"]["c"], "model-00001-of-00002.safetensors");
  EXPECT_EQ(index["weight_map"]["d"], "model-00002-of-00002.safetensors");
}

class WrittenFilesTest : public ::testing::Test {
 protected:
  const std::string& folder() const { return dir_.path(); }

  TempDir dir_;
  const std::function<bool()> never_ = [] { return false; };
};

TEST_F(WrittenFilesTest, SizesAndDigestsAreThoseOfTheFiles) {
  const std::string bytes(40, 'x');
  const auto bytes_of = [&](const std::string& name) {
    return std::string_view(bytes).substr(0, name == "a"   ? 16
                                             : name == "b" ? 3
                                             : name == "c" ? 40
                                                           : 2);
  };
  const auto written = WriteWeightFiles(folder(), DivideWeights(kTable, 1), bytes_of);
  ASSERT_TRUE(written.ok()) << written.status().ToString();
  ASSERT_EQ(written->size(), 4u);
  for (const WeightFile& file : *written) {
    const std::string content = *ReadFile(JoinPath(folder(), file.name));
    EXPECT_EQ(file.bytes, content.size());
    EXPECT_EQ(file.sha256, Sha256Of(content));
  }
}

TEST_F(WrittenFilesTest, WhatAnotherProcessWritesArrivesThroughTheFolder) {
  // The digest has an end of line, which does not end the note.
  const WeightFile file = {"f", 123456789012, std::string(16, '\n') + std::string(16, '7')};
  ASSERT_TRUE(ExpectWritten(folder(), "f").ok());
  std::thread writer([&] { EXPECT_TRUE(GiveWritten(folder(), file).ok()); });
  const auto given = AwaitWritten(folder(), "f", kPatience, never_);
  writer.join();
  ASSERT_TRUE(given.ok()) << given.status().ToString();
  EXPECT_EQ(*given, file);
  EXPECT_TRUE(std::filesystem::is_empty(folder()));
}

TEST_F(WrittenFilesTest, AFileThatDoesNotComeIsNamed) {
  ASSERT_TRUE(ExpectWritten(folder(), "f").ok());
  const Status late = AwaitWritten(folder(), "f", std::chrono::milliseconds(1), never_).status();
  EXPECT_EQ(late.code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(late.message(), HasSubstr(folder() + "/f was not complete"));
  const Status left = AwaitWritten(folder(), "f", kPatience, [] { return true; }).status();
  EXPECT_EQ(left.code(), StatusCode::kCancelled);
}

}  // namespace
}  // namespace buttress
