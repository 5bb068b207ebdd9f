// An interpreter as far as its garbage collector goes: local, without a name, and what it says is
// in a part of it that the compiler puts apart.
#include <cstdio>

namespace {

volatile int debug = 0;
volatile int garbage = 3;

[[gnu::cold, gnu::noinline]] void Say(const char* text, int number) {
  std::fprintf(stderr, text, number);
}

[[gnu::noinline]] int Collect(int generation) {
  if (debug != 0) Say("gc: collecting generation %d...\n", generation);
  int collected = 0;
  for (int i = 0; i < garbage; ++i) collected += i * generation;
  if (debug != 0) Say("gc: done, %d unreachable\n", collected);
  return collected;
}

[[gnu::noinline]] int Other(int generation) {
  if (debug != 0) Say("nothing is collected in %d\n", generation);
  return generation + garbage;
}

}  // namespace

extern "C" {

[[gnu::visibility("default")]] long PyGC_Collect() {
  const int collected = Collect(2);
  return Other(1) + collected;
}

[[gnu::visibility("default")]] void* CollectorAddress() {
  return reinterpret_cast<void*>(&Collect);
}

}  // extern "C"
