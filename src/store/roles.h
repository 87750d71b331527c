// The store, administrators' side: the privileges of jobq's four kinds of role.
#pragma once

#include "pg/pg.h"

#include <string_view>

namespace jobq {

enum class RoleKind { Producer, Worker, Operator, Monitor };

bool parse_role_kind(std::string_view name, RoleKind *kind);

// GRANTs to or REVOKEs from the role; what another kind that the role holds still needs is kept. `schema` is the one
// that holds the public functions. 42704 for an unknown role, 42501 when the current user may not. Inside with_spi().
void change_privileges(const char *role, RoleKind kind, bool grant, Oid schema);

}  // namespace jobq
