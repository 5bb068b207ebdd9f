#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <sstream>

#include "tests/support/python_process.h"
#include "userspace/model/python_lines.h"

namespace proftrace {
namespace {

constexpr uint32_t kPython39 = 0x0309;
constexpr uint32_t kPython310 = 0x030a;
constexpr uint32_t kPython311 = 0x030b;

std::optional<int32_t> Line(uint32_t version, const std::vector<uint8_t>& table,
                            uint32_t instruction) {
  return PythonLine(version, 10, table, instruction);
}

TEST(PythonLinesTest, Increments) {
  const std::vector<uint8_t> table = {4, 1, 0, 127, 2, 256 - 100, 255, 0, 1, 1};
  EXPECT_EQ(Line(kPython39, table, 0), 10);
  EXPECT_EQ(Line(kPython39, table, 1), 10);
  EXPECT_EQ(Line(kPython39, table, 2), 138);
  EXPECT_EQ(Line(kPython39, table, 3), 38);
  EXPECT_EQ(Line(kPython39, table, 130), 38);
  EXPECT_EQ(Line(kPython39, table, 131), 39);
  EXPECT_EQ(Line(kPython39, table, 1000000), 39);
}

TEST(PythonLinesTest, Ranges) {
  const std::vector<uint8_t> table = {4, 1, 0, 5, 2, 128, 2, 0};
  EXPECT_EQ(Line(kPython310, table, 0), 11);
  EXPECT_EQ(Line(kPython310, table, 1), 11);
  EXPECT_EQ(Line(kPython310, table, 2), std::nullopt);
  EXPECT_EQ(Line(kPython310, table, 3), 16);
  EXPECT_EQ(Line(kPython310, table, 4), std::nullopt);
}

TEST(PythonLinesTest, Locations) {
  const auto entry = [](int code, int units) {
    return static_cast<uint8_t>(128 | (code << 3) | (units - 1));
  };
  const std::vector<uint8_t> table = {entry(10, 1),
                                      0,
                                      0,
                                      entry(12, 2),
                                      0,
                                      0,
                                      entry(15, 1),
                                      entry(13, 8),
                                      3,
                                      entry(0, 1),
                                      0,
                                      entry(14, 1),
                                      64 | 2,
                                      4,
                                      0,
                                      0,
                                      0};
  EXPECT_EQ(Line(kPython311, table, 0), 10);
  EXPECT_EQ(Line(kPython311, table, 1), 12);
  EXPECT_EQ(Line(kPython311, table, 2), 12);
  EXPECT_EQ(Line(kPython311, table, 3), std::nullopt);
  EXPECT_EQ(Line(kPython311, table, 4), 11);
  EXPECT_EQ(Line(kPython311, table, 11), 11);
  EXPECT_EQ(Line(kPython311, table, 12), 11);
  EXPECT_EQ(Line(kPython311, table, 13), 11 + 129);
  EXPECT_EQ(Line(kPython311, table, 14), std::nullopt);
}

TEST(PythonLinesTest, AFrameThatHasNotBegunIsAtItsFirstLine) {
  for (const uint32_t version : {kPython39, kPython310, kPython311}) {
    EXPECT_EQ(Line(version, {}, UINT32_MAX), 10);
  }
}

TEST(PythonLinesTest, AnyBytesGiveSomeLineOrNone) {
  std::mt19937 random(1);
  for (int round = 0; round < 3000; ++round) {
    std::vector<uint8_t> table(random() % 300);
    for (uint8_t& byte : table) byte = static_cast<uint8_t>(random());
    for (const uint32_t version : {kPython39, kPython310, kPython311}) {
      const PythonLines lines(version, static_cast<int32_t>(random()), table);
      for (int i = 0; i < 20; ++i) {
        const auto line = lines.LineOf(static_cast<uint32_t>(random()) % 2048);
        if (line) EXPECT_GE(*line, 0);
      }
    }
  }
  // Ever more lines, to past what an int holds.
  std::vector<uint8_t> table;
  for (int i = 0; i < 8000; ++i) {
    for (const int byte : {0x80 | (13 << 3), 0x7e, 0x7f, 0x7f, 0x7f, 0x7f, 0x3f}) {
      table.push_back(static_cast<uint8_t>(byte));
    }
  }
  EXPECT_EQ(Line(kPython311, table, 7999), std::nullopt);
}

// For each code object: its first line, its table in hex, how many units of two bytes it has, and
// the line of each as the interpreter itself says ("-" = none).
constexpr char kTablesScript[] = R"(
import dis, sys
import argparse, collections, dataclasses, inspect, json, os, pathlib, tarfile, typing, unittest.mock
import asyncio.base_events, concurrent.futures.thread, email.message, logging.handlers
def walk(code):
    yield code
    for constant in code.co_consts:
        if hasattr(constant, 'co_code'):
            yield from walk(constant)
def tables():
    for module in list(sys.modules.values()):
        file = getattr(module, '__file__', None) or ''
        if file.endswith('.py'):
            with open(file, encoding='utf-8') as source:
                yield from walk(compile(source.read(), file, 'exec'))
for code in tables():
    units = len(code.co_code) // 2
    lines = ['-'] * units
    if sys.version_info >= (3, 10):
        table = code.co_linetable
        for start, end, line in code.co_lines():
            for unit in range(start // 2, end // 2):
                lines[unit] = '-' if line is None else str(line)
    else:
        table = code.co_lnotab
        starts = list(dis.findlinestarts(code)) + [(len(code.co_code), 0)]
        for (start, line), (end, _) in zip(starts, starts[1:]):
            for unit in range(start // 2, end // 2):
                lines[unit] = str(line)
    runs = []
    for line in lines:
        if runs and runs[-1][0] == line:
            runs[-1][1] += 1
        else:
            runs.append([line, 1])
    print(code.co_firstlineno, table.hex() or '-', *(f'{line}:{count}' for line, count in runs))
print('end', flush=True)
)";

std::vector<uint8_t> FromHex(const std::string& text) {
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i + 1 < text.size(); i += 2) {
    bytes.push_back(static_cast<uint8_t>(std::stoul(text.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

TEST(PythonTablesTest, LinesAreThoseThatTheInterpreterSays) {
  const std::vector<PythonInterpreter> pythons = FindPythons();
  ASSERT_FALSE(pythons.empty()) << "no CPython 3.9 to 3.15 on this machine";
  for (const PythonInterpreter& python : pythons) {
    PythonProcess process(python.command, kTablesScript);
    size_t codes = 0;
    size_t units = 0;
    size_t wrong = 0;
    for (const std::string& text : process.ReadLines("end")) {
      std::istringstream words(text);
      int32_t first_line = 0;
      std::string table;
      words >> first_line >> table;
      const uint32_t version = 0x0300U | static_cast<uint32_t>(python.minor);
      const PythonLines lines(version, first_line, FromHex(table));
      uint32_t unit = 0;
      for (std::string run; words >> run;) {
        const size_t colon = run.find(':');
        const std::string line = run.substr(0, colon);
        const std::optional<int32_t> expected =
            line == "-" ? std::nullopt : std::optional(std::stoi(line));
        for (int i = std::stoi(run.substr(colon + 1)); i > 0; --i, ++unit) {
          wrong += lines.LineOf(unit) != expected;
        }
      }
      units += unit;
      ++codes;
    }
    std::printf("Python %s: %zu code objects, %zu instructions, %zu wrong\n",
                python.version.c_str(), codes, units, wrong);
    EXPECT_GT(codes, 5000u);
    EXPECT_EQ(wrong, 0u);
  }
}

}  // namespace
}  // namespace proftrace
