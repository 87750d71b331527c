// Removes the settings of kinds. Call these functions inside with_spi().
#pragma once

#include "compat/pg.h"

namespace jobq {

// Deletes the row of settings of the kind. Returns false if there was none.
bool drop_kind(text *queue, text *kind);
// Removes the settings of the kind whose names are in `settings` (text[]). If one of the backoff settings is in the
// list, removes all of them, because each of them changes the meaning of the others. Deletes the row if it has no
// settings left. Returns false if the kind had none of these settings.
bool drop_settings_of_kind(text *queue, text *kind, Datum settings);

}  // namespace jobq
