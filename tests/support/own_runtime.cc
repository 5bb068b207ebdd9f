// Throws and catches. Its library brings its C++ runtime along.
#include <stdexcept>

extern "C" __attribute__((visibility("default"))) int CatchOwn(int value) {
  try {
    if (value > 0) throw std::runtime_error("planned");
  } catch (const std::exception&) {
    return 1;
  }
  return 0;
}
