#include "waiters/wake_notes_policy.h"

#include <gtest/gtest.h>

#include <memory>

namespace jobq::core {
namespace {

constexpr std::uint32_t kHere = 1, kElsewhere = 2;

std::unique_ptr<WakeNotes> no_notes() { return std::make_unique<WakeNotes>(); }

TEST(WakeNotes, EndOneWaitOfTheirWorker) {
    const auto notes = no_notes();
    leave_note(notes.get(), kHere, 7, 0);
    EXPECT_FALSE(take_note(notes.get(), kHere, 8, 0));
    EXPECT_FALSE(take_note(notes.get(), kElsewhere, 7, 0));
    EXPECT_TRUE(take_note(notes.get(), kHere, 7, 0));
    EXPECT_FALSE(take_note(notes.get(), kHere, 7, 0));
}

TEST(WakeNotes, ExistAtMostOncePerWorker) {
    const auto notes = no_notes();
    for (int i = 0; i < 3 * kWakeNotes; i++) leave_note(notes.get(), kHere, 7, i);
    EXPECT_EQ(notes->used, 1);
    EXPECT_TRUE(take_note(notes.get(), kHere, 7, 3 * kWakeNotes));
    EXPECT_EQ(notes->used, 0);
}

TEST(WakeNotes, Expire) {
    const auto notes = no_notes();
    leave_note(notes.get(), kHere, 7, 0);
    leave_note(notes.get(), kHere, 8, 1);
    EXPECT_TRUE(take_note(notes.get(), kHere, 7, kWakeNoteKept));
    leave_note(notes.get(), kHere, 7, 1);
    EXPECT_FALSE(take_note(notes.get(), kHere, 7, kWakeNoteKept + 2));
    EXPECT_EQ(notes->used, 0) << "the note of the other worker has expired, too";
}

TEST(WakeNotes, TheOldestIsEvicted) {
    const auto notes = no_notes();
    for (int worker = 1; worker <= kWakeNotes + 2; worker++) leave_note(notes.get(), kHere, worker, worker);
    EXPECT_EQ(notes->used, kWakeNotes);
    EXPECT_EQ(notes->evicted, 2u);
    const Micros now = kWakeNotes + 2;
    EXPECT_FALSE(take_note(notes.get(), kHere, 2, now));
    EXPECT_TRUE(take_note(notes.get(), kHere, 3, now));
    EXPECT_TRUE(take_note(notes.get(), kHere, kWakeNotes + 2, now));
}

TEST(WakeNotes, ADatabaseDoesNotEvictTheNotesOfOthers) {
    const auto notes = no_notes();
    for (int worker = 1; worker <= 10; worker++) leave_note(notes.get(), kHere, worker, worker);
    for (int worker = 1; worker <= 3 * kWakeNotes; worker++) leave_note(notes.get(), kElsewhere, worker, 10);
    EXPECT_EQ(notes->used, kWakeNotes);
    for (int worker = 1; worker <= 10; worker++) EXPECT_TRUE(take_note(notes.get(), kHere, worker, 10)) << worker;
    EXPECT_TRUE(take_note(notes.get(), kElsewhere, 3 * kWakeNotes, 10));
}

TEST(WakeNotes, ADatabaseWithFewNotesCanAddMore) {
    const auto notes = no_notes();
    for (int worker = 1; worker <= kWakeNotes; worker++) leave_note(notes.get(), kElsewhere, worker, 0);
    for (int worker = 1; worker <= kWakeNotes; worker++) leave_note(notes.get(), kHere, worker, 0);
    int here = 0, elsewhere = 0;
    for (int worker = 1; worker <= kWakeNotes; worker++) {
        here += take_note(notes.get(), kHere, worker, 0);
        elsewhere += take_note(notes.get(), kElsewhere, worker, 0);
    }
    EXPECT_EQ(here, kWakeNotes / 2);
    EXPECT_EQ(elsewhere, kWakeNotes / 2);
}

TEST(WakeNotes, OfDatabasesWithEquallyManyTheOneWithTheOldestLosesANote) {
    const auto notes = no_notes();
    for (int database = 1; database <= kWakeNotes + 1; database++) leave_note(notes.get(), database, 7, 0);
    EXPECT_FALSE(take_note(notes.get(), 1, 7, 0));
    EXPECT_TRUE(take_note(notes.get(), 2, 7, 0));
    EXPECT_TRUE(take_note(notes.get(), kWakeNotes + 1, 7, 0));
}

TEST(WakeNotes, ExpiredOnesAreEvictedFirst) {
    const auto notes = no_notes();
    leave_note(notes.get(), kElsewhere, 1, 0);
    for (int worker = 1; worker < kWakeNotes; worker++) leave_note(notes.get(), kHere, worker, 1);
    leave_note(notes.get(), kHere, kWakeNotes, kWakeNoteKept + 1);
    EXPECT_EQ(notes->used, kWakeNotes);
    EXPECT_TRUE(take_note(notes.get(), kHere, 1, kWakeNoteKept + 1)) << "the note of the other database was too old";
}

TEST(WakeNotes, OnlyTheOwnNoteIsTakenBack) {
    const auto notes = no_notes();
    const std::uint64_t first = leave_note(notes.get(), kHere, 7, 0);
    const std::uint64_t second = leave_note(notes.get(), kHere, 7, 0);
    take_back_note(notes.get(), first);
    EXPECT_EQ(notes->used, 1) << "another session has woken up the worker since";
    take_back_note(notes.get(), second);
    EXPECT_EQ(notes->used, 0);
    take_back_note(notes.get(), second);
    EXPECT_FALSE(take_note(notes.get(), kHere, 7, 0));
}

TEST(WakeNotes, KeysDistinguishNames) {
    EXPECT_EQ(worker_key("w"), worker_key("w"));
    EXPECT_NE(worker_key("w"), worker_key("W"));
    EXPECT_NE(worker_key(""), 0);
}

}  // namespace
}  // namespace jobq::core
