// Reads the settings of a queue or a kind from the arguments of a function, checks them, and writes them to
// jobq.queue_settings or jobq.kind_settings.
#pragma once

#include "compat/pg.h"
#include "core/queue_settings.h"

namespace jobq {

// The settings that the caller passes, in the order of core::SettingNumber. All other settings get their defaults when
// a row is created and keep their values when a row is changed.
struct GivenSettings {
    Datum values[core::kQueueSettings];
    bool given[core::kQueueSettings];

    bool has(core::SettingNumber number) const { return given[static_cast<int>(number)]; }
    Datum get(core::SettingNumber number) const { return values[static_cast<int>(number)]; }
    void set(core::SettingNumber number, Datum value) {
        given[static_cast<int>(number)] = true;
        values[static_cast<int>(number)] = value;
    }
};

// Reads and checks the arguments that contain the settings of this level, beginning with argument number `first`.
// `queue` is the queue whose settings, or whose kind's settings, change.
GivenSettings settings_arguments(FunctionCallInfo fcinfo, int first, core::SettingLevel level, const text *queue);

// Call the following functions inside with_spi().

// Locks the queue and its dead letter queue until the transaction ends, if the settings concern failed jobs. Must be
// called before the settings are written. Without the locks, one session could make a queue a dead letter queue while
// another session sets keep_failed of that queue to 0, and neither would see the other's change. The caller has
// privileges on both queues, so it cannot block operators of other queues.
void lock_dead_letters(const text *queue, const GivenSettings &settings);
// Raises an error if a dead letter queue would keep no failed jobs. Must be called after the settings have been
// written.
void refuse_unkept_dead_letters(text *queue, const GivenSettings &written);

// Raises a NOTICE for each name in the setting `limits` that does not limit the jobs of the queue.
void warn_of_unknown_limits(const text *queue, const GivenSettings &settings);

// Creates the queue's row of settings. Returns false if the queue already has settings.
bool create_queue(text *queue, const GivenSettings &settings);
// Changes the settings of the queue or of the kind. Creates their row if there is none.
void alter_queue(text *queue, const GivenSettings &settings);
void alter_kind(text *queue, text *kind, const GivenSettings &settings);

}  // namespace jobq
