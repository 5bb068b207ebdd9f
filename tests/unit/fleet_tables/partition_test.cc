#include <gmock/gmock.h>

#include <set>

#include "userspace/fleet_tables/fleet_directory.h"

namespace proftrace {
namespace {

TEST(PartitionFolder, PlainNamesStay) {
  EXPECT_EQ(PartitionFolder("of_host", "node-7.rack_2"), "of_host=node-7.rack_2");
  EXPECT_EQ(PartitionFolder("of_rank", "12"), "of_rank=12");
  EXPECT_EQ(PartitionFolder("of_job", ""), "of_job=-");
}

TEST(PartitionFolder, OtherNamesLeadNowhere) {
  EXPECT_EQ(PartitionFolder("of_host", "../a b"), "of_host=..%2Fa%20b");
  EXPECT_EQ(PartitionFolder("of_host", std::string("\0\n%", 3)), "of_host=%00%0A%25");
  std::set<std::string> folders;
  for (const std::string& name :
       {std::string(5000, 'x'), std::string(5001, 'x'), std::string(5000, '/'),
        std::string(5001, '/'), std::string(4999, '/') + "x"}) {
    const std::string folder = PartitionFolder("of_job", name);
    EXPECT_LE(folder.size(), 200U);
    EXPECT_EQ(folder.find('/'), std::string::npos);
    EXPECT_TRUE(folders.insert(folder).second);
  }
}

}  // namespace
}  // namespace proftrace
