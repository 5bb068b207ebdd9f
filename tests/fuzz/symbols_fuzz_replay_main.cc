// In place of libFuzzer: runs the target over files, then over random changes of them. Fails where
// one takes more processor time than a reader's budget allows.
//   symbols_fuzz ROUNDS SEED FILE...
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

#include "userspace/base/clock.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

// With sanitizers, which make a reader ten times slower.
constexpr int64_t kLongestNs = 20'000'000'000;

struct {
  unsigned long inputs = 0;
  int64_t slowest_ns = 0;
} g_done;

void Run(const std::vector<uint8_t>& input) {
  const int64_t begin_ns = proftrace::ThreadCpuNs();
  LLVMFuzzerTestOneInput(input.data(), input.size());
  g_done.slowest_ns = std::max(g_done.slowest_ns, proftrace::ThreadCpuNs() - begin_ns);
  ++g_done.inputs;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: symbols_fuzz ROUNDS SEED FILE...\n");
    return 2;
  }
  const unsigned long rounds = std::strtoul(argv[1], nullptr, 10);
  std::mt19937 random(static_cast<uint32_t>(std::strtoul(argv[2], nullptr, 10)));
  for (int i = 3; i < argc; ++i) {
    std::ifstream in(argv[i], std::ios::binary);
    const std::vector<char> text((std::istreambuf_iterator<char>(in)), {});
    const std::vector<uint8_t> good(text.begin(), text.end());
    Run(good);
    for (unsigned long round = 0; round < rounds && good.size() > 1; ++round) {
      std::vector<uint8_t> bad = good;
      const size_t changes = 1 + random() % 8;
      for (size_t change = 0; change < changes; ++change) {
        // Byte 0 chooses the parser; half of the changes go to the first bytes, where the headers
        // are.
        const size_t reach = random() % 2 == 0 ? std::min<size_t>(bad.size(), 512) : bad.size();
        uint8_t& byte = bad[1 + random() % (reach - 1)];
        byte = static_cast<uint8_t>(random() % 3 == 0 ? 0xff : random());
        // Whole words: offsets, sizes and counts at the ends of what they can be.
        if (random() % 4 != 0 || bad.size() < 16) continue;
        static constexpr uint64_t kEdges[] = {0, 1, 8, 128, 59992, 0x7fffffff, 1ULL << 40, ~0ULL};
        const uint64_t word = kEdges[random() % std::size(kEdges)];
        const size_t at = 1 + (random() % (bad.size() / 8 - 1)) * 8;
        std::memcpy(&bad[at], &word, sizeof(word));
      }
      if (random() % 8 == 0) bad.resize(1 + random() % bad.size());
      Run(bad);
    }
  }
  std::printf("%lu inputs, seed %s, slowest %.1f ms\n", g_done.inputs, argv[2],
              static_cast<double>(g_done.slowest_ns) / 1e6);
  return g_done.slowest_ns > kLongestNs ? 1 : 0;
}
