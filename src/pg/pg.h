// The only server prelude: every shell file includes this first. All differences between server versions live here.
#pragma once

#ifdef JOBQ_CORE_ONLY
#error "core code must not see the server"
#endif

extern "C" {
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_type_d.h"
#include "commands/trigger.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
}

#if PG_VERSION_NUM < 150000
#error "jobq needs PostgreSQL 15 or newer"
#endif

#if PG_VERSION_NUM < 170000
// Intervals are finite before PostgreSQL 17.
#define INTERVAL_NOT_FINITE(interval) ((void)(interval), false)
#endif

#if PG_VERSION_NUM >= 160000
// One function for all kinds of objects since PostgreSQL 16.
#define pg_database_ownercheck(database, role) object_ownercheck(DatabaseRelationId, database, role)
#endif
