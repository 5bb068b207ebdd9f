// In place of libFuzzer: runs the target over files, then over random changes of them.
//   symbols_fuzz ROUNDS SEED FILE...
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

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
    LLVMFuzzerTestOneInput(good.data(), good.size());
    for (unsigned long round = 0; round < rounds && good.size() > 1; ++round) {
      std::vector<uint8_t> bad = good;
      const size_t changes = 1 + random() % 8;
      for (size_t change = 0; change < changes; ++change) {
        // Byte 0 chooses the parser; half of the changes go to the first bytes, where the headers
        // are.
        const size_t reach = random() % 2 == 0 ? std::min<size_t>(bad.size(), 512) : bad.size();
        uint8_t& byte = bad[1 + random() % (reach - 1)];
        byte = static_cast<uint8_t>(random() % 3 == 0 ? 0xff : random());
      }
      if (random() % 8 == 0) bad.resize(1 + random() % bad.size());
      LLVMFuzzerTestOneInput(bad.data(), bad.size());
    }
  }
  return 0;
}
