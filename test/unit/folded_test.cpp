#include "core/folded.h"

#include <gtest/gtest.h>

namespace {

struct Item {
    int key;
    int sum;
};
using List = jobq::core::Folded<Item, 5, 2>;

Item *find(List *list, int key) {
    return list->find(static_cast<std::uint64_t>(key), [key](const Item &item) { return item.key == key; });
}

void add(List *list, int key, int more) {
    if (Item *known = find(list, key))
        known->sum += more;
    else
        list->add(static_cast<std::uint64_t>(key), {key, more});
}

TEST(Folded, FindsAddedEntriesInAnyBucket) {
    List list = {};
    for (int round = 0; round < 3; round++)
        for (const int key : {1, 2, 3, 4}) add(&list, key, key);
    EXPECT_EQ(list.count, 4);
    for (const int key : {1, 2, 3, 4}) EXPECT_EQ(find(&list, key)->sum, 3 * key);
    EXPECT_EQ(find(&list, 5), nullptr);
}

TEST(Folded, HasAFixedCapacity) {
    List list = {};
    for (int key = 0; key < 5; key++) EXPECT_NE(list.add(7, {key, 0}), nullptr);
    EXPECT_EQ(list.add(7, {5, 0}), nullptr);
    EXPECT_EQ(list.count, 5);
}

TEST(Folded, PopsTheNewestEntryAndStillFindsTheOthers) {
    List list = {};
    list.add(1, {1, 10});
    list.add(3, {3, 30});
    list.add(1, {1, 11});
    EXPECT_EQ(find(&list, 1)->sum, 11);
    list.pop();
    EXPECT_EQ(list.items[2].sum, 11);
    EXPECT_EQ(find(&list, 1)->sum, 10);
    list.clear();
    EXPECT_EQ(find(&list, 1), nullptr);
    EXPECT_EQ(find(&list, 3), nullptr);
    EXPECT_EQ(list.begin(), list.end());
    add(&list, 3, 1);
    EXPECT_EQ(find(&list, 3)->sum, 1);
}

}  // namespace
