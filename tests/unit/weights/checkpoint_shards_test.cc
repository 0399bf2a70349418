// The values of a checkpoint written by one number of ranks and read by another.
#include "lib/weights/checkpoint_shards.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lib/base/os/file.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

using testing::HasSubstr;

// A model of two units, [2, 3] | [5] and [7], padded to a multiple of `padding`.
StoredLayout LayoutFor(std::int64_t padding) {
  const auto padded = [padding](std::int64_t size) {
    return (size + padding - 1) / padding * padding;
  };
  const std::int64_t matrix = padded(6);
  return {{"block 0", padded(matrix + 5), {{"a.weight", {2, 3}, 0}, {"a.bias", {5}, matrix}}},
          {"head", padded(7), {{"norm", {7}, 0}}}};
}

// The buffer of a unit: the values of a parameter count up from a number of its own.
std::vector<float> BufferOf(const StoredUnit& unit) {
  std::vector<float> values(static_cast<std::size_t>(unit.size), 0);
  for (const StoredParameter& parameter : unit.parameters) {
    for (std::int64_t i = 0; i < parameter.size(); ++i)
      values[static_cast<std::size_t>(parameter.offset + i)] =
          static_cast<float>(100 * parameter.name.size() + static_cast<std::size_t>(i));
  }
  return values;
}

std::string_view BytesOf(std::span<const float> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

class CheckpointShardsTest : public testing::Test {
 protected:
  // Writes the values of `ranks` ranks, a file each.
  void Write(std::int64_t ranks, const std::string& kind = "first") {
    layout = LayoutFor(2 * ranks);
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      std::vector<SafetensorsWriter::Declared> table;
      for (const StoredUnit& unit : layout) {
        const std::int64_t part = unit.size / ranks;
        table.push_back({StoredName(kind, unit.name, rank * part), "F32", {part}});
      }
      const std::string name = "rank-" + std::to_string(rank) + ".safetensors";
      auto writer = SafetensorsWriter::Create(JoinPath(folder.path(), name), table, {});
      ASSERT_TRUE(writer.ok());
      for (const StoredUnit& unit : layout) {
        const auto part = static_cast<std::size_t>(unit.size / ranks);
        const std::vector<float> values = BufferOf(unit);
        ASSERT_TRUE((*writer)
                        ->Append(BytesOf(
                            std::span(values).subspan(static_cast<std::size_t>(rank) * part, part)))
                        .ok());
      }
      ASSERT_TRUE((*writer)->Finish().ok());
      files.push_back({name, 0, ""});
    }
  }

  TempDir folder;
  StoredLayout layout;
  std::vector<WeightFile> files;
};

TEST_F(CheckpointShardsTest, AnyNumberOfRanksReadsWhatAnotherWrote) {
  Write(4);
  const auto shards = StoredShards::Open(folder.path(), files, layout);
  ASSERT_TRUE(shards.ok()) << shards.status().ToString();
  for (const std::int64_t ranks : {1, 2, 3, 4, 5}) {
    const StoredLayout own = LayoutFor(2 * ranks);
    ASSERT_TRUE(CompareLayouts(layout, own).ok());
    for (const StoredUnit& unit : own) {
      std::vector<float> read;
      for (std::int64_t rank = 0; rank < ranks; ++rank) {
        std::vector<float> part(static_cast<std::size_t>(unit.size / ranks), 0);
        const std::span<char> bytes(reinterpret_cast<char*>(part.data()),
                                    part.size() * sizeof(float));
        const Status status = shards->Read("first", unit, rank * unit.size / ranks, "F32", bytes);
        ASSERT_TRUE(status.ok()) << status.ToString();
        read.insert(read.end(), part.begin(), part.end());
      }
      EXPECT_EQ(read, BufferOf(unit)) << ranks << " ranks, " << unit.name;
    }
  }
}

TEST_F(CheckpointShardsTest, WhatNoFileHasIsNamed) {
  Write(2);
  std::vector<float> values(static_cast<std::size_t>(layout[0].size));
  const std::span<char> out(reinterpret_cast<char*>(values.data()), values.size() * sizeof(float));
  const auto all = StoredShards::Open(folder.path(), files, layout);
  EXPECT_THAT(all->Read("second", layout[0], 0, "F32", out).message(),
              HasSubstr("no file has value 0 of 'second' of unit 'block 0'"));
  EXPECT_EQ(all->Read("first", layout[0], 0, "BF16", out.first(8)).code(),
            StatusCode::kInvalidArgument);
  files.pop_back();
  const auto half = StoredShards::Open(folder.path(), files, layout);
  const Status status = half->Read("first", layout[0], 0, "F32", out);
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("a.bias: no file has value"));
}

TEST_F(CheckpointShardsTest, TheFirstTensorOfAnotherModelIsNamed) {
  const StoredLayout stored = LayoutFor(2);
  StoredLayout model = stored;
  model[0].parameters[1].shape = {4};
  EXPECT_THAT(CompareLayouts(stored, model).message(),
              HasSubstr("its tensor 'a.bias' has the shape [5], that of the model [4]"));
  model = stored;
  model[1].parameters[0].name = "norm.weight";
  EXPECT_THAT(CompareLayouts(stored, model).message(), HasSubstr("no tensor 'norm.weight'"));
  model = stored;
  model.pop_back();
  EXPECT_THAT(CompareLayouts(stored, model).message(), HasSubstr("the model has no tensor 'norm'"));
}

TEST_F(CheckpointShardsTest, LayoutsAreReadAsTheyWereWritten) {
  layout = LayoutFor(6);
  nlohmann::json state;
  state["layout"] = nlohmann::json::parse(LayoutToJson(layout).dump());
  const auto read = ParseLayout(state);
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(*read, layout);
  state["layout"][0]["parameters"][1]["offset"] = 14u;
  EXPECT_THAT(ParseLayout(state).status().message(),
              HasSubstr("'a.bias' lies outside of unit 'block 0'"));
  state["layout"][0].erase("size");
  EXPECT_EQ(ParseLayout(state).status().code(), StatusCode::kDataLoss);
}

}  // namespace
}  // namespace buttress
