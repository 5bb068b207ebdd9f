#include "userspace/model/span_columns.h"

#include <gtest/gtest.h>

namespace proftrace {
namespace {

TEST(SpanColumnTest, ExistsFromItsFirstItemOn) {
  SpanColumn<SpanSequence> column("");
  EXPECT_FALSE(column.exists());
  EXPECT_EQ(column.at(SpanId{7}).number_plus_1, 0);
  ASSERT_TRUE(column.Set(SpanId{7}, SpanSequence{.number_plus_1 = 5, .forward_tid = 42}).ok());
  EXPECT_TRUE(column.exists());
  EXPECT_EQ(column.at(SpanId{7}).number_plus_1, 5);
  EXPECT_EQ(column.at(SpanId{7}).forward_tid, 42u);
}

TEST(SpanColumnTest, SpansWithoutAnItemReadAsZeros) {
  SpanColumn<SpanSequence> column("");
  constexpr uint32_t kFar = 3 * ChunkStore<SpanSequence>::kChunkItems + 1;
  ASSERT_TRUE(column.Set(SpanId{kFar}, SpanSequence{1, 2, 0}).ok());
  ASSERT_TRUE(column.Set(SpanId{3}, SpanSequence{9, 0, 0}).ok());
  EXPECT_EQ(column.at(SpanId{kFar}).number_plus_1, 1);
  EXPECT_EQ(column.at(SpanId{3}).number_plus_1, 9);
  EXPECT_EQ(column.at(SpanId{kFar - 1}).number_plus_1, 0);
  EXPECT_EQ(column.at(SpanId{kFar + 1}).number_plus_1, 0);
}

TEST(ChunkStoreTest, KeepsWhatIsSpilled) {
  ChunkStore<uint64_t> store("", /*memory_bytes=*/0);
  constexpr uint32_t kCount = 5 * ChunkStore<uint64_t>::kChunkItems / 2;
  for (uint32_t i = 0; i < kCount; ++i) ASSERT_TRUE(store.Append(i * uint64_t{3}).ok());
  for (uint32_t chunk = 0; chunk < store.chunk_count(); ++chunk) store.Release(chunk);
  ASSERT_EQ(store.size(), kCount);
  for (uint32_t i = 0; i < kCount; ++i) ASSERT_EQ(store.at(i), i * uint64_t{3});
}

TEST(ChunkStoreTest, SaysWhyItCannotGrow) {
  ChunkStore<uint64_t> store("/nonexistent", /*memory_bytes=*/0);
  const absl::Status status = store.Append(1);
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find("/nonexistent"), std::string::npos) << status;
  EXPECT_EQ(store.size(), 0u);
}

}  // namespace
}  // namespace proftrace
