#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <xxhash.h>

#include <fstream>
#include <iterator>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "tests/support/record_maker.h"
#include "userspace/base/exit_status.h"
#include "userspace/wire/capture_reader.h"
#include "userspace/wire/capture_writer.h"

namespace proftrace {
namespace {

using ::testing::HasSubstr;

constexpr int kBlocks = 6;

class CaptureFileTest : public ::testing::Test {
 protected:
  // Six blocks of records, metadata before the first and the last, and a proper end.
  void SetUp() override {
    char path[] = "/tmp/proftrace-capture-XXXXXX";
    const int fd = mkstemp(path);
    ASSERT_GE(fd, 0);
    path_ = path;
    Write(fd, 0);
  }
  // Writes such a file again, with other times.
  void WriteFile(int first_ns) {
    times_.clear();
    Write(open(path_.c_str(), O_RDWR | O_TRUNC), first_ns);
  }
  void Write(int fd, int first_ns) {
    absl::StatusOr<std::unique_ptr<CaptureWriter>> writer = CaptureWriter::Create(fd, path_);
    ASSERT_TRUE(writer.ok());
    MetadataWriter metadata;
    metadata.AddPlan(1, {Label{}, Label{"aten::a", "over\xff", Category::kCpuOp}});
    ASSERT_TRUE((*writer)->AppendMetadata(metadata.TakeJson()).ok());
    for (int i = 0; i < kBlocks; ++i) {
      RecordMaker maker;
      for (int j = 0; j < 10; ++j) {
        times_.push_back(static_cast<uint64_t>(first_ns + i * 100 + j));
        maker.Begin(1, first_ns + i * 100 + j, 1, static_cast<uint32_t>(j));
      }
      ASSERT_TRUE((*writer)->AppendRecords(maker.bytes()).ok());
    }
    metadata.AddEnd(Window{}, Cost{}, Ledger{.ring_lost = 5});
    ASSERT_TRUE((*writer)->AppendMetadata(metadata.TakeJson()).ok());
    ASSERT_TRUE((*writer)->Finish().ok());
    writer->reset();
    bytes_ = FileBytes();
  }
  void TearDown() override { unlink(path_.c_str()); }

