#!/usr/bin/env python3
"""Checks what check-sizes.py measures, and when it complains."""

from __future__ import annotations

import importlib.util
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[3] / "scripts/check-sizes.py"
spec = importlib.util.spec_from_file_location("check_sizes", SCRIPT)
assert spec is not None and spec.loader is not None
check = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = check
spec.loader.exec_module(check)

HEADER = """// A class { with a brace in its comment
#define BRACE {
namespace proftrace {

struct Row {
  int one = 0;
  int two = 0;
};

class Engine final : public Base {
 public:
  Engine(int a, std::map<int, int> b, std::function<void(int, int)> c = {}, char d = ',');
  explicit Engine(std::string name)
      : name_(std::move(name)), sizes_{1, 2} {
    Begin("{", '{', R"(}})");
  }
  Engine(const Engine&) = delete;
  int size() const { return size_; }
  bool operator==(const Engine& other) const { return size_ == other.size_; }

 private:
  class Inner;
  static constexpr int kMost = 4;
  friend class Other;
  using Map = std::map<int, int>;
  void Begin(const char*, char, const char*);

  std::string name_;
  std::vector<int> sizes_{1, 2};
  std::function<void(int)> tell_;
  int size_ = 0, most_ = 1'000;
  Map map_;  // by name; and by size
};

}  // namespace proftrace
"""
SOURCE = """namespace proftrace {
namespace {

const std::vector<int> kTable = {
    1,
    2,
};

template <typename T>
int Free(const T& value,
         int more = 2) {
  const auto inner = [&](int x) {
    return x;
  };
  struct stat file {};
  if (value) {
    return inner(more);
  }
  return 0;
}

}  // namespace

void Engine::Begin(const char* text, char one,
                   const char* raw) {
  // A comment is no line of it.

  name_ = text;
}

}  // namespace proftrace
"""


class SizesTest(unittest.TestCase):
    def measure(self) -> dict[tuple[str, str], int]:
        with tempfile.TemporaryDirectory() as folder:
            paths = []
            for name, text in (("engine.h", HEADER), ("engine.cc", SOURCE)):
                paths.append(str(Path(folder) / name))
                Path(paths[-1]).write_text(text, encoding="utf-8")
            return {(size.kind, size.name): size.size for size in check.measure(paths)}

    def test_functions_have_their_lines(self) -> None:
        sizes = self.measure()
        self.assertEqual({name: size for (kind, name), size in sizes.items() if kind == "function"},
                         {"Free": 12, "Engine::Begin": 4, "Engine::Engine": 4, "Engine::size": 1, "Engine::operator": 1})

    def test_a_class_has_its_methods_of_all_files_and_its_members(self) -> None:
        sizes = self.measure()
        self.assertEqual(sizes["methods", "Engine"], 10)
        self.assertEqual(sizes["members", "Engine"], 6)
        self.assertNotIn(("members", "Row"), sizes)

    def test_a_constructor_has_its_parameters(self) -> None:
        self.assertEqual(self.measure()["parameters", "Engine"], 4)

    def test_an_exception_allows_just_what_there_is(self) -> None:
        sizes = [check.Size("function", "Long", 70, "x.cc:1"), check.Size("members", "Small", 3, "x.h")]

        def found(text: str) -> list[str]:
            return list(check.findings(sizes, check.read_exceptions(text)))

        self.assertEqual(found("# a note\n\nfunction Long 70 one case a kind\n"), [])
        self.assertRegex(" ".join(found("")), "^x.cc:1: function of Long: 70, at most 60$")
        self.assertRegex(" ".join(found("function Long 65 one case a kind\n")), "70, at most 65")
        self.assertRegex(" ".join(found("function Long 80 one case a kind\n")), "is 70 now: write that")
        self.assertRegex(" ".join(found("function Long 70 so\nmembers Small 20 so\n")), "Small needs no exception any more")
        self.assertRegex(" ".join(found("function Long 70 so\nmembers Gone 20 so\n")), "Gone needs no exception any more")
        for wrong in ("function Long 70\n", "lines Long 70 why\n", "function Long many why\n"):
            with self.assertRaises(ValueError):
                check.read_exceptions(wrong)


if __name__ == "__main__":
    unittest.main()
