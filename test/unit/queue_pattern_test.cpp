#include "core/queue_pattern.h"

#include <gtest/gtest.h>

#include <string>

namespace jobq::core {
namespace {

int one_byte(const char *) { return 1; }

// The number of bytes of a character in UTF-8.
int utf8(const char *at) {
    const auto byte = static_cast<unsigned char>(*at);
    return byte < 0xc0 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}

bool matches(std::string_view pattern, std::string_view name) { return matches_pattern(pattern, name, utf8); }

TEST(QueuePattern, OrdinaryCharactersMatchThemselves) {
    EXPECT_TRUE(matches("mail", "mail"));
    EXPECT_FALSE(matches("mail", "mails"));
    EXPECT_FALSE(matches("mails", "mail"));
    EXPECT_FALSE(matches("mail", "Mail"));
    EXPECT_FALSE(matches("", "mail"));
    EXPECT_TRUE(matches("", ""));
}

TEST(QueuePattern, PercentMatchesAnyCharacters) {
    for (const char *name : {"", "a", "mail", "a%b"}) EXPECT_TRUE(matches("%", name)) << name;
    EXPECT_TRUE(matches("%il", "mail"));
    EXPECT_TRUE(matches("m%", "mail"));
    EXPECT_TRUE(matches("m%%l", "mail"));
    EXPECT_TRUE(matches("%a%a%", "banana"));
    EXPECT_FALSE(matches("%x%", "banana"));
    EXPECT_TRUE(matches("%ana", "banana"));
    EXPECT_FALSE(matches("b%ana_", "banana"));
}

TEST(QueuePattern, UnderscoreMatchesOneCharacter) {
    EXPECT_TRUE(matches("m__l", "mail"));
    EXPECT_FALSE(matches("mail_", "mail"));
    EXPECT_TRUE(matches("_", "\xc3\xbc"));
    EXPECT_FALSE(matches("__", "\xc3\xbc"));
    EXPECT_TRUE(matches_pattern("__", "\xc3\xbc", one_byte));
    EXPECT_TRUE(matches("%_", "a\xc3\xbc"));
    // A name that ends in the middle of a character.
    EXPECT_TRUE(matches("_", "\xc3"));
}

TEST(QueuePattern, BackslashMakesACharacterOrdinary) {
    EXPECT_TRUE(matches("100\\%", "100%"));
    EXPECT_FALSE(matches("100\\%", "1000"));
    EXPECT_TRUE(matches("a\\_b", "a_b"));
    EXPECT_FALSE(matches("a\\_b", "acb"));
    EXPECT_TRUE(matches("\\\\", "\\"));
    EXPECT_TRUE(matches("\\a", "a"));
    EXPECT_TRUE(matches("%\\%", "50%"));
    EXPECT_FALSE(matches("a\\", "a"));
}

TEST(QueuePattern, ABackslashNeedsACharacter) {
    EXPECT_TRUE(is_whole_pattern("a\\\\"));
    EXPECT_TRUE(is_whole_pattern(""));
    EXPECT_FALSE(is_whole_pattern("\\"));
    EXPECT_FALSE(is_whole_pattern("a\\\\\\"));
}

TEST(QueuePattern, AHostilePatternTakesLittleTime) {
    std::string pattern;
    for (int i = 0; i < 40; i++) pattern += "%a";
    EXPECT_FALSE(matches(pattern, std::string(62, 'a').substr(0, 39) + "b"));
    EXPECT_TRUE(matches(pattern, std::string(40, 'a')));
}

TEST(QueueOrder, AQueueIsFirstAsOftenAsItsWeightSays) {
    int first = 0;
    constexpr int kSteps = 400;
    // All pairs of equidistant random numbers.
    for (int a = 0; a < kSteps; a++)
        for (int b = 0; b < kSteps; b++)
            first += place_in_random_order((a + 0.5) / kSteps, 3) < place_in_random_order((b + 0.25) / kSteps, 1);
    EXPECT_NEAR(static_cast<double>(first) / (kSteps * kSteps), 0.75, 0.01);
    EXPECT_GE(place_in_random_order(0, 1), 0);
}

}  // namespace
}  // namespace jobq::core