  std::vector<std::byte> FileBytes() const {
    std::ifstream file(path_, std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
  }
  struct Contents {
    size_t records = 0;
    int gaps = 0;
    std::vector<uint64_t> times;  // of the records
  };
  static Contents ReadAll(CaptureReader& reader) {
    Contents contents;
    while (true) {
      absl::StatusOr<RecordBatch> batch = reader.Next();
      EXPECT_TRUE(batch.ok()) << batch.status();
      contents.gaps += batch->gap_before ? 1 : 0;
      contents.records += batch->records.size() / sizeof(abi::pt_record);
      for (size_t at = 0; at < batch->records.size(); at += sizeof(abi::pt_record)) {
        abi::pt_record record;
        std::memcpy(&record, batch->records.data() + at, sizeof(record));
        contents.times.push_back(record.time_ns);
      }
      if (batch->end) return contents;
    }
  }

  // Where each block of the file ends: metadata, six of records, metadata, the end.
  std::vector<size_t> BlockEnds() const {
    std::vector<size_t> ends;
    for (size_t at = sizeof(CaptureFileHeader); at < bytes_.size(); ends.push_back(at)) {
      BlockHeader header;
      std::memcpy(&header, &bytes_[at], sizeof(header));
      at += sizeof(header) + header.stored_bytes;
    }
    return ends;
  }

  std::string path_;
  std::vector<std::byte> bytes_;
  std::vector<uint64_t> times_;  // of all records
};

TEST_F(CaptureFileTest, GivesBackWhatWasWritten) {
  absl::StatusOr<std::unique_ptr<CaptureReader>> reader = CaptureReader::Open(path_, {});
  ASSERT_TRUE(reader.ok()) << reader.status();
  const CaptureMetadata& metadata = (*reader)->metadata();
  EXPECT_EQ(metadata.plans.at(1).sites.at(1).name, "aten::a");
  EXPECT_EQ(metadata.plans.at(1).sites.at(1).overload_name, "over\xff") << "names are bytes";
  EXPECT_EQ(metadata.kernel_ledger.ring_lost, 5u);
  const Contents contents = ReadAll(**reader);
  EXPECT_EQ(contents.records, kBlocks * 10u);
  EXPECT_EQ(contents.gaps, 0);
}

TEST_F(CaptureFileTest, EveryTruncationIsNoticedAndSalvaged) {
  size_t last_records = 0;
  for (size_t size = 0; size < bytes_.size(); ++size) {
    const std::span<const std::byte> cut = std::span(bytes_).first(size);
    const auto strict = CaptureReader::FromBytes(cut, {});
    ASSERT_FALSE(strict.ok()) << size;
    ASSERT_EQ(ExitCodeOf(strict.status()), ExitCode::kInputDamaged);
    auto salvaged = CaptureReader::FromBytes(cut, {.salvage = true});
    if (!salvaged.ok()) {
      ASSERT_LT(size, sizeof(CaptureFileHeader)) << "whole blocks must be readable";
      continue;
    }
    ASSERT_FALSE((*salvaged)->damage().empty());
    const size_t records = ReadAll(**salvaged).records;
    ASSERT_GE(records, last_records) << size;
    ASSERT_EQ(records % 10, 0u);
    last_records = records;
  }
  EXPECT_EQ(last_records, kBlocks * 10u);
}

TEST_F(CaptureFileTest, EveryFlippedByteIsNoticed) {
  for (size_t i = 0; i < bytes_.size(); ++i) {
    std::vector<std::byte> broken = bytes_;
    broken[i] ^= std::byte{0x40};
    const auto strict = CaptureReader::FromBytes(broken, {});
    ASSERT_FALSE(strict.ok()) << "byte " << i;
    auto salvaged = CaptureReader::FromBytes(broken, {.salvage = true});
    ASSERT_TRUE(salvaged.ok()) << "byte " << i << ": " << salvaged.status();
    const Contents contents = ReadAll(**salvaged);
    ASSERT_GE(contents.records, (kBlocks - 1) * 10u) << "one block at most is lost, byte " << i;
    if (contents.records < kBlocks * 10u) {
      ASSERT_EQ(contents.gaps, 1) << "byte " << i;
    }
  }
}

// Each header says that all behind it is its payload.
TEST_F(CaptureFileTest, TheSearchForSoundBlocksIsBounded) {
  constexpr size_t kHeaders = 10'000;
  std::mt19937 random(1);
  std::vector<std::byte> payload(size_t{512} << 10);
  for (std::byte& byte : payload) byte = static_cast<std::byte>(random());
  const int fd = open(path_.c_str(), O_RDWR | O_TRUNC);
  absl::StatusOr<std::unique_ptr<CaptureWriter>> writer = CaptureWriter::Create(fd, path_);
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE((*writer)->AppendRecords(payload).ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  writer->reset();
  const std::vector<std::byte> whole = FileBytes();
  const auto header = whole.begin() + sizeof(CaptureFileHeader);
  std::vector<std::byte> hostile(whole.begin(), header);
  for (size_t i = 0; i < kHeaders; ++i) {
    hostile.insert(hostile.end(), header, header + sizeof(BlockHeader));
  }
  hostile.resize(hostile.size() + payload.size());
  hostile.insert(hostile.end(), bytes_.begin() + sizeof(CaptureFileHeader), bytes_.end());
  const auto salvaged = CaptureReader::FromBytes(hostile, {.salvage = true});
  ASSERT_TRUE(salvaged.ok()) << salvaged.status();
  EXPECT_NE((*salvaged)->damage().find("too many damaged blocks"), std::string::npos);
  const Contents contents = ReadAll(**salvaged);
  EXPECT_EQ(contents.records, 0u);
  EXPECT_EQ(contents.gaps, 1);
}

TEST_F(CaptureFileTest, ANewerFormatIsRefusedByName) {
  CaptureFileHeader header;
  std::memcpy(&header, bytes_.data(), sizeof(header));
  header.version = kCaptureVersion + 1;
  std::memcpy(bytes_.data(), &header, sizeof(header));
  // Its checksum is wrong: it is a damaged header, and no newer one.
  const auto damaged = CaptureReader::FromBytes(bytes_, {});
  EXPECT_THAT(std::string(damaged.status().message()), HasSubstr("its header is wrong"));
  EXPECT_TRUE(CaptureReader::FromBytes(bytes_, {.salvage = true}).ok());
  header.checksum = XXH3_64bits(&header, offsetof(CaptureFileHeader, checksum));
  std::memcpy(bytes_.data(), &header, sizeof(header));
  const auto reader = CaptureReader::FromBytes(bytes_, {.salvage = true});
  ASSERT_FALSE(reader.ok());
  EXPECT_NE(reader.status().message().find("newer"), std::string::npos);
}

TEST_F(CaptureFileTest, ALostHeaderLosesNothingElse) {
  for (const size_t lost : {size_t{0}, size_t{8}, sizeof(CaptureFileHeader)}) {
    std::vector<std::byte> broken(bytes_.begin() + static_cast<ptrdiff_t>(lost), bytes_.end());
    broken[0] ^= std::byte{0xff};  // of the first block, at last
    const auto strict = CaptureReader::FromBytes(broken, {});
    ASSERT_FALSE(strict.ok());
    const auto salvaged = CaptureReader::FromBytes(broken, {.salvage = true});
    ASSERT_TRUE(salvaged.ok()) << salvaged.status();
    EXPECT_EQ(ReadAll(**salvaged).records, kBlocks * 10u) << lost;
    EXPECT_EQ((*salvaged)->damage(), "its header is wrong");
  }
}

// Two that were put together by `cat`.
TEST_F(CaptureFileTest, WhatLiesBehindTheEndIsDamage) {
  std::vector<std::byte> both = bytes_;
  both.insert(both.end(), bytes_.begin(), bytes_.end());
  const auto strict = CaptureReader::FromBytes(both, {});
  ASSERT_EQ(ExitCodeOf(strict.status()), ExitCode::kInputDamaged);
  EXPECT_THAT(std::string(strict.status().message()), HasSubstr("behind its end"));
  const auto salvaged = CaptureReader::FromBytes(both, {.salvage = true});
  ASSERT_TRUE(salvaged.ok());
  EXPECT_THAT((*salvaged)->damage(), HasSubstr("behind its end"));
  EXPECT_EQ(ReadAll(**salvaged).records, kBlocks * 10u);
}

// A copy that was resumed by appending all of it: of what is there twice one is read, and what the
// first part lacks comes from the second.
TEST_F(CaptureFileTest, BlocksThatAreThereAgainAreReadOnce) {
  const std::vector<size_t> ends = BlockEnds();
  for (const size_t cut : {ends[3], ends[3] + 30, ends[4] + 50, bytes_.size() - 1}) {
    for (const bool is_damaged : {false, true}) {
      std::vector<std::byte> spliced(bytes_.begin(), bytes_.begin() + static_cast<ptrdiff_t>(cut));
      if (is_damaged) spliced[ends[1] + 60] ^= std::byte{1};  // of the second block of records
      spliced.insert(spliced.end(), bytes_.begin(), bytes_.end());
      EXPECT_EQ(ExitCodeOf(CaptureReader::FromBytes(spliced, {}).status()),
                ExitCode::kInputDamaged);
      const auto salvaged =
          CaptureReader::FromBytes(spliced, {.salvage = true, .keep_metadata_text = true});
      ASSERT_TRUE(salvaged.ok()) << salvaged.status();
      const Contents contents = ReadAll(**salvaged);
      EXPECT_EQ(contents.times, times_);
      EXPECT_EQ(contents.gaps, 0);
      EXPECT_EQ((*salvaged)->metadata_text().size(), 2u);
      EXPECT_THAT((*salvaged)->damage(),
                  HasSubstr("; blocks that are there twice were taken once: "));
    }
  }
  // Without its header, too.
  std::vector<std::byte> spliced(bytes_.begin(), bytes_.begin() + static_cast<ptrdiff_t>(ends[2]));
  spliced.insert(spliced.end(), bytes_.begin() + sizeof(CaptureFileHeader), bytes_.end());
  const auto salvaged = CaptureReader::FromBytes(spliced, {.salvage = true});
  ASSERT_TRUE(salvaged.ok()) << salvaged.status();
  EXPECT_EQ(ReadAll(**salvaged).times, times_);
  EXPECT_EQ((*salvaged)->damage(), "a second block 0 is at byte " + std::to_string(ends[2]) +
                                       "; blocks that are there twice were taken once: 3");
  EXPECT_THAT(std::string(CaptureReader::FromBytes(spliced, {}).status().message()),
              HasSubstr("a second block 0 is at byte"));
}

// What is lost in both halves is a gap, once.
TEST_F(CaptureFileTest, WhatNoneOfTwoCopiesHasIsAGap) {
  const std::vector<size_t> ends = BlockEnds();
  std::vector<std::byte> damaged = bytes_;
  damaged[ends[1] + 60] ^= std::byte{1};
  std::vector<std::byte> spliced(damaged.begin(),
                                 damaged.begin() + static_cast<ptrdiff_t>(ends[4]));
  spliced.insert(spliced.end(), damaged.begin(), damaged.end());
  const auto salvaged = CaptureReader::FromBytes(spliced, {.salvage = true});
  ASSERT_TRUE(salvaged.ok()) << salvaged.status();
  const Contents contents = ReadAll(**salvaged);
  EXPECT_EQ(contents.records, (kBlocks - 1) * 10u);
  EXPECT_EQ(contents.gaps, 1);
}

TEST_F(CaptureFileTest, ABlockOfAnotherRecordingIsLeftOut) {
  const std::vector<size_t> ends = BlockEnds();
  const std::vector<std::byte> first = bytes_;
  const std::vector<uint64_t> times = times_;
  WriteFile(1'000'000);
  const auto place = [&first](size_t offset) {
    return first.begin() + static_cast<ptrdiff_t>(offset);
  };
  std::vector<std::byte> spliced(first.begin(), place(ends[3]));
  spliced.insert(spliced.end(), bytes_.begin(), bytes_.end());
  auto salvaged = CaptureReader::FromBytes(spliced, {.salvage = true});
  ASSERT_TRUE(salvaged.ok()) << salvaged.status();
  EXPECT_EQ(ReadAll(**salvaged).times, std::vector<uint64_t>(times.begin(), times.begin() + 30));
  EXPECT_THAT((*salvaged)->damage(), HasSubstr("is of another recording and was left out"));
  // Its first blocks have numbers that the rest of the first one has not.
  spliced.assign(place(ends[3]), place(ends[5]));
  spliced.insert(spliced.end(), bytes_.begin(), bytes_.end());
  salvaged = CaptureReader::FromBytes(spliced, {.salvage = true});
  ASSERT_TRUE(salvaged.ok()) << salvaged.status();
  EXPECT_EQ(ReadAll(**salvaged).times,
            std::vector<uint64_t>(times.begin() + 30, times.begin() + 50));
}

TEST_F(CaptureFileTest, AFileThatIsCutWhileItIsReadIsAnError) {
  for (const bool salvage : {false, true}) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc)
        .write(reinterpret_cast<const char*>(bytes_.data()),
               static_cast<std::streamsize>(bytes_.size()));
    auto reader = CaptureReader::Open(path_, {.salvage = salvage});
    ASSERT_TRUE(reader.ok()) << reader.status();
    ASSERT_TRUE((*reader)->Next().ok());
    ASSERT_EQ(truncate(path_.c_str(), sizeof(CaptureFileHeader) + 8), 0);
    if (salvage) {
      const Contents contents = ReadAll(**reader);
      EXPECT_EQ(contents.records, 0u);
      EXPECT_GT(contents.gaps, 0);
      EXPECT_THAT((*reader)->damage(), HasSubstr("became shorter"));
    } else {
      const auto batch = (*reader)->Next();
      EXPECT_EQ(ExitCodeOf(batch.status()), ExitCode::kInputDamaged);
      EXPECT_THAT(std::string(batch.status().message()), HasSubstr("became shorter"));
    }
  }
}

// A block whose bytes are what they were meant to be, and no compressed ones.
TEST_F(CaptureFileTest, ABlockThatDoesNotDecompressIsAGapWhereItIs) {
  const int fd = open(path_.c_str(), O_RDWR | O_TRUNC);
  absl::StatusOr<std::unique_ptr<CaptureWriter>> writer = CaptureWriter::Create(fd, path_);
  ASSERT_TRUE(writer.ok());
  RecordMaker maker;
  maker.Begin(1, 100, 1, 0);
  const std::vector<std::byte> junk(100, std::byte{7});
  ASSERT_TRUE((*writer)->AppendCompressed(BlockType::kMetadata, 500, junk).ok());
  ASSERT_TRUE((*writer)->AppendRecords(maker.bytes()).ok());
  ASSERT_TRUE((*writer)->AppendCompressed(BlockType::kRecords, 500, junk).ok());
  ASSERT_TRUE((*writer)->AppendRecords(maker.bytes()).ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  writer->reset();
  EXPECT_EQ(ExitCodeOf(CaptureReader::Open(path_, {}).status()), ExitCode::kInputDamaged);
  const auto reader = CaptureReader::Open(path_, {.salvage = true});
  ASSERT_TRUE(reader.ok()) << reader.status();
  std::vector<bool> gaps;
  while (true) {
    const auto batch = (*reader)->Next();
    ASSERT_TRUE(batch.ok());
    if (!batch->records.empty() || batch->end) gaps.push_back(batch->gap_before);
    if (batch->end) break;
  }
  EXPECT_EQ(gaps, (std::vector<bool>{false, true, false}));
}

TEST_F(CaptureFileTest, OtherFilesAreNoCaptures) {
  for (const char* path : {"/dev/null", "/", "/nonexistent", "/etc/passwd", "/proc/self/status"}) {
    const auto reader = CaptureReader::Open(path, {.salvage = true});
    EXPECT_EQ(ExitCodeOf(reader.status()), ExitCode::kInputDamaged) << path;
  }
}

TEST_F(CaptureFileTest, FullDiskIsOneClearError) {
  const int fd = open("/dev/full", O_WRONLY);
  ASSERT_GE(fd, 0);
  const auto writer = CaptureWriter::Create(fd, "capture.ptrec");
  ASSERT_FALSE(writer.ok());
  EXPECT_EQ(ExitCodeOf(writer.status()), ExitCode::kOutputFailed);
  EXPECT_NE(writer.status().message().find("No space left"), std::string::npos);
}

}  // namespace
}  // namespace proftrace
