// See handler_session.h.
#include "compat/pg.h"

#include "handlers/handler_session.h"

extern "C" {
#include "commands/async.h"
#include "commands/prepare.h"
#include "commands/sequence.h"
}

namespace jobq {

namespace {

struct OwnSetting {
    const char *name, *value;
};
constexpr OwnSetting kOwnSettings[] = {{"role", "none"},
                                       {"default_transaction_isolation", "read committed"},
                                       {"default_transaction_read_only", "off"},
                                       {"default_transaction_deferrable", "off"}};

}  // namespace

void reset_settings() {
    if (OidIsValid(GetCurrentRoleId()) || GetSessionUserId() != GetAuthenticatedUserId())
        SetPGVariable("session_authorization", NIL, false);
    ResetAllOptions();
}

// Discards the state in the same order as the server's DiscardAll().
void discard_session() {
    PortalHashTableDeleteAll();
    reset_settings();
    DropAllPreparedStatements();
    Async_UnlistenAll();
    LockReleaseAll(USER_LOCKMETHOD, true);
    ResetTempTableNamespace();
    ResetSequenceCaches();
}

void apply_settings(const Handler &handler) {
    for (int i = 0; i < handler.setting_count; i++)
        set_config_option(handler.settings[i].name, handler.settings[i].value, superuser() ? PGC_SUSET : PGC_USERSET,
                          PGC_S_SESSION, GUC_ACTION_SET, true, 0, false);
}

void use_settings_of_executors() {
    for (const OwnSetting &setting : kOwnSettings)
        SetConfigOption(setting.name, setting.value, PGC_SUSET, PGC_S_OVERRIDE);
}

}  // namespace jobq
