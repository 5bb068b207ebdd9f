// The grid of a screen, and what makes a terminal show it.
#include "userspace/top/screen_difference.h"

#include <gtest/gtest.h>

#include <charconv>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "userspace/base/utf8.h"

namespace proftrace {
namespace {

// A terminal that knows what ScreenDifference() may say; anything else fails the test.
class FakeTerminal {
 public:
  FakeTerminal(int rows, int columns) : rows_(rows), columns_(columns) {
    cells_.assign(static_cast<size_t>(rows) * static_cast<size_t>(columns), U'X');
  }

  void Take(std::string_view bytes) {
    while (!bytes.empty() && !testing::Test::HasFatalFailure()) {
      if (bytes[0] == '\x1b') {
        Sequence(&bytes);
        continue;
      }
      size_t invalid = 0;
      const size_t length = Utf8Length(bytes, &invalid);
      ASSERT_GT(length, 0u);
      Put(CodePointOf(bytes.substr(0, length)));
      bytes.remove_prefix(length);
    }
  }

  std::string Row(int row) const {
    std::string text;
    for (int column = 0; column < columns_; ++column) {
      const char32_t code = cells_[Index(row, column)];
      if (code != 0) AppendUtf8(code, &text);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return text;
  }

 private:
  size_t Index(int row, int column) const {
    return static_cast<size_t>(row) * static_cast<size_t>(columns_) + static_cast<size_t>(column);
  }

  void Put(char32_t code) {
    ASSERT_GE(code, 0x20u);
    const int width = ColumnsOf(code);
    ASSERT_GT(width, 0);
    ASSERT_LE(column_ + width, columns_) << "a line would wrap";
    Overwrite(column_);
    if (width == 2) Overwrite(column_ + 1);
    cells_[Index(row_, column_)] = code;
    if (width == 2) cells_[Index(row_, column_ + 1)] = 0;
    column_ += width;
  }

  // What is half overwritten is gone, as on real terminals.
  void Overwrite(int column) {
    if (cells_[Index(row_, column)] == 0 && column > 0) cells_[Index(row_, column - 1)] = U' ';
    if (column + 1 < columns_ && cells_[Index(row_, column + 1)] == 0) {
      cells_[Index(row_, column + 1)] = U' ';
    }
  }

  void Sequence(std::string_view* bytes) {
    ASSERT_GE(bytes->size(), 3u);
    ASSERT_EQ((*bytes)[1], '[');
    size_t end = 2;
    while (end < bytes->size() && ((*bytes)[end] == ';' || isdigit((*bytes)[end]) != 0)) ++end;
    ASSERT_LT(end, bytes->size());
    const std::string_view numbers = bytes->substr(2, end - 2);
    switch ((*bytes)[end]) {
      case 'H': {
        const size_t middle = numbers.find(';');
        std::from_chars(numbers.data(), numbers.data() + middle, row_);
        std::from_chars(numbers.data() + middle + 1, numbers.data() + numbers.size(), column_);
        --row_;
        --column_;
        ASSERT_TRUE(row_ >= 0 && row_ < rows_ && column_ >= 0 && column_ < columns_);
        break;
      }
      case 'J':
        ASSERT_EQ(numbers, "2");
        for (char32_t& code : cells_) code = U' ';
        break;
      case 'm':
        break;
      default:
        FAIL() << "unknown sequence";
    }
    bytes->remove_prefix(end + 1);
  }

  int rows_;
  int columns_;
  int row_ = 0;
  int column_ = 0;
  std::vector<char32_t> cells_;
};

TEST(TextGridTest, TextIsCutAndTheCutIsMarked) {
  TextGrid grid(1, 10, /*is_utf8=*/true);
  EXPECT_EQ(grid.Put(0, 2, "abcdefghijk"), 10);
  EXPECT_EQ(grid.RowText(0), "  abcdefg…");
  TextGrid ascii(1, 10, /*is_utf8=*/false);
  ascii.Put(0, 2, "abcdefghijk");
  EXPECT_EQ(ascii.RowText(0), "  abcdefg~");
}

TEST(TextGridTest, ATextThatJustFitsIsWhole) {
  TextGrid grid(1, 5, true);
  EXPECT_EQ(grid.Put(0, 0, "abcde"), 5);
  EXPECT_EQ(grid.RowText(0), "abcde");
  EXPECT_EQ(grid.Put(0, 1, "xy", TextStyle::kPlain, 3), 3);
  EXPECT_EQ(grid.RowText(0), "axyde");
}

TEST(TextGridTest, WideCharactersTakeTwoColumnsAndMarksNone) {
  TextGrid grid(1, 20, true);
  EXPECT_EQ(grid.Put(0, 0, "模型e\u0301x"), 6);
  EXPECT_EQ(grid.at(0, 1).code, U'\0');
  EXPECT_EQ(grid.RowText(0), "模型ex");
  EXPECT_EQ(ColumnsOf("模型", true), 4);
  TextGrid narrow(1, 4, true);
  EXPECT_EQ(narrow.Put(0, 0, "a模型"), 4);  // no half of a character
  EXPECT_EQ(narrow.RowText(0), "a模…");
}

TEST(TextGridTest, WithoutUtf8OtherCharactersAreQuestionMarks) {
  TextGrid grid(1, 10, false);
  grid.Put(0, 0, "a模é");
  EXPECT_EQ(grid.RowText(0), "a??");
}

TEST(TextGridTest, NamesCannotCommandTheTerminal) {
  TextGrid grid(1, 80, true);
  grid.Put(0, 0, "a\x1b]0;title\x07 b\nc\rd\x9b!p \u202e\u200b \xff");
  const std::string bytes = ScreenDifference(nullptr, grid, true);
  for (const char c : bytes.substr(std::string_view("\x1b[0m\x1b[2J").size())) {
    const auto byte = static_cast<unsigned char>(c);
    EXPECT_TRUE(byte >= 0x20 || byte == 0x1b) << int{byte};
    EXPECT_NE(byte, 0x7f);
  }
  EXPECT_EQ(bytes.find("\x1b]"), std::string::npos);
  EXPECT_EQ(bytes.find("\u202e"), std::string::npos);
  EXPECT_EQ(bytes.find("\u200b"), std::string::npos);
  EXPECT_NE(grid.RowText(0).find("\\x1b]0;title\\x07"), std::string::npos);
}

TEST(TextGridTest, OutsideOfTheGridNothingIsPut) {
  TextGrid grid(2, 3, true);
  grid.Put(-1, 0, "a");
  grid.Put(2, 0, "a");
  grid.Put(0, 7, "a");
  grid.Put(0, -2, "a");
  grid.Paint(5, 0, 3, TextStyle::kBold);
  EXPECT_EQ(grid.Text(), "");
  TextGrid nothing(0, 0, true);
  nothing.Put(0, 0, "a");
  EXPECT_EQ(nothing.Text(), "");
}

TEST(ScreenDifferenceTest, NothingIsSaidWhereNothingChanged) {
  TextGrid grid(3, 20, true);
  grid.Put(1, 2, "steps");
  EXPECT_EQ(ScreenDifference(&grid, grid, true), "");
}

TEST(ScreenDifferenceTest, OneChangedCharacterIsOneCharacter) {
  TextGrid before(3, 20, true);
  before.Put(1, 2, "12 ms");
  TextGrid after(3, 20, true);
  after.Put(1, 2, "13 ms");
  EXPECT_EQ(ScreenDifference(&before, after, true), "\x1b[2;4H\x1b[0m3\x1b[0m");
}

TEST(ScreenDifferenceTest, ColoursAreLeftOutAndBoldIsNot) {
  TextGrid grid(1, 20, true);
  grid.Put(0, 0, "a", TextStyle::kGood);
  grid.Put(0, 1, "b", TextStyle::kBad);
  EXPECT_NE(ScreenDifference(nullptr, grid, true).find("[0;32m"), std::string::npos);
  const std::string plain = ScreenDifference(nullptr, grid, false);
  EXPECT_EQ(plain.find(";3"), std::string::npos);
  EXPECT_NE(plain.find("[0;1m"), std::string::npos);
}

// Whatever was on the screen, what the terminal shows afterwards is the grid.
TEST(ScreenDifferenceTest, ATerminalShowsWhatTheGridHas) {
  const std::vector<std::string> words = {"aten::mm", "模型", "é", " ", "█▁", "…", "x", "   "};
  std::mt19937 random(7);
  const auto draw = [&](int rows, int columns) {
    TextGrid grid(rows, columns, true);
    for (int i = 0; i < 12; ++i) {
      grid.Put(static_cast<int>(random() % static_cast<unsigned>(rows)),
               static_cast<int>(random() % static_cast<unsigned>(columns)),
               words[random() % words.size()] + words[random() % words.size()],
               static_cast<TextStyle>(random() % 7));
    }
    return grid;
  };
  for (int round = 0; round < 50; ++round) {
    const int rows = 1 + static_cast<int>(random() % 6);
    const int columns = 2 + static_cast<int>(random() % 30);
    FakeTerminal terminal(rows, columns);
    TextGrid shown = draw(rows, columns);
    terminal.Take(ScreenDifference(nullptr, shown, true));
    for (int step = 0; step < 20; ++step) {
      for (int row = 0; row < rows; ++row) ASSERT_EQ(terminal.Row(row), shown.RowText(row));
      TextGrid next = draw(rows, columns);
      terminal.Take(ScreenDifference(&shown, next, true));
      shown = next;
    }
  }
}

}  // namespace
}  // namespace proftrace
