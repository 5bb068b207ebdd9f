// Escaping, files that appear whole or not at all, compression, and the list of formats.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <sstream>
#include <string>

#include "exporters/formats.h"
#include "exporters/sinks/escape.h"
#include "exporters/sinks/gzip_sink.h"
#include "exporters/sinks/text_writer.h"
#include "tests/support/nameless_files.h"
#include "tests/support/timeline_maker.h"
#include "userspace/base/exit_status.h"

namespace proftrace {
namespace {

namespace fs = std::filesystem;

std::string ReadFile(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The whole of one gzip member; fails when bytes follow it.
std::string Unzip(const std::string& bytes) {
  z_stream stream{};
  EXPECT_EQ(inflateInit2(&stream, 15 + 16), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  std::string text;
  std::string part(1 << 16, '\0');
  int result = Z_OK;
  while (result == Z_OK) {
    stream.next_out = reinterpret_cast<Bytef*>(part.data());
    stream.avail_out = static_cast<uInt>(part.size());
    result = inflate(&stream, Z_NO_FLUSH);
    text.append(part.data(), part.size() - stream.avail_out);
  }
  EXPECT_EQ(result, Z_STREAM_END);
  EXPECT_EQ(stream.avail_in, 0u);
  inflateEnd(&stream);
  return text;
}

class OutputDirectoryTest : public testing::Test {
 protected:
  OutputDirectoryTest() {
    std::string name = (fs::temp_directory_path() / "proftrace_output_XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~OutputDirectoryTest() override { fs::remove_all(path_); }

  OutputDirectory Open() { return *OutputDirectory::Open(path_.string()); }
  size_t FileCount() {
    return static_cast<size_t>(
        std::distance(fs::directory_iterator(path_), fs::directory_iterator()));
  }

  fs::path path_;
};

TEST_F(OutputDirectoryTest, FileAppearsWhenItIsFinished) {
  const OutputDirectory directory = Open();
  std::ofstream(path_ / "out.txt") << "old";
  {
    const std::unique_ptr<ByteSink> sink = *directory.Create("out.txt");
    ASSERT_TRUE(sink->Write("new").ok());
    EXPECT_EQ(ReadFile(path_ / "out.txt"), "old");
    ASSERT_TRUE(sink->Finish().ok());
  }
  EXPECT_EQ(ReadFile(path_ / "out.txt"), "new");
  EXPECT_EQ(FileCount(), 1u);
}

TEST_F(OutputDirectoryTest, AbandonedFileLeavesNothing) {
  const OutputDirectory directory = Open();
  { ASSERT_TRUE((*directory.Create("out.txt.gz"))->Write("half").ok()); }
  EXPECT_EQ(FileCount(), 0u);
}

// ^C, `kill` or a terminal that closes ends an export half-way: here, in a child.
TEST_F(OutputDirectoryTest, ASignalLeavesNothingHalf) {
  for (const bool is_named : {false, true}) {
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
      const pid_t child = fork();
      if (child == 0) {
        if (is_named && !ForbidNamelessFiles()) _exit(77);
        const OutputDirectory directory = Open();
        const std::unique_ptr<ByteSink> sink = *directory.Create("out.txt");
        if (!sink->Write("half").ok() || (is_named && FileCount() != 1)) _exit(1);
        raise(number);
        (void)sink->Write("another quarter");
        _exit(2);
      }
      int status = 0;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      if (WIFEXITED(status) && WEXITSTATUS(status) == 77) GTEST_SKIP() << "no seccomp filters";
      ASSERT_TRUE(WIFSIGNALED(status)) << status;
      EXPECT_EQ(WTERMSIG(status), number);
      EXPECT_EQ(FileCount(), 0u) << is_named;
    }
  }
}

TEST_F(OutputDirectoryTest, AFileIsReplacedWhereItNeedsATemporaryName) {
  for (const bool is_named_late : {false, true}) {
    std::ofstream(path_ / "out.txt") << "old";
    const pid_t child = fork();
    if (child == 0) {
      if (!(is_named_late ? ForbidNamingFiles() : ForbidNamelessFiles())) _exit(77);
      const OutputDirectory directory = Open();
      const std::unique_ptr<ByteSink> sink = *directory.Create("out.txt");
      _exit(sink->Write("new").ok() && sink->Finish().ok() ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) GTEST_SKIP() << "no seccomp filters";
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    EXPECT_EQ(ReadFile(path_ / "out.txt"), "new");
    EXPECT_EQ(FileCount(), 1u);
  }
}

TEST_F(OutputDirectoryTest, LinksAreNotFollowed) {
  const OutputDirectory directory = Open();
  std::ofstream(path_ / "victim") << "precious";
  fs::create_symlink("victim", path_ / "out.txt");
  const std::unique_ptr<ByteSink> sink = *directory.Create("out.txt");
  ASSERT_TRUE(sink->Write("new").ok());
  ASSERT_TRUE(sink->Finish().ok());
  EXPECT_EQ(ReadFile(path_ / "victim"), "precious");
  EXPECT_FALSE(fs::is_symlink(path_ / "out.txt"));
}

TEST_F(OutputDirectoryTest, FullDiskIsOneSentence) {
  const OutputDirectory directory = *OutputDirectory::Open("/dev");
  const std::unique_ptr<ByteSink> sink = *directory.Create("full");
  const absl::Status status = sink->Write(std::string(100'000, 'x'));
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kOutputFailed);
  EXPECT_EQ(status.message(),
            "cannot write /dev/full: No space left on device; free some space there, or choose "
            "another place with -o");
  EXPECT_FALSE(directory.Create("proftrace-test-file").ok()) << "nothing is made in /dev";
}

TEST_F(OutputDirectoryTest, StandardOutputIsWrittenToAsItIs) {
  const OutputDirectory directory = *OutputDirectory::Open("/dev");
  testing::internal::CaptureStdout();
  const std::unique_ptr<ByteSink> sink = *directory.Create("stdout");
  const bool is_written = sink->Write("text").ok() && sink->Finish().ok();
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "text");
  EXPECT_TRUE(is_written);
}

TEST_F(OutputDirectoryTest, ADescriptorIsWrittenToAsItIs) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  {
    const OutputDirectory directory = *OutputDirectory::Open("/dev/fd");
    const std::unique_ptr<ByteSink> sink = *directory.Create(std::to_string(ends[1]));
    EXPECT_TRUE(sink->Write("text").ok() && sink->Finish().ok());
    EXPECT_FALSE(directory.Create("1x").ok());
    EXPECT_FALSE(directory.Create("987654").ok()) << "not open";
  }
  close(ends[1]);
  char text[8] = {};
  EXPECT_EQ(read(ends[0], text, sizeof(text)), 4);
  EXPECT_STREQ(text, "text");
  close(ends[0]);
}

TEST_F(OutputDirectoryTest, MissingDirectoryAndDirectoryInTheWayFail) {
  EXPECT_EQ(ExitCodeOf(OutputDirectory::Open((path_ / "no").string()).status()),
            ExitCode::kOutputFailed);
  fs::create_directory(path_ / "out.txt");
  EXPECT_EQ(ExitCodeOf(Open().Create("out.txt").status()), ExitCode::kOutputFailed);
}

TEST_F(OutputDirectoryTest, FilesBelongToTheUserOfSudo) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  const OutputDirectory directory =
      *OutputDirectory::Open(path_.string(), FolderTrust{true, geteuid(), FileOwner{1234, 5678}});
  ASSERT_TRUE((*directory.Create("out.txt"))->Finish().ok());
  struct stat facts {};
  ASSERT_EQ(stat((path_ / "out.txt").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_uid, 1234u);
  EXPECT_EQ(facts.st_gid, 5678u);
  EXPECT_EQ(facts.st_mode & 0777, 0600u);
}

TEST_F(OutputDirectoryTest, RootRefusesWhatOthersCanChange) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give directories away";
  ASSERT_EQ(chown(path_.c_str(), 65534, 65534), 0);
  const absl::Status status = OutputDirectory::Open(path_.string()).status();
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kOutputFailed);
  EXPECT_EQ(std::string(status.message()),
            "cannot write into the directory " + path_.string() +
                ": it belongs to user 65534, and what root writes there could be exchanged; choose "
                "another place with -o");
}

TEST_F(OutputDirectoryTest, RootWritesIntoNoPipeOfAnother) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  ASSERT_EQ(mkfifo((path_ / "out.txt").c_str(), 0666), 0);
  ASSERT_EQ(lchown((path_ / "out.txt").c_str(), 65534, 65534), 0);
  EXPECT_EQ(ExitCodeOf(Open().Create("out.txt").status()), ExitCode::kOutputFailed);
}

TEST(ShownJsonTest, WhatATerminalWouldNotShowIsEscapedAndMeansTheSame) {
  const std::string name = "a\x7f\u009b\u202e\U000e0041\"\\z";
  const nlohmann::json document = {{"name", name}};
  const std::string shown = ShownJson(document.dump(2) + "\n");
  EXPECT_EQ(nlohmann::json::parse(shown), document);
  EXPECT_NE(shown.find("a\\u007f\\u009b\\u202e\\udb40\\udc41"), std::string::npos) << shown;
  EXPECT_EQ(shown.back(), '\n');
}

TEST(GzipSinkTest, GivesOneMemberThatUnpacksToTheInput) {
  std::string text;
  for (uint32_t i = 0; i < 300'000; ++i) text += std::to_string(i * 7919) + ",";
  std::mt19937 random(1);
  for (int i = 0; i < 1'000'000; ++i) text.push_back(static_cast<char>(random()));  // grows
  std::string packed[2];
  for (std::string& bytes : packed) {
    auto inner = std::make_unique<StringSink>();
    const StringSink& kept = *inner;
    const std::unique_ptr<ByteSink> sink = NewGzipSink(std::move(inner));
    for (size_t at = 0; at < text.size(); at += 700'001) {
      ASSERT_TRUE(sink->Write(std::string_view(text).substr(at, 700'001)).ok());
    }
    ASSERT_TRUE(sink->Finish().ok());
    bytes = kept.text();
  }
  EXPECT_EQ(Unzip(packed[0]), text);
  EXPECT_EQ(packed[0], packed[1]);
}

TEST(GzipSinkTest, NothingIsAWholeMemberToo) {
  auto inner = std::make_unique<StringSink>();
  const StringSink& kept = *inner;
  const std::unique_ptr<ByteSink> sink = NewGzipSink(std::move(inner));
  ASSERT_TRUE(sink->Finish().ok());
  EXPECT_EQ(Unzip(kept.text()), "");
}

TEST(TextWriterTest, FormatsNumbersAndTextOfAnySize) {
  StringSink sink;
  TextWriter writer(sink);
  writer.Microseconds(1);
  writer.Text(" ");
  writer.Microseconds(-1'234'567);
  writer.Text(" ");
  writer.Integer(std::numeric_limits<int64_t>::min());
  writer.Text(" ");
  writer.Unsigned(std::numeric_limits<uint64_t>::max());
  writer.Text(std::string(1'000'000, 'x'));
  ASSERT_TRUE(writer.Flush().ok());
  EXPECT_EQ(sink.text(), "0.001 -1234.567 -9223372036854775808 18446744073709551615" +
                             std::string(1'000'000, 'x'));
}

std::string Between(const char* from, const char* to) {
  return std::string(from, static_cast<size_t>(to - from));
}

TEST(TextWriterTest, WritesNumbersOfAnyLengthAsTheStandardLibrary) {
  std::vector<uint64_t> numbers = {std::numeric_limits<uint64_t>::max()};
  for (uint64_t power = 1; power <= 1'000'000'000'000'000'000; power *= 10) {
    for (const uint64_t number : {power - 1, power, power + 1, power * 7 + power / 3}) {
      numbers.push_back(number);
    }
  }
  for (const uint64_t number : numbers) {
    char text[kMaxNumberBytes];
    EXPECT_EQ(Between(text, PutInteger(text, number)), std::to_string(number));
    const auto negative = -static_cast<int64_t>(number / 2);
    EXPECT_EQ(Between(text, PutInteger(text, negative)), std::to_string(negative));
    const auto small = static_cast<uint32_t>(number);
    EXPECT_EQ(Between(text, PutInteger(text, small)), std::to_string(small));
  }
}

TEST(TextWriterTest, CopiesTextsOfEachLength) {
  const std::string whole = "abcdefghijklmnopqrstuvwxyz";
  for (size_t size = 0; size <= whole.size(); ++size) {
    std::string text(whole.size(), '.');
    char* end = PutText(text.data(), std::string_view(whole).substr(0, size));
    EXPECT_EQ(text, whole.substr(0, size) + std::string(whole.size() - size, '.'));
    EXPECT_EQ(end, text.data() + size);
  }
}

TEST(EscapeTest, InvalidPartsAreReplacedAsPythonDoes) {
  EXPECT_EQ(ToValidUtf8("\xF0\x9F\x94"), "\uFFFD");              // cut short
  EXPECT_EQ(ToValidUtf8("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");  // a surrogate
  EXPECT_EQ(ToValidUtf8("\xC0\xAF"), "\uFFFD\uFFFD");            // overlong
  EXPECT_EQ(ToValidUtf8("\xF4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(ToValidUtf8("\xE2\x82(\xE2\x82\xAC"), "\uFFFD(\u20AC");
  EXPECT_EQ(CodePoints("a\u20AC\xF0\x9F\x94\xA5"), 3u);
  EXPECT_EQ(FirstCodePoints("a\u20ACb", 2), "a\u20AC");
}

TEST(FormatsTest, ListsAreParsed) {
  const auto formats = ParseFormatList("csv,table,csv");
  ASSERT_TRUE(formats.ok());
  ASSERT_EQ(formats->size(), 2u);
  EXPECT_EQ((*formats)[0]->name, "csv");
  EXPECT_TRUE(ParseFormatList("none")->empty());
  const absl::Status none = ParseFormatList("csv,none").status();
  EXPECT_EQ(ExitCodeOf(none), ExitCode::kUsage);
  EXPECT_NE(none.message().find("none stands alone"), std::string::npos) << none;
  for (const char* wrong : {"", "csv,", "Chrome", "x\n"}) {
    const absl::Status status = ParseFormatList(wrong).status();
    EXPECT_EQ(ExitCodeOf(status), ExitCode::kUsage) << wrong;
    for (const Format& format : Formats()) {
      EXPECT_NE(status.message().find(std::string(format.name)), std::string::npos) << status;
    }
  }
}

// The files and folders of formats that need nothing; two share a folder.
std::set<std::string> NamesWithoutNeeds(const Timeline& timeline) {
  std::set<std::string> names;
  for (const Format& format : Formats()) {
    if (format.needs == FormatNeeds::kNothing) names.insert(DefaultFileName(format, timeline));
  }
  return names;
}

// The bytes of a file, or those of the files in a folder in the order of their names.
std::string ContentsOf(const fs::path& path) {
  if (!fs::is_directory(path)) return ReadFile(path);
  std::set<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(path)) files.insert(entry.path());
  std::string all;
  for (const fs::path& file : files) all += file.filename().string() + ":" + ReadFile(file);
  return all;
}

TEST_F(OutputDirectoryTest, FormatsOfMemorySayThatItWasNotRecorded) {
  const std::unique_ptr<Timeline> timeline = MakeTrainingTimeline(50, 2);
  const Aggregates aggregates = Aggregate(*timeline, {});
  const TableOptions table;
  const OutputDirectory directory = Open();
  for (const Format& format : Formats()) {
    if (format.needs != FormatNeeds::kMemory) continue;
    const absl::Status status =
        Export(format, {*timeline, aggregates, table}, directory, std::string(format.file_name));
    EXPECT_EQ(ExitCodeOf(status), ExitCode::kUsage) << format.name;
    EXPECT_NE(status.message().find("--profile-memory"), std::string::npos) << status;
  }
  EXPECT_EQ(FileCount(), 0u);
}

TEST_F(OutputDirectoryTest, TheFormatOfModulesSaysThatTheyWereNotRecorded) {
  const std::unique_ptr<Timeline> timeline = MakeTrainingTimeline(50, 2);
  const Aggregates aggregates = Aggregate(*timeline, {});
  const TableOptions table;
  const absl::Status status =
      Export(**FindFormat("modules"), {*timeline, aggregates, table}, Open(), "modules.csv");
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kUsage);
  EXPECT_NE(status.message().find("--with-modules"), std::string::npos) << status;
  EXPECT_EQ(FileCount(), 0u);
}

TEST_F(OutputDirectoryTest, EveryFormatWritesItsFileTheSameTwice) {
  const std::unique_ptr<Timeline> timeline = MakeTrainingTimeline(5'000, 2);
  const Aggregates aggregates = Aggregate(*timeline, {});
  const TableOptions table;
  const OutputDirectory directory = Open();
  for (const Format& format : Formats()) {
    if (format.needs != FormatNeeds::kNothing) continue;
    const std::string name = DefaultFileName(format, *timeline);
    ASSERT_TRUE(Export(format, {*timeline, aggregates, table}, directory, name).ok()) << name;
    const std::string first = ContentsOf(path_ / name);
    ASSERT_TRUE(Export(format, {*timeline, aggregates, table}, directory, name).ok()) << name;
    EXPECT_EQ(ContentsOf(path_ / name), first) << name;
    EXPECT_FALSE(first.empty()) << name;
  }
  EXPECT_TRUE(fs::exists(path_ / "testhost_4711.1790000005000000000.pt.trace.json.gz"));
  EXPECT_EQ(FileCount(), NamesWithoutNeeds(*timeline).size());
  EXPECT_EQ(Unzip(ReadFile(path_ / "trace.json.gz")).substr(0, 2), "{\n");
}

TEST_F(OutputDirectoryTest, EveryFormatStandsAnEmptyRecording) {
  TimelineMaker maker;
  const std::unique_ptr<Timeline> timeline = maker.Finish();
  const Aggregates aggregates = Aggregate(*timeline, {});
  const TableOptions table;
  const OutputDirectory directory = Open();
  for (const Format& format : Formats()) {
    if (format.needs != FormatNeeds::kNothing) continue;
    const std::string name = DefaultFileName(format, *timeline);
    EXPECT_TRUE(Export(format, {*timeline, aggregates, table}, directory, name).ok()) << name;
  }
  EXPECT_EQ(FileCount(), NamesWithoutNeeds(*timeline).size());
}

TEST_F(OutputDirectoryTest, ParquetHasATableAFileBeItWithoutARow) {
  TimelineMaker maker;
  const std::unique_ptr<Timeline> timeline = maker.Finish();
  const Aggregates aggregates = Aggregate(*timeline, {});
  const OutputDirectory directory = Open();
  for (const char* name : {"parquet", "parquet-events"}) {
    const absl::StatusOr<const Format*> format = FindFormat(name);
    ASSERT_TRUE(format.ok());
    ASSERT_TRUE(Export(**format, {*timeline, aggregates, {}}, directory, "tables").ok());
  }
  std::set<std::string> tables;
  for (const fs::directory_entry& entry : fs::directory_iterator(path_ / "tables")) {
    tables.insert(entry.path().filename().string());
    const std::string bytes = ReadFile(entry.path());
    EXPECT_TRUE(bytes.starts_with("PAR1") && bytes.ends_with("PAR1")) << entry.path();
  }
  EXPECT_EQ(tables, (std::set<std::string>{
                        "captures.parquet", "clocks.parquet", "collectives.parquet",
                        "data_waits.parquet", "events.parquet", "gpu_idle.parquet", "io.parquet",
                        "kernels.parquet", "key_averages.parquet", "losses.parquet",
                        "memory.parquet", "modules.parquet", "operators.parquet",
                        "processes.parquet", "samples.parquet", "steps.parquet", "waits.parquet"}));
}

}  // namespace
}  // namespace proftrace
