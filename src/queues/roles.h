// Grants and revokes the privileges of the four kinds of jobq roles, for all queues or for some queues.
#pragma once

#include "compat/args.h"
#include "compat/pg.h"
#include "compat/spi.h"

#include <string_view>

namespace jobq {

enum class RoleKind { Producer, Worker, Operator, Monitor };

constexpr RoleKind kRoleKinds[] = {RoleKind::Producer, RoleKind::Worker, RoleKind::Operator, RoleKind::Monitor};
constexpr std::string_view kRoleKindNames[] = {"producer", "worker", "operator", "monitor"};

// The arguments of jobq_grant and jobq_revoke.
struct RoleChange {
    const char *role;
    RoleKind kind;
    bool all_queues;
    Names queues;  // used if all_queues is false
    Oid schema;    // schema of the public functions
};

// These functions grant the privileges of a kind to a role, or revoke them. revoke_kind() keeps the privileges that the
// role still needs for another kind. Both functions raise 42704 if the role does not exist, 42501 if the current user
// is not allowed to grant the privileges, and 55000 if the role has the kind for all queues but the change names some
// queues. Call them inside with_spi().
void grant_kind(const RoleChange &change);
void revoke_kind(const RoleChange &change);

// Returns whether roles of this kind are allowed to call the function.
bool kind_calls(RoleKind kind, const char *function);

// holds_kind() returns whether a kind was granted to the role, and is_restricted() returns whether it was granted for
// some queues only. These functions consider only privileges granted to the role itself, not to PUBLIC or to roles of
// which it is a member. Call them inside with_owner_spi_now().
bool holds_kind(Oid role, RoleKind kind, Oid schema);
bool is_restricted(Oid role, RoleKind kind);
// Returns the queues for which the kind was granted to the role, as rows (queue).
Rows queues_granted(Oid role, RoleKind kind);

}  // namespace jobq
