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

// Grant the privileges of a kind to a role, or revoke them. revoke_kind() keeps privileges that the role still needs
// for another kind. Both raise 42704 if the role does not exist, 42501 if the current user may not grant the
// privileges, and 55000 if the role has the kind for all queues but the change names some queues. Call them inside
// with_spi().
void grant_kind(const RoleChange &change);
void revoke_kind(const RoleChange &change);

// Returns whether roles of this kind may call the function.
bool kind_calls(RoleKind kind, const char *function);

// Return whether a kind was granted to the role, and whether it was granted for some queues only. These functions
// consider only privileges granted to the role itself, not to PUBLIC or to roles of which it is a member. Call them
// with SPI open, inside as_owner_now().
bool holds_kind(Oid role, RoleKind kind, Oid schema);
bool is_restricted(Oid role, RoleKind kind);
// Returns the queues for which the kind was granted to the role, as rows (queue).
Rows queues_granted(Oid role, RoleKind kind);

}  // namespace jobq
