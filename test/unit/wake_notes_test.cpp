#include "wait/wake_notes_policy.h"

#include <gtest/gtest.h>

#include <memory>

namespace jobq::core {
namespace {

constexpr std::uint32_t kHere = 1, kElsewhere = 2;

std::unique_ptr<WakeNotes> no_notes() { return std::make_unique<WakeNotes>(); }

TEST(WakeNotes, EndOneWaitOfTheWorkerTheyAreFor) {
    const auto notes = no_notes();
    leave_note(notes.get(), kHere, 7, 0);
    EXPECT_FALSE(take_note(notes.get(), kHere, 8, 0));
    EXPECT_FALSE(take_note(notes.get(), kElsewhere, 7, 0));
    EXPECT_TRUE(take_note(notes.get(), kHere, 7, 0));
    EXPECT_FALSE(take_note(notes.get(), kHere, 7, 0));
}

TEST(WakeNotes, AreOneForEachWorkerHoweverOftenItIsWoken) {
    const auto notes = no_notes();
    for (int i = 0; i < 3 * kWakeNotes; i++) leave_note(notes.get(), kHere, 7, i);
    EXPECT_EQ(notes->used, 1);
    EXPECT_TRUE(take_note(notes.get(), kHere, 7, 3 * kWakeNotes));
    EXPECT_EQ(notes->used, 0);
}

TEST(WakeNotes, AreForgottenInTime) {
    const auto notes = no_notes();
    leave_note(notes.get(), kHere, 7, 0);
    leave_note(notes.get(), kHere, 8, 1);
    EXPECT_TRUE(take_note(notes.get(), kHere, 7, kWakeNoteKept));
    leave_note(notes.get(), kHere, 7, 1);
    EXPECT_FALSE(take_note(notes.get(), kHere, 7, kWakeNoteKept + 2));
    EXPECT_EQ(notes->used, 0) << "the other's, too";
}

TEST(WakeNotes, TheOldestGivesWay) {
    const auto notes = no_notes();
    for (int worker = 1; worker <= kWakeNotes + 2; worker++) leave_note(notes.get(), kHere, worker, worker);
    EXPECT_EQ(notes->used, kWakeNotes);
    const Micros now = kWakeNotes + 2;
    EXPECT_FALSE(take_note(notes.get(), kHere, 2, now));
    EXPECT_TRUE(take_note(notes.get(), kHere, 3, now));
    EXPECT_TRUE(take_note(notes.get(), kHere, kWakeNotes + 2, now));
}

TEST(WakeNotes, OnlyTheOwnOneIsTakenBack) {
    const auto notes = no_notes();
    const std::uint64_t first = leave_note(notes.get(), kHere, 7, 0);
    const std::uint64_t second = leave_note(notes.get(), kHere, 7, 0);
    take_back_note(notes.get(), first);
    EXPECT_EQ(notes->used, 1) << "somebody else has woken the worker since";
    take_back_note(notes.get(), second);
    EXPECT_EQ(notes->used, 0);
    take_back_note(notes.get(), second);
    EXPECT_FALSE(take_note(notes.get(), kHere, 7, 0));
}

TEST(WakeNotes, KeysTellNamesApart) {
    EXPECT_EQ(worker_key("w"), worker_key("w"));
    EXPECT_NE(worker_key("w"), worker_key("W"));
    EXPECT_NE(worker_key(""), 0);
}

}  // namespace
}  // namespace jobq::core
