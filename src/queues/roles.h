// The privileges of the four kinds of jobq roles, for all queues or for some.
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

// Grants privileges to the role or revokes them. Keeps privileges that another kind of the role still needs. Raises
// 42704 for an unknown role, 42501 if the current user lacks the privileges, and 55000 if the role has all queues but
// the change names some. Call them inside with_spi().
void grant_kind(const RoleChange &change);
void revoke_kind(const RoleChange &change);

// Returns whether roles of this kind may call the function.
bool kind_calls(RoleKind kind, const char *function);

// These functions consider only what was granted to the role itself, not to PUBLIC or to roles that it is a member of.
// Call them with SPI open, inside as_owner_now().
bool holds_kind(Oid role, RoleKind kind, Oid schema);
bool is_restricted(Oid role, RoleKind kind);
// Returns rows (queue).
Rows queues_granted(Oid role, RoleKind kind);

}  // namespace jobq
