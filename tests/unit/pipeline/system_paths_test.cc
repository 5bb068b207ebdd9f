// Paths of system calls: those that are cut, unread, or of the file itself.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "bpf/abi/system_records.h"
#include "tests/support/system_record_maker.h"
#include "userspace/decode/system_decoder.h"

namespace proftrace {
namespace {

using testing::ElementsAre;

class SystemPathsTest : public testing::Test {
 protected:
  static constexpr uint16_t kOpenat = 257;  // x86-64
  static constexpr uint16_t kNewfstatat = 262;
  static constexpr uint16_t kRename = 82;

  SystemPathsTest() {
    const std::string names("data\0home\0", 10);
    abi::pt_system_file_record file{};
    file.head = job_.Head(abi::PT_SYSTEM_FILE, 7, 1, 0, 1);
    file.kind = abi::PT_SYSTEM_FILE_DIRECTORY;
    file.bytes = static_cast<uint16_t>(names.size());
    std::memcpy(file.text, names.data(), names.size());
    EXPECT_TRUE(decoder_.OnRecord(std::as_bytes(std::span(&file, 1))));
  }

  // A call with paths that start at "/home/data"; an empty second one is none.
  void Add(uint16_t number, std::vector<uint64_t> arguments, const std::string& path,
           const std::string& second = "", uint8_t flags = 0, int64_t result = 0) {
    abi::pt_system_call_record record = job_.CallRecord(7, 1000, 2000, number, result);
    record.arguments = static_cast<uint8_t>(arguments.size());
    record.flags = flags | abi::PT_SYSTEM_HAS_PATH;
    std::memcpy(record.tail, arguments.data(), arguments.size() * 8);
    uint8_t* at = record.tail + arguments.size() * 8;
    const uint32_t directories[2] = {1, 1};
    std::memcpy(at, directories, sizeof(directories));
    std::string text = path + std::string(1, '\0');
    if (!second.empty()) {
      text += second + std::string(1, '\0');
      record.flags |= abi::PT_SYSTEM_HAS_SECOND_PATH;
    }
    std::memcpy(at + sizeof(directories), text.data(), text.size());
    record.path_bytes = static_cast<uint16_t>(text.size());
    EXPECT_TRUE(decoder_.OnRecord(std::as_bytes(std::span(&record, 1))));
  }

  std::vector<std::string> Paths() {
    tables_ = decoder_.TakeTables();
    std::vector<std::string> paths;
    for (uint32_t i = 0; i < tables_.events->size(); ++i) {
      paths.push_back(tables_.paths[Raw(tables_.events->at(i).call.paths)].first);
    }
    return paths;
  }

  SystemRecordMaker job_;
  Ledger ledger_;
  SystemDecoder decoder_{"", &ledger_};
  SystemDecoder::Tables tables_;
};

// fstat() of newer C libraries.
TEST_F(SystemPathsTest, AnEmptyOneIsTheFileItselfWhereTheCallTakesThat) {
  Add(kNewfstatat, {3, 0x1000, 0x2000, AT_EMPTY_PATH}, "");
  Add(kNewfstatat, {3, 0x1000, 0x2000, 0}, "", "", 0, -ENOENT);
  Add(kOpenat, {3, 0x1000, 0x1000, 0}, "", "", 0, -ENOENT);
  EXPECT_THAT(Paths(), ElementsAre("/home/data", "", ""));
}

TEST_F(SystemPathsTest, ThoseThatAreCutSaySoAndAreCounted) {
  const std::string longest(PT_SYSTEM_PATH_BYTES - 1, 'x');
  Add(kOpenat, {3, 0x1000, 0}, "/" + longest.substr(1), "", abi::PT_SYSTEM_PATH_CUT);
  Add(kOpenat, {3, 0x1000, 0}, "/" + longest.substr(1));  // as long as that
  Add(kRename, {0x1000, 0x2000}, "/short", longest, abi::PT_SYSTEM_PATH_CUT);
  const std::vector<std::string> paths = Paths();
  EXPECT_EQ(paths[0], "/" + longest.substr(1) + "…");
  EXPECT_EQ(paths[1], "/" + longest.substr(1));
  EXPECT_EQ(paths[2], "/short");
  EXPECT_EQ(tables_.paths[Raw(tables_.events->at(2).call.paths)].second,
            "/home/data/" + longest + "…");
  EXPECT_EQ(ledger_.names_cut, 2u);
}

TEST_F(SystemPathsTest, ThoseThatCouldNotBeReadAreCounted) {
  const uint8_t unread = abi::PT_SYSTEM_PATH_UNREAD;
  Add(kOpenat, {3, 0x1000, 0}, "", "", unread);
  EXPECT_EQ(ledger_.inputs_unread, 1u);
  Add(kOpenat, {3, 0x1000, 0}, "", "", unread, -EFAULT);  // nor could the kernel
  Add(kOpenat, {3, 0, 0}, "", "", unread);                // there is none
  EXPECT_EQ(ledger_.inputs_unread, 1u);
}

}  // namespace
}  // namespace proftrace
