#include "tests/fuzz/memory_seeds.h"

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string_view>
#include <utility>

namespace proftrace {
namespace {

// Memory of which process_memory_fuzz makes that of a process: a word with this mark is a pointer.
class Words {
 public:
  explicit Words(size_t bytes) : bytes_(bytes, '\0') {}
  void Put(uint64_t at, uint64_t word) { std::memcpy(&bytes_[at], &word, sizeof(word)); }
  void Point(uint64_t at, uint64_t to) { Put(at, kMark | to); }
  void PutText(uint64_t at, std::string_view text) { bytes_.replace(at, text.size(), text); }
  std::string Take() { return std::move(bytes_); }

 private:
  static constexpr uint64_t kMark = uint64_t{0x5050} << 48;
  std::string bytes_;
};

// One interpreter, one thread, one frame of a function "f", as _Py_DebugOffsets of that version
// say it.
std::string Python(bool is_313) {
  constexpr uint64_t kHead = 800;
  constexpr uint64_t kInterpreter = 1024;
  constexpr uint64_t kThread = 2048;
  constexpr uint64_t kFrame = 2304;
  constexpr uint64_t kCode = 2560;
  constexpr uint64_t kText = 2944;
  constexpr uint64_t kBytes = 3072;
  constexpr uint64_t kTypes = 3200;  // of code, of str, of bytes: 512 bytes each
  Words words(5120);
  words.PutText(0, "xdebugpy");
  words.Put(8, is_313 ? 0x030d05f0 : 0x030e04f0);
  const struct {
    uint8_t word_313, word_314;
    uint64_t offset;
  } kOffsets[] = {{5, 5, kHead}, {8, 8, 8},     {9, 9, 16},    {7, 7, 0},     {11, 12, 40},
                  {12, 13, 48},  {14, 15, 56},  {21, 24, 8},   {24, 27, 16},  {23, 26, 24},
                  {25, 28, 32},  {30, 33, 0},   {29, 32, 8},   {31, 34, 16},  {33, 36, 24},
                  {32, 35, 32},  {35, 40, 112}, {36, 41, 120}, {37, 42, 128}, {39, 44, 72},
                  {40, 45, 56},  {38, 43, 136}, {43, 48, 200}, {69, 79, 16},  {68, 78, 32},
                  {70, 80, 40},  {65, 75, 16},  {66, 76, 32},  {51, 57, 24}};
  for (const auto& offset : kOffsets) {
    words.Put(8 * (is_313 ? offset.word_313 : offset.word_314), offset.offset);
  }
  words.Point(kHead, kInterpreter);
  words.Point(kInterpreter + 16, kThread);
  words.Point(kThread + 16, kThread + 128);
  words.Point(kThread + 128, kThread + 128);
  words.Point(kThread + 24, kFrame);
  words.Point(kFrame, kCode);
  words.Point(kFrame + 16, kCode + 206);
  words.Point(kCode + 8, kTypes);
  for (const uint64_t field : {112, 120, 128}) words.Point(kCode + field, kText);
  words.Point(kCode + 136, kBytes);
  words.Point(kText + 8, kTypes + 512);
  words.Put(kText + 16, 1);
  words.Put(kText + 32, 1 << 2 | 32 | 64);
  words.PutText(kText + 40, "f");
  words.Point(kBytes + 8, kTypes + 1024);
  for (uint64_t i = 0; i < 3; ++i) {
    constexpr std::string_view kNames[] = {"code", "str", "bytes"};
    constexpr uint64_t kFlags[] = {0, uint64_t{1} << 28, uint64_t{1} << 27};
    const uint64_t type = kTypes + 512 * i;
    words.Point(type + 24, type + 480);
    words.Put(type + 168, kFlags[i]);
    words.PutText(type + 480, kNames[i]);
  }
  return words.Take();
}

// A free-threaded 3.14: objects have longer heads, and the frame runs a copy of the instructions.
std::string FreeThreadedPython() {
  constexpr uint64_t kHead = 800;
  constexpr uint64_t kInterpreter = 1024;
  constexpr uint64_t kThread = 2048;
  constexpr uint64_t kFrame = 2304;
  constexpr uint64_t kCode = 2560;
  constexpr uint64_t kText = 2944;
  constexpr uint64_t kBytes = 3072;
  constexpr uint64_t kTypes = 3200;  // of code, of str, of bytes: 512 bytes each
  constexpr uint64_t kCopies = 4800;
  Words words(5120);
  words.PutText(0, "xdebugpy");
  words.Put(8, 0x030e07f0);
  words.Put(16, 1);
  const std::pair<uint64_t, uint64_t> kOffsets[] = {
      {5, kHead}, {8, 8},    {9, 16},   {12, 40}, {13, 48}, {15, 56},  {24, 8},   {27, 16},
      {26, 24},   {28, 32},  {33, 0},   {32, 8},  {34, 16}, {36, 24},  {35, 40},  {38, 32},
      {40, 128},  {41, 136}, {42, 144}, {44, 88}, {45, 72}, {43, 152}, {48, 216}, {49, 224},
      {50, 32},   {51, 24},  {57, 40},  {79, 32}, {78, 48}, {80, 56},  {75, 32},  {76, 48}};
  for (const auto& [word, offset] : kOffsets) words.Put(8 * word, offset);
  words.Point(kHead, kInterpreter);
  words.Point(kInterpreter + 16, kThread);
  words.Point(kThread + 16, kThread + 128);
  words.Point(kThread + 128, kThread + 128);
  words.Point(kThread + 24, kFrame);
  words.Point(kFrame, kCode);
  words.Point(kFrame + 16, kCopies + 70);
  words.Put(kFrame + 32, 1);
  words.Point(kCode + 24, kTypes);
  for (const uint64_t field : {128, 136, 144}) words.Point(kCode + field, kText);
  words.Point(kCode + 152, kBytes);
  words.Point(kCode + 224, kCopies);
  words.Put(kCopies, 2);
  words.Point(kCopies + 8, kCode + 216);
  words.Point(kCopies + 16, kCopies + 64);
  words.Point(kText + 24, kTypes + 512);
  words.Put(kText + 32, 1);
  words.Put(kText + 48, 1 << 8 | 1 << 11 | 1 << 12);
  words.PutText(kText + 56, "f");
  words.Point(kBytes + 24, kTypes + 1024);
  for (uint64_t i = 0; i < 3; ++i) {
    constexpr std::string_view kNames[] = {"code", "str", "bytes"};
    constexpr uint64_t kFlags[] = {0, uint64_t{1} << 28, uint64_t{1} << 27};
    const uint64_t type = kTypes + 512 * i;
    words.Point(type + 40, type + 480);
    words.Put(type + 184, kFlags[i]);
    words.PutText(type + 480, kNames[i]);
  }
  return words.Take();
}

// A list of two operators, as libstdc++ lays it out since C++11.
std::string Dispatcher() {
  constexpr uint64_t kList = 64;
  constexpr uint64_t kNodes[] = {512, 1536};
  Words words(3072);
  words.Point(0, kList);
  words.Point(kList, kNodes[0]);
  words.Point(kList + 8, kNodes[1]);
  const auto put_string = [&](uint64_t at, std::string_view text) {
    words.Point(at, at + 16);
    words.Put(at + 8, text.size());
    words.PutText(at + 16, text);
  };
  for (const size_t i : {0, 1}) {
    const uint64_t node = kNodes[i];
    words.Point(node, i == 0 ? kNodes[1] : kList);
    words.Point(node + 8, i == 0 ? kList : kNodes[0]);
    put_string(node + 16, i == 0 ? "aten::add" : "aten::mm");
    put_string(node + 48, i == 0 ? "Tensor" : "");
    // Its schema repeats the name; arguments and returns are empty.
    put_string(node + 80, i == 0 ? "aten::add" : "aten::mm");
    put_string(node + 112, i == 0 ? "Tensor" : "");
    words.Put(node + 80 + 120 + 32, 1);
  }
  return words.Take();
}

// Two lists of libraries: struct r_debug_extended, and entries of struct link_map.
std::string Linker() {
  Words words(512);
  for (const uint64_t debug : {0, 64}) {
    words.Put(debug, 2);
    words.Point(debug + 8, debug == 0 ? 128 : 256);
  }
  words.Point(40, 64);
  words.Point(128 + 24, 192);
  return words.Take();
}

// A process group of rank 1 of 4, named "0".
std::string Group() {
  Words words(512);
  constexpr uint64_t kObject = 256;
  words.Point(0, 8);
  words.Point(kObject, 8);
  words.Put(kObject + 8, 1);
  words.Put(kObject + 16, uint64_t{4} << 32 | 1);
  for (const uint64_t text : {32, 64}) {
    words.Point(kObject + text, kObject + text + 16);
    words.Put(kObject + text + 8, 1);
    words.Put(kObject + text + 16, '0');
  }
  return words.Take();
}

}  // namespace

std::map<std::string, MemorySeed> MemorySeeds() {
  return {{"python_3_13", {4, Python(true)}},
          {"python_3_14", {5, Python(false)}},
          {"python_3_14t", {5, FreeThreadedPython()}},
          {"python_3_11", {2, Python(true)}},
          {"dispatcher", {6, Dispatcher()}},
          {"linker", {7, Linker()}},
          {"group", {8, Group()}},
          {"old_strings", {-124, Dispatcher()}}};
}

}  // namespace proftrace
