// The privileges of jobq's four kinds of role, for all queues or for some.
#pragma once

#include "compat/args.h"
#include "compat/pg.h"
#include "compat/spi.h"

#include <string_view>

namespace jobq {

enum class RoleKind { Producer, Worker, Operator, Monitor };

constexpr RoleKind kRoleKinds[] = {RoleKind::Producer, RoleKind::Worker, RoleKind::Operator, RoleKind::Monitor};
constexpr std::string_view kRoleKindNames[] = {"producer", "worker", "operator", "monitor"};

// What jobq_grant and jobq_revoke are told.
struct RoleChange {
    const char *role;
    RoleKind kind;
    bool all_queues;
    Names queues;  // unless it is all
    Oid schema;    // that holds the public functions
};

// GRANTs to or REVOKEs from the role; what another kind that the role holds still needs is kept. 42704 for an unknown
// role, 42501 when the current user may not, 55000 where the role has all queues and the change is about some.
// Inside with_spi().
void grant_kind(const RoleChange &change);
void revoke_kind(const RoleChange &change);

// Whether it is a function for this kind of role.
bool kind_calls(RoleKind kind, const char *function);

// What the role itself was granted, not PUBLIC or a role it is a member of. With SPI open, inside as_owner_now().
bool holds_kind(Oid role, RoleKind kind, Oid schema);
bool is_restricted(Oid role, RoleKind kind);
// Rows (queue).
Rows queues_granted(Oid role, RoleKind kind);

}  // namespace jobq
