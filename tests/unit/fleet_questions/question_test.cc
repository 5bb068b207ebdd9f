#include "userspace/fleet_questions/question.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "userspace/base/exit_status.h"
#include "userspace/fleet_questions/fleet_tables.h"

namespace proftrace {
namespace {

TEST(QuestionTest, EachHasATitleAndANameOfItsOwn) {
  std::set<std::string_view> names;
  for (const Question& question : Questions()) {
    EXPECT_TRUE(names.insert(question.name).second) << question.name;
    EXPECT_TRUE(question.title.ends_with('.') || question.title.ends_with('?')) << question.title;
    EXPECT_TRUE(CheckOneStatement(question.text).ok()) << question.name;
  }
  // In SQL a view and a table of one name could not be told apart.
  for (const FleetTable& table : FleetTables()) {
    const Question* const question = FindQuestion(table.name);
    EXPECT_TRUE(question == nullptr || !question->is_view) << table.name;
  }
  EXPECT_GE(names.size(), 30);
}

TEST(QuestionTest, IsFoundWithAndWithoutItsNumber) {
  ASSERT_NE(FindQuestion("stragglers"), nullptr);
  EXPECT_EQ(FindQuestion("11_stragglers"), FindQuestion("stragglers"));
  EXPECT_EQ(FindQuestion("11_stragglers.sql"), FindQuestion("stragglers"));
  EXPECT_EQ(FindQuestion("xx_stragglers"), nullptr);
  EXPECT_EQ(FindQuestion(""), nullptr);
}

TEST(QuestionTest, BareSqlHasNoCommentsOutsideOfTexts) {
  EXPECT_EQ(BareSql("-- a;\nSELECT 1 -- b\n;\n;"), "SELECT 1");
  EXPECT_EQ(BareSql("SELECT '--' /* x ; */, \"/*\" ;"), "SELECT '--'  , \"/*\"");
  EXPECT_EQ(BareSql("SELECT 'it''s -- no'"), "SELECT 'it''s -- no'");
  EXPECT_EQ(BareSql("/* open"), "");
}

TEST(QuestionTest, OneStatementIsOne) {
  for (const char* text :
       {"SELECT 1", "SELECT ';';", "SELECT 1 /* ; */ -- ;", "SELECT \";\"", "SELECT $$ ; $$"}) {
    EXPECT_TRUE(CheckOneStatement(text).ok()) << text;
  }
  for (const char* text : {"", ";", "-- nothing", "SELECT 1; SELECT 2", "SELECT 1;\n.shell ls"}) {
    EXPECT_EQ(ExitCodeOf(CheckOneStatement(text)), ExitCode::kUsage) << text;
  }
}

TEST(QuestionTest, ViewsThatViewsNeedComeFirst) {
  const auto views = ViewsOf({"SELECT * FROM ranks"});
  std::set<std::string_view> seen;
  for (const Question* view : views) {
    for (const Question* needed : ViewsOf({view->text})) {
      if (needed != view) EXPECT_EQ(seen.count(needed->name), 1) << view->name;
    }
    seen.insert(view->name);
  }
  EXPECT_EQ(views.back()->name, "ranks");
  EXPECT_EQ(seen.count("collective_instances"), 0);
  EXPECT_TRUE(ViewsOf({"SELECT my_ranks, ranks_ FROM steps -- ranks"}).empty());
}

}  // namespace
}  // namespace proftrace
