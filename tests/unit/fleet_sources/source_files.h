// Files for tests of what a merge reads, and what the readers find in them.
#pragma once

#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "userspace/base/exit_status.h"
#include "userspace/fleet_sources/open_source.h"

namespace proftrace {

// A folder of its own, gone with this.
class SourceFiles : public testing::Test {
 protected:
  SourceFiles() {
    std::string name = testing::TempDir() + "/fleet_sourcesXXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~SourceFiles() override {
    std::error_code error;
    std::filesystem::remove_all(folder_, error);
  }

  std::string PathOf(const std::string& name) const { return folder_ + "/" + name; }
  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(PathOf(name), std::ios::binary) << text;
    return PathOf(name);
  }

 private:
  std::string folder_;
};

inline std::string GzipMember(const std::string& text) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string packed(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

inline std::string IdText(const SourceId& id) {
  if (const auto* number = std::get_if<int64_t>(&id)) return std::to_string(*number);
  return "'" + std::string(std::get<std::string_view>(id)) + "'";
}

// "X name pid/tid begin+duration {args} others".
inline std::string TextOf(const SourceEvent& event) {
  std::string text(1, event.phase);
  text += " " + std::string(event.name) + " " + IdText(event.pid) + "/" + IdText(event.tid);
  if (event.begin_ns) {
    text += " " + std::to_string(*event.begin_ns) + "+" + std::to_string(event.duration_ns);
  }
  if (event.id) text += " id=" + IdText(*event.id);
  if (!event.args.empty()) text += " " + std::string(event.args);
  if (!event.others.empty()) text += " " + std::string(event.others);
  return text;
}

inline std::vector<std::string> EventsOf(SourceInput* source) {
  std::vector<std::string> events;
  const absl::Status status = source->ForEachEvent([&events](const SourceEvent& event) {
    events.push_back(TextOf(event));
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
  return events;
}

inline std::unique_ptr<SourceInput> Open(const std::string& path, bool salvage = false) {
  SourceOptions options;
  options.salvage = salvage;
  absl::StatusOr<std::unique_ptr<SourceInput>> source = OpenSource(path, options);
  EXPECT_TRUE(source.ok()) << source.status();
  return source.ok() ? *std::move(source) : nullptr;
}

inline std::string ErrorOf(const std::string& path, ExitCode code = ExitCode::kInputDamaged) {
  const absl::Status status = OpenSources(path).status();
  EXPECT_EQ(ExitCodeOf(status), code) << status;
  return std::string(status.message());
}

}  // namespace proftrace
